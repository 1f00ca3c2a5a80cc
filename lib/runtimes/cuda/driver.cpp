#include "driver.h"

#include <dlfcn.h>

#include <algorithm>

namespace cuda {
namespace {

bool fill(DriverTable& table, void* library) {
  bool complete = true;
  auto find = [library](const char* symbol, auto& slot) {
    slot = reinterpret_cast<std::remove_reference_t<decltype(slot)>>(dlsym(library, symbol));
    return slot != nullptr;
  };
#define CUDA_FIND(name, symbol, parameters) complete &= find(symbol, table.name);
  CUDA_REQUIRED(CUDA_FIND)
#undef CUDA_FIND
#define CUDA_FIND(name, symbol, parameters) find(symbol, table.name);
  CUDA_OPTIONAL(CUDA_FIND)
#undef CUDA_FIND
  return complete;
}

Driver load() {
  Driver d;
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library || !fill(d.call, library)) return d;
  if (hip::Error error = d.call.cuInit(0); error != hip::kSuccess) {
    d.status = error;
    return d;
  }
  d.call.cuDriverGetVersion(&d.version);
  int count = 0;
  if (d.call.cuDeviceGetCount(&count) != hip::kSuccess) return d;
  count = std::min(count, kMostDevices);
  while (d.count < count &&
         d.call.cuDeviceGet(&d.devices[static_cast<size_t>(d.count)], d.count) == hip::kSuccess)
    d.count++;
  d.status = d.count > 0 ? hip::kSuccess : hip::kErrorNoDevice;
  return d;
}

}  // namespace

const Driver& driver() {
  static const Driver instance = load();
  return instance;
}

}  // namespace cuda
