// The driver as a whole, and its devices.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "driver.h"

using namespace fake_cuda;

bool fake_cuda::initialised = false;

int fake_cuda::device_count() {
  int count = 0;
  return forward<int*>("hipGetDeviceCount", &count) == hip::kSuccess ? count : 0;
}

CUDA_EXPORT Error cuInit(unsigned) {
  record("cuInit");
  if (const char* error = getenv("FAKE_CUDA_INIT")) return static_cast<Error>(atoi(error));
  initialised = true;
  return device_count() ? hip::kSuccess : hip::kErrorNoDevice;
}
CUDA_EXPORT Error cuDriverGetVersion(int* version) {
  *version = 13000;
  return hip::kSuccess;
}
CUDA_EXPORT Error cuDeviceGetCount(int* count) {
  *count = device_count();
  return hip::kSuccess;
}
CUDA_EXPORT Error cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return ordinal < device_count() ? hip::kSuccess : hip::kErrorInvalidDevice;
}
CUDA_EXPORT Error cuDeviceGetName(char* name, int length, int device) {
  snprintf(name, static_cast<size_t>(length), "Fake CUDA device %d", device);
  return hip::kSuccess;
}
CUDA_EXPORT Error cuDeviceGetUuid_v2(void* uuid, int device) {
  memset(uuid, 0x40 + device, 16);
  return hip::kSuccess;
}
CUDA_EXPORT Error cuDeviceTotalMem_v2(size_t* bytes, int) {
  *bytes = size_t{3} << 30;
  return hip::kSuccess;
}
/// An attribute's value is its number plus 1000, except where something depends on it.
CUDA_EXPORT Error cuDeviceGetAttribute(int* value, int attribute, int device) {
  record("cuDeviceGetAttribute", "%d", attribute);
  switch (attribute) {
    case 18:  // integrated
      *value = 0;
      break;
    case 33:  // PCI bus
      *value = 0xa0 + device;
      break;
    case 34:  // PCI device
      *value = 0x1f;
      break;
    case 50:  // PCI domain
      *value = 1;
      break;
    case 75:  // compute capability
      *value = 9;
      break;
    case 76:
      *value = 0;
      break;
    default:
      if (attribute > 147) return hip::kErrorInvalidValue;
      *value = attribute + 1000;
  }
  return hip::kSuccess;
}
CUDA_EXPORT Error cuDeviceGetByPCIBusId(int* device, const char* text) {
  unsigned domain = 0, bus = 0, slot = 0;
  if (sscanf(text, "%x:%x:%x.", &domain, &bus, &slot) != 3 || bus < 0xa0 ||  // NOLINT(cert-err34-c)
      static_cast<int>(bus) - 0xa0 >= device_count())
    return hip::kErrorInvalidDevice;
  *device = static_cast<int>(bus) - 0xa0;
  return hip::kSuccess;
}
CUDA_EXPORT Error cuDeviceCanAccessPeer(int* can, int device, int peer) {
  *can = device != peer;
  return hip::kSuccess;
}
CUDA_EXPORT Error cuGetErrorName(Error error, const char** text) {
  if (error != 220) return hip::kErrorInvalidValue;
  *text = "CUDA_ERROR_NVLINK_UNCORRECTABLE";
  return hip::kSuccess;
}
CUDA_EXPORT Error cuGetErrorString(Error error, const char** text) { return cuGetErrorName(error, text); }
