// Memory of others, by descriptors; and descriptors of this process's.
#include <unistd.h>

#include "driver.h"

using namespace fake_cuda;

CUDA_EXPORT Error cuMemGetHandleForAddressRange(void* handle, void* p, size_t size, int type,
                                                unsigned long long flags) {
  ENTER();
  return forward("hipMemGetHandleForAddressRange", handle, p, size, type, flags);
}
CUDA_EXPORT Error cuImportExternalMemory(hip::ExternalMemory* out,
                                         const hip::ExternalMemoryHandleDesc* desc) {
  ENTER();
  record("cuImportExternalMemory", "type %d", desc->type);
  Error error = forward("hipImportExternalMemory", out, desc);
  if (error == hip::kSuccess && desc->type == hip::kExternalMemoryOpaqueFd) close(desc->handle.fd);
  return error;
}
CUDA_EXPORT Error cuExternalMemoryGetMappedBuffer(void** out, hip::ExternalMemory memory,
                                                  const hip::ExternalMemoryBufferDesc* desc) {
  ENTER();
  return forward("hipExternalMemoryGetMappedBuffer", out, memory, desc);
}
CUDA_EXPORT Error cuDestroyExternalMemory(hip::ExternalMemory memory) {
  ENTER();
  return forward("hipDestroyExternalMemory", memory);
}
