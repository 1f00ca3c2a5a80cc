/* An ordinary HIP program: memory, copies, a stream, an event, a host function. Knows nothing of who serves it. */
#include <hip/hip_runtime_api.h>
#include <stdio.h>
#include <string.h>

#define CHECK(call)                                                                        \
  do {                                                                                     \
    hipError_t e = (call);                                                                 \
    if (e != hipSuccess) {                                                                 \
      fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, hipGetErrorString(e)); \
      return 1;                                                                            \
    }                                                                                      \
  } while (0)

static void mark(hipStream_t stream, hipError_t status, void* data) {
  (void)stream;
  (void)status;
  *(int*)data = 1;
}

int main(void) {
  int count = 0, marked = 0;
  CHECK(hipInit(0));
  CHECK(hipGetDeviceCount(&count));
  hipDeviceProp_t properties;
  CHECK(hipGetDeviceProperties(&properties, 0));
  printf("%d device(s): %s, %zu bytes\n", count, properties.name, properties.totalGlobalMem);
  if (!properties.name[0] || properties.totalGlobalMem == 0) return 1;
  char *device, *pinned;
  CHECK(hipMalloc((void**)&device, 1 << 20));
  CHECK(hipHostMalloc((void**)&pinned, 1 << 20, 0));
  memset(pinned, 'p', 1 << 20);
  hipStream_t stream;
  hipEvent_t event;
  CHECK(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
  CHECK(hipEventCreateWithFlags(&event, hipEventDisableTiming));
  CHECK(hipMemcpyAsync(device, pinned, 1 << 20, hipMemcpyHostToDevice, stream));
  CHECK(hipStreamAddCallback(stream, mark, &marked, 0));
  CHECK(hipEventRecord(event, stream));
  CHECK(hipEventSynchronize(event));
  if (!marked) return 1;
  char back[16];
  CHECK(hipMemcpy(back, device + 1000, sizeof back, hipMemcpyDeviceToHost));
  if (back[0] != 'p' || back[15] != 'p') return 1;
  hipPointerAttribute_t attributes;
  CHECK(hipPointerGetAttributes(&attributes, device + 5));
  hipDeviceptr_t base;
  size_t size;
  CHECK(hipMemGetAddressRange(&base, &size, device + 5));
  if (base != device || size != 1 << 20) return 1;
  hipIpcMemHandle_t handle;
  CHECK(hipIpcGetMemHandle(&handle, device));
  CHECK(hipFree(device));
  CHECK(hipHostFree(pinned));
  CHECK(hipEventDestroy(event));
  CHECK(hipStreamDestroy(stream));
  if (hipFree(device) == hipSuccess) return 1;
  puts("ok");
  return 0;
}
