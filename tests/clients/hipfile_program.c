/* A C11 client of hipFile with the distribution's HIP headers. */
#include <fcntl.h>
#include <hipfile.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define CHECK(condition)                                              \
  do {                                                                \
    if (!(condition)) {                                               \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      return 1;                                                       \
    }                                                                 \
  } while (0)

int main(void) {
  char name[] = "/var/tmp/hipfile_program_XXXXXX", text[] = "from file to device", back[sizeof text];
  int fd = mkstemp(name);
  CHECK(fd >= 0 && write(fd, text, sizeof text) == (ssize_t)sizeof text);
  unlink(name);
  CHECK(hipFileDriverOpen().err == hipFileSuccess);
  hipFileDescr_t descr;
  memset(&descr, 0, sizeof descr);
  descr.type = hipFileHandleTypeOpaqueFD;
  descr.handle.fd = fd;
  hipFileHandle_t handle;
  CHECK(hipFileHandleRegister(&handle, &descr).err == hipFileSuccess);
  void* device;
  CHECK(hipMalloc(&device, 4096) == hipSuccess);
  CHECK(hipFileBufRegister(device, 4096, 0).err == hipFileSuccess);
  CHECK(hipFileRead(handle, device, sizeof text, 0, 64) == (ssize_t)sizeof text);
  CHECK(hipMemcpy(back, (char*)device + 64, sizeof back, hipMemcpyDeviceToHost) == hipSuccess);
  CHECK(!strcmp(text, back));
  CHECK(IS_HIPFILE_ERR(hipFileRead(NULL, device, 1, 0, 0)));
  CHECK(hipFileBufDeregister(device).err == hipFileSuccess);
  hipFileHandleDeregister(handle);
  CHECK(hipFree(device) == hipSuccess);
  CHECK(hipFileDriverClose().err == hipFileSuccess);
  puts("ok");
  return 0;
}
