// Modules, which are texts here, and launches, which are recorded and run nothing.
#include <cstring>
#include <string>

#include "driver.h"

using namespace fake_cuda;

/// It runs nothing, so it has no binary for real images. Its own are texts that start with "fake"; their functions are
/// the words of it.
CUDA_EXPORT Error cuModuleLoadData(void** module, const void* image) {
  ENTER();
  if (strncmp(static_cast<const char*>(image), "fake", 4) != 0) return hip::kErrorNoBinaryForGpu;
  *module = new std::string(static_cast<const char*>(image));
  return hip::kSuccess;
}
CUDA_EXPORT Error cuModuleLoadDataEx(void** module, const void* image, unsigned, int*, void**) {
  return cuModuleLoadData(module, image);
}
CUDA_EXPORT Error cuModuleUnload(void* module) {
  ENTER();
  delete static_cast<std::string*>(module);
  return hip::kSuccess;
}
CUDA_EXPORT Error cuModuleGetFunction(void** function, void* module, const char* name) {
  ENTER();
  auto* text = static_cast<std::string*>(module);
  size_t at = text->find(name);
  if (at == std::string::npos) return hip::kErrorNotFound;
  *function = text->data() + at;
  return hip::kSuccess;
}
CUDA_EXPORT Error cuLaunchKernel(void*, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                                 unsigned bz, unsigned shared, hip::Stream stream, void** parameters,
                                 void** extra) {
  ENTER();
  int extras = 0;
  while (extra && extra[extras]) extras += 2;
  record("cuLaunchKernel", "%u %u %u / %u %u %u shared %u on %p parameters %d extras %d", gx, gy, gz, bx, by,
         bz, shared, static_cast<void*>(stream), parameters != nullptr, extras);
  return hip::kSuccess;
}
