#include "gpu/memory.h"

#include <cstdint>

namespace gpu {
namespace {

// hipMemoryType counts from 0 = host before HIP 6, from 0 = unregistered since.
enum class Type { unknown, host, device, managed };

Type translate(int major, const hip::PointerAttributes& a) {
  if (a.is_managed) return Type::managed;
  if (major < 6)
    return a.type == 0   ? Type::host
           : a.type == 1 ? Type::device
           : a.type == 4 ? Type::managed
                         : Type::unknown;
  return a.type == 1 ? Type::host : a.type == 2 ? Type::device : a.type == 3 ? Type::managed : Type::unknown;
}

}  // namespace

tl::expected<Memory, hip::Error> describe(const Runtime& runtime, const void* address) {
  hip::PointerAttributes attributes{};
  hip::Error error = runtime.hip().hipPointerGetAttributes(&attributes, address);
  if (error != hip::kSuccess) {
    runtime.hip().hipGetLastError();
    return tl::unexpected(error);
  }
  Type type = translate(runtime.major(), attributes);
  if (type == Type::unknown) return tl::unexpected(hip::kErrorInvalidValue);
  Memory m;
  m.address = static_cast<char*>(const_cast<void*>(address));
  m.device = attributes.device;
  m.kind = type == Type::device    ? MemoryKind::device
           : type == Type::managed ? MemoryKind::managed
                                   : MemoryKind::host;
  int integrated = 0;
  if (m.kind == MemoryKind::device && !runtime.device_memory_is_pages())
    runtime.hip().hipDeviceGetAttribute(&integrated, hip::kAttributeIntegrated, m.device);
  m.pages = m.kind != MemoryKind::device || runtime.device_memory_is_pages() ||
            (integrated && runtime.kind() == RuntimeKind::amd);
  void* base = nullptr;
  size_t size = 0;
  error = runtime.hip().hipMemGetAddressRange(&base, &size, m.address);
  if (error == hip::kSuccess) {
    m.length = size - static_cast<size_t>(m.address - static_cast<char*>(base));
  } else {
    runtime.hip().hipGetLastError();
    if (m.kind == MemoryKind::device) return tl::unexpected(error);
    m.length =
        SIZE_MAX - reinterpret_cast<uintptr_t>(address);  // the runtime does not say where host memory ends
  }
  return m;
}

}  // namespace gpu
