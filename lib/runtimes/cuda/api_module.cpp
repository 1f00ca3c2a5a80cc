// Kernels: modules of PTX, cubins or fat binaries, and entry points by name.
#include <dlfcn.h>

#include <cstring>
#include <vector>

#include "runtime.h"

using cuda::call;

namespace {

// hipModuleLaunchKernel's list of extras ends with 3, cuLaunchKernel's with 0.
std::vector<void*> translate_extras(void** extra) {
  const auto end = reinterpret_cast<void*>(uintptr_t{3});  // HIP_LAUNCH_PARAM_END
  std::vector<void*> out;
  for (; *extra && *extra != end; extra += 2) out.insert(out.end(), {extra[0], extra[1]});
  out.push_back(nullptr);
  return out;
}

}  // namespace

struct Dim3 {
  uint32_t x, y, z;
};

HIP_EXPORT hip::Error hipLaunchKernel(const void*, Dim3, Dim3, void**, size_t, hip::Stream) {
  HIP_ENTER();
  HIP_RETURN(hip::kErrorInvalidDeviceFunction);
}
HIP_EXPORT hip::Error hipModuleLoad(cuda::Module* module, const char* path) {
  HIP_ENTER();
  if (!module || !path) HIP_RETURN(hip::kErrorInvalidValue);
  HIP_RETURN(cuda::call_if(call().cuModuleLoad, module, path));
}
HIP_EXPORT hip::Error hipModuleLoadData(cuda::Module* module, const void* image) {
  HIP_ENTER();
  HIP_RETURN(module && image ? call().cuModuleLoadData(module, image) : hip::kErrorInvalidValue);
}
/// hipJitOption counts like CUjit_option as far as CUDA's go.
HIP_EXPORT hip::Error hipModuleLoadDataEx(cuda::Module* module, const void* image, unsigned count,
                                          int* options, void** values) {
  HIP_ENTER();
  if (!module || !image) HIP_RETURN(hip::kErrorInvalidValue);
  HIP_RETURN(cuda::call_if(call().cuModuleLoadDataEx, module, image, count, options, values));
}
HIP_EXPORT hip::Error hipModuleUnload(cuda::Module module) {
  HIP_ENTER();
  HIP_RETURN(module ? call().cuModuleUnload(module) : hip::kErrorInvalidHandle);
}
HIP_EXPORT hip::Error hipModuleGetFunction(cuda::Function* function, cuda::Module module, const char* name) {
  HIP_ENTER();
  if (!function || !name) HIP_RETURN(hip::kErrorInvalidValue);
  HIP_RETURN(module ? call().cuModuleGetFunction(function, module, name) : hip::kErrorInvalidHandle);
}
HIP_EXPORT hip::Error hipModuleLaunchKernel(cuda::Function function, unsigned grid_x, unsigned grid_y,
                                            unsigned grid_z, unsigned block_x, unsigned block_y,
                                            unsigned block_z, unsigned shared_bytes, hip::Stream stream,
                                            void** parameters, void** extra) {
  HIP_ENTER();
  if (!function) HIP_RETURN(hip::kErrorInvalidHandle);
  std::vector<void*> translated;
  if (extra) translated = translate_extras(extra);
  HIP_RETURN(call().cuLaunchKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes,
                                   stream, parameters, extra ? translated.data() : nullptr));
}

/// Finds what this library exports; it has no hipAmdFileRead.
HIP_EXPORT hip::Error hipGetProcAddress(const char* symbol, void** out, int, uint64_t, int* status) {
  HIP_ENTER_DRIVER();
  if (!symbol || !out) HIP_RETURN(hip::kErrorInvalidValue);
  *out = nullptr;
  Dl_info self;
  if (dladdr(reinterpret_cast<void*>(hipGetProcAddress), &self))
    if (void* library = dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD)) {
      *out = dlsym(library, symbol);
      dlclose(library);
    }
  if (status) *status = *out ? 0 : 1;  // hipDriverProcAddressQueryResult: success, symbol not found
  HIP_RETURN(*out ? hip::kSuccess : hip::kErrorInvalidValue);
}
