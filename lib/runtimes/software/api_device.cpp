// Devices, errors, versions, modules: the rest of what a file-I/O program asks a HIP runtime.
#include <cstdio>
#include <cstring>

#include "runtime.h"

using software::runtime;

namespace {

constexpr char kDeviceName[] = "Software HIP device (host memory)";

struct ErrorText {
  int number;
  const char* name;
  const char* text;
};
constexpr ErrorText kErrors[] = {
    {0, "hipSuccess", "no error"},
    {1, "hipErrorInvalidValue", "invalid argument"},
    {2, "hipErrorOutOfMemory", "out of memory"},
    {3, "hipErrorNotInitialized", "initialization error"},
    {4, "hipErrorDeinitialized", "driver shutting down"},
    {17, "hipErrorInvalidDevicePointer", "invalid device pointer"},
    {21, "hipErrorInvalidMemcpyDirection", "invalid copy direction for memcpy"},
    {98, "hipErrorInvalidDeviceFunction", "invalid device function"},
    {100, "hipErrorNoDevice", "no ROCm-capable device is detected"},
    {101, "hipErrorInvalidDevice", "invalid device ordinal"},
    {201, "hipErrorInvalidContext", "invalid device context"},
    {209, "hipErrorNoBinaryForGpu", "no kernel image is available for execution on the device"},
    {400, "hipErrorInvalidHandle", "invalid resource handle"},
    {500, "hipErrorNotFound", "named symbol not found"},
    {600, "hipErrorNotReady", "device not ready"},
    {700, "hipErrorIllegalAddress", "an illegal memory access was encountered"},
    {704, "hipErrorPeerAccessAlreadyEnabled", "peer access is already enabled"},
    {705, "hipErrorPeerAccessNotEnabled", "peer access has not been enabled"},
    {712, "hipErrorHostMemoryAlreadyRegistered",
     "part or all of the requested memory range is already mapped"},
    {713, "hipErrorHostMemoryNotRegistered", "pointer does not correspond to a registered memory region"},
    {719, "hipErrorLaunchFailure", "unspecified launch failure"},
    {801, "hipErrorNotSupported", "operation not supported"},
    {999, "hipErrorUnknown", "unknown error"},
};

const ErrorText& describe(int error) {
  for (const auto& e : kErrors)
    if (e.number == error) return e;
  return kErrors[std::size(kErrors) - 1];
}

// hipDeviceProp_t of HIP 5 (also what the unversioned name gives in later majors) and of HIP 6 and later.
struct PropertyLayout {
  size_t size, total_memory, warp_size, max_threads, processors, integrated, pci_bus, pci_device, pci_domain,
      arch;
};
constexpr PropertyLayout kR0000{792, 256, 276, 280, 336, 652, 368, 372, 364, 396};
constexpr PropertyLayout kR0600{1472, 288, 308, 320, 388, 396, 584, 588, 592, 1160};

hip::Error properties(void* out, int device, const PropertyLayout& at) {
  if (!out) return hip::kErrorInvalidValue;
  if (!software::valid_device(device)) return hip::kErrorInvalidDevice;
  char* p = static_cast<char*>(out);
  memset(p, 0, at.size);
  auto put = [p](size_t offset, auto value) { memcpy(p + offset, &value, sizeof value); };
  snprintf(p, 256, "%s", kDeviceName);
  put(at.total_memory, runtime().memory.total_bytes());
  put(at.warp_size, 64);
  put(at.max_threads, 1024);
  put(at.processors, 1);
  put(at.integrated, runtime().knobs.integrated ? 1 : 0);
  put(at.pci_bus, device);
  put(at.pci_device, 0);
  put(at.pci_domain, 0xffff);
  snprintf(p + at.arch, 64, "software");
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
  HIP_RETURN(properties(out, device, kR0000));
}
HIP_EXPORT hip::Error hipGetDevicePropertiesR0000(void* out, int device) {
  HIP_ENTER("hipGetDevicePropertiesR0000");
  HIP_RETURN(properties(out, device, kR0000));
}
HIP_EXPORT hip::Error hipGetDevicePropertiesR0600(void* out, int device) {
  HIP_ENTER("hipGetDevicePropertiesR0600");
  HIP_RETURN(properties(out, device, kR0600));
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
HIP_EXPORT const char* hipGetErrorName(int error) { return describe(error).name; }
HIP_EXPORT const char* hipGetErrorString(int error) { return describe(error).text; }
HIP_EXPORT hip::Error hipDrvGetErrorName(int error, const char** out) {
  if (!out) return hip::kErrorInvalidValue;
  *out = describe(error).name;
  return hip::kSuccess;
}
HIP_EXPORT hip::Error hipDrvGetErrorString(int error, const char** out) {
  if (!out) return hip::kErrorInvalidValue;
  *out = describe(error).text;
  return hip::kSuccess;
}

// ------------------------------------------------------------------------------------- kernels: there is no
// GPU

HIP_EXPORT void** __hipRegisterFatBinary(const void*) {
  static void* registered;
  return &registered;
}
HIP_EXPORT void __hipUnregisterFatBinary(void**) {}
HIP_EXPORT void __hipRegisterFunction(void**, const void*, char*, const char*, unsigned, void*, void*, void*,
                                      void*, int*) {}
HIP_EXPORT void __hipRegisterVar(void**, void*, char*, char*, int, size_t, int, int) {}
struct Dim3 {
  uint32_t x, y, z;
};
thread_local struct {
  Dim3 grid, block;
  size_t shared_bytes;
  hip::Stream stream;
} pushed_call;
HIP_EXPORT hip::Error __hipPushCallConfiguration(Dim3 grid, Dim3 block, size_t shared_bytes,
                                                 hip::Stream stream) {
  pushed_call = {grid, block, shared_bytes, stream};
  return hip::kSuccess;
}
HIP_EXPORT hip::Error __hipPopCallConfiguration(Dim3* grid, Dim3* block, size_t* shared_bytes,
                                                hip::Stream* stream) {
  *grid = pushed_call.grid;
  *block = pushed_call.block;
  *shared_bytes = pushed_call.shared_bytes;
  *stream = pushed_call.stream;
  return hip::kSuccess;
}
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
