// Devices, errors, versions, modules: the rest of what a file-I/O program asks a HIP runtime.
#include <cstdio>
#include <cstring>

#include "common/device_properties.h"
#include "common/error_text.h"
#include "runtime.h"

using software::runtime;

namespace {

constexpr char kDeviceName[] = "Software HIP device (host memory)";

hip::Error properties(void* out, int device, const runtimes::PropertyLayout& at) {
  if (!out) return hip::kErrorInvalidValue;
  if (!software::valid_device(device)) return hip::kErrorInvalidDevice;
  runtimes::DeviceProperties d;
  d.name = kDeviceName;
  d.architecture = "software";
  d.total_memory = runtime().memory.total_bytes();
  d.warp_size = 64;
  d.max_threads = 1024;
  d.processors = 1;
  d.integrated = runtime().knobs.integrated ? 1 : 0;
  d.pci_domain = 0xffff;
  d.pci_bus = device;
  runtimes::put_properties(out, d, at);
  return hip::kSuccess;
}

}  // namespace

HIP_EXPORT hip::Error hipInit(unsigned flags) {
  HIP_ENTER("hipInit");
  HIP_RETURN(flags ? hip::kErrorInvalidValue : hip::kSuccess);
}
HIP_EXPORT hip::Error hipGetDeviceCount(int* count) {
  HIP_ENTER("hipGetDeviceCount");
  if (!count) HIP_RETURN(hip::kErrorInvalidValue);
  *count = runtime().knobs.devices;
  HIP_RETURN(hip::kSuccess);
}
HIP_EXPORT hip::Error hipGetDevice(int* device) {
  HIP_ENTER("hipGetDevice");
  if (!device) HIP_RETURN(hip::kErrorInvalidValue);
  *device = software::current_device();
  HIP_RETURN(hip::kSuccess);
}
HIP_EXPORT hip::Error hipSetDevice(int device) {
  HIP_ENTER("hipSetDevice");
  HIP_RETURN(software::set_current_device(device));
}
HIP_EXPORT hip::Error hipDeviceGet(hip::Device* out, int ordinal) {
  HIP_ENTER("hipDeviceGet");
  if (!out || !software::valid_device(ordinal)) HIP_RETURN(hip::kErrorInvalidDevice);
  *out = ordinal;
  HIP_RETURN(hip::kSuccess);
}
HIP_EXPORT hip::Error hipDeviceSynchronize() {
  HIP_ENTER("hipDeviceSynchronize");
  runtime().streams.drain(software::current_device());
  HIP_RETURN(hip::kSuccess);
}
HIP_EXPORT hip::Error hipDeviceReset() {
  HIP_ENTER("hipDeviceReset");
  runtime().streams.drain(software::current_device());
  HIP_RETURN(hip::kSuccess);
}
HIP_EXPORT hip::Error hipDeviceCanAccessPeer(int* can, int device, int peer) {
  HIP_ENTER("hipDeviceCanAccessPeer");
  if (!can || !software::valid_device(device) || !software::valid_device(peer))
    HIP_RETURN(hip::kErrorInvalidDevice);
  *can = device != peer;
  HIP_RETURN(hip::kSuccess);
}
HIP_EXPORT hip::Error hipDeviceEnablePeerAccess(int peer, unsigned) {
  HIP_ENTER("hipDeviceEnablePeerAccess");
  HIP_RETURN(software::valid_device(peer) ? hip::kSuccess : hip::kErrorInvalidDevice);
}
HIP_EXPORT hip::Error hipDeviceDisablePeerAccess(int peer) {
  HIP_ENTER("hipDeviceDisablePeerAccess");
  HIP_RETURN(software::valid_device(peer) ? hip::kSuccess : hip::kErrorInvalidDevice);
}
HIP_EXPORT hip::Error hipDeviceGetAttribute(int* value, int attribute, int device) {
  HIP_ENTER("hipDeviceGetAttribute");
  if (!value) HIP_RETURN(hip::kErrorInvalidValue);
  if (!software::valid_device(device)) HIP_RETURN(hip::kErrorInvalidDevice);
  switch (attribute) {
    case hip::kAttributeIntegrated:
      *value = runtime().knobs.integrated;
      break;
    case hip::kAttributeManagedMemory:
    case hip::kAttributeUnifiedAddressing:
      *value = 1;
      break;
    case hip::kAttributeMaxThreadsPerBlock:
      *value = 1024;
      break;
    case hip::kAttributePciBusId:
      *value = device;
      break;
    case hip::kAttributeCanUseStreamWaitValue:
      *value = runtime().knobs.wait_value;
      break;
    default:
      *value = 0;
  }
  HIP_RETURN(hip::kSuccess);
}
HIP_EXPORT hip::Error hipDeviceGetName(char* name, int length, hip::Device device) {
  HIP_ENTER("hipDeviceGetName");
  if (!name || length <= 0) HIP_RETURN(hip::kErrorInvalidValue);
  if (!software::valid_device(device)) HIP_RETURN(hip::kErrorInvalidDevice);
  snprintf(name, static_cast<size_t>(length), "%s", kDeviceName);
  HIP_RETURN(hip::kSuccess);
}
HIP_EXPORT hip::Error hipDeviceGetUuid(void* uuid, hip::Device device) {
  HIP_ENTER("hipDeviceGetUuid");
  if (!uuid) HIP_RETURN(hip::kErrorInvalidValue);
  if (!software::valid_device(device)) HIP_RETURN(hip::kErrorInvalidDevice);
  memcpy(uuid, "software-device", 15);
  static_cast<char*>(uuid)[15] = static_cast<char>(device);
  HIP_RETURN(hip::kSuccess);
}
/// No PCI device has this domain: nothing on the bus stands behind a software device.
HIP_EXPORT hip::Error hipDeviceGetPCIBusId(char* out, int length, int device) {
  HIP_ENTER("hipDeviceGetPCIBusId");
  if (!out || length < 13) HIP_RETURN(hip::kErrorInvalidValue);
  if (!software::valid_device(device)) HIP_RETURN(hip::kErrorInvalidDevice);
  snprintf(out, static_cast<size_t>(length), "ffff:%02x:00.0", static_cast<unsigned>(device) & 0xff);
  HIP_RETURN(hip::kSuccess);
}
HIP_EXPORT hip::Error hipDeviceGetByPCIBusId(int* device, const char* text) {
  HIP_ENTER("hipDeviceGetByPCIBusId");
  unsigned bus = 0;
  if (!device || !text) HIP_RETURN(hip::kErrorInvalidValue);
  if (sscanf(text, "ffff:%x:", &bus) != 1 || !software::valid_device(static_cast<int>(bus)))  // NOLINT
    HIP_RETURN(hip::kErrorInvalidDevice);
  *device = static_cast<int>(bus);
  HIP_RETURN(hip::kSuccess);
}
HIP_EXPORT hip::Error hipGetDeviceProperties(void* out, int device) {
  HIP_ENTER("hipGetDeviceProperties");
  HIP_RETURN(properties(out, device, runtimes::kR0000));
}
HIP_EXPORT hip::Error hipGetDevicePropertiesR0000(void* out, int device) {
  HIP_ENTER("hipGetDevicePropertiesR0000");
  HIP_RETURN(properties(out, device, runtimes::kR0000));
}
HIP_EXPORT hip::Error hipGetDevicePropertiesR0600(void* out, int device) {
  HIP_ENTER("hipGetDevicePropertiesR0600");
  HIP_RETURN(properties(out, device, runtimes::kR0600));
}
HIP_EXPORT hip::Error hipRuntimeGetVersion(int* version) {
  if (!version) HIP_RETURN(hip::kErrorInvalidValue);
  *version = software::kVersion;
  HIP_RETURN(hip::kSuccess);
}
HIP_EXPORT hip::Error hipDriverGetVersion(int* version) {
  if (!version) HIP_RETURN(hip::kErrorInvalidValue);
  *version = software::kVersion;
  HIP_RETURN(hip::kSuccess);
}

// -------------------------------------------------------------------------------------------------------
// errors

HIP_EXPORT hip::Error hipGetLastError() { return software::take_last_error(true); }
HIP_EXPORT hip::Error hipPeekAtLastError() { return software::take_last_error(false); }
HIP_EXPORT hip::Error hipExtGetLastError() { return software::take_last_error(true); }
HIP_EXPORT const char* hipGetErrorName(int error) { return runtimes::describe_error(error).name; }
HIP_EXPORT const char* hipGetErrorString(int error) { return runtimes::describe_error(error).text; }
HIP_EXPORT hip::Error hipDrvGetErrorName(int error, const char** out) {
  if (!out) return hip::kErrorInvalidValue;
  *out = runtimes::describe_error(error).name;
  return hip::kSuccess;
}
HIP_EXPORT hip::Error hipDrvGetErrorString(int error, const char** out) {
  if (!out) return hip::kErrorInvalidValue;
  *out = runtimes::describe_error(error).text;
  return hip::kSuccess;
}

// ------------------------------------------------------------------------------------- kernels: there is no
// GPU

struct Dim3 {
  uint32_t x, y, z;
};
HIP_EXPORT hip::Error hipLaunchKernel(const void*, Dim3, Dim3, void**, size_t, hip::Stream) {
  HIP_ENTER("hipLaunchKernel");
  HIP_RETURN(hip::kErrorInvalidDeviceFunction);
}
HIP_EXPORT hip::Error hipModuleLoadData(void**, const void*) {
  HIP_ENTER("hipModuleLoadData");
  HIP_RETURN(hip::kErrorNoBinaryForGpu);
}
HIP_EXPORT hip::Error hipModuleUnload(void*) {
  HIP_ENTER("hipModuleUnload");
  HIP_RETURN(hip::kErrorInvalidHandle);
}
HIP_EXPORT hip::Error hipModuleGetFunction(void**, void*, const char*) {
  HIP_ENTER("hipModuleGetFunction");
  HIP_RETURN(hip::kErrorInvalidHandle);
}
HIP_EXPORT hip::Error hipModuleLaunchKernel(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                                            unsigned, hip::Stream, void**, void**) {
  HIP_ENTER("hipModuleLaunchKernel");
  HIP_RETURN(hip::kErrorInvalidHandle);
}
