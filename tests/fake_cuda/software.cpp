// The software HIP runtime, which lies beside this library.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "driver.h"

void* fake_cuda::software() {
  static void* library = [] {
    Dl_info self;
    dladdr(reinterpret_cast<void*>(fake_cuda::software), &self);
    std::string path(self.dli_fname);
    path = path.substr(0, path.rfind('/')) + "/../software6/libamdhip64.so.6";
    void* found = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!found) {
      fprintf(stderr, "fake libcuda: %s\n", dlerror());
      abort();
    }
    return found;
  }();
  return library;
}

CUDA_EXPORT hip::Error hipSoftwarePlanFaults(const char* spec) {
  return fake_cuda::forward("hipSoftwarePlanFaults", spec);
}
