// Devices, versions and errors.
#include <cstdio>
#include <cstring>

#include "attributes.h"
#include "common/device_properties.h"
#include "common/error_text.h"
#include "runtime.h"

using cuda::call;
using cuda::driver;

namespace {

int cu_device(int ordinal) { return driver().devices[static_cast<size_t>(ordinal)]; }

int attribute(int attribute, int ordinal) {
  int value = 0;
  return call().cuDeviceGetAttribute(&value, attribute, cu_device(ordinal)) == hip::kSuccess ? value : 0;
}

hip::Error get_attribute(int* value, int number, int ordinal) {
  if (!value) return hip::kErrorInvalidValue;
  if (!driver().valid(ordinal)) return hip::kErrorInvalidDevice;
  if (number == hip::kAttributeCanUseStreamWaitValue) {
    *value = call().cuStreamWaitValue64 &&
             (attribute(cuda::kStreamMemOps64, ordinal) || attribute(cuda::kStreamMemOps64V1, ordinal));
    return hip::kSuccess;
  }
  if (number == hip::kAttributeIsLargeBar) {  // no pointer of CUDA leads the CPU into device memory
    *value = 0;
    return hip::kSuccess;
  }
  const int mapped = cuda::cuda_attribute(number);
  if (mapped == cuda::kNoAttribute) return hip::kErrorInvalidValue;
  return call().cuDeviceGetAttribute(value, mapped, cu_device(ordinal));
}

hip::Error properties(void* out, int ordinal, const runtimes::PropertyLayout& at) {
  if (!out) return hip::kErrorInvalidValue;
  if (!driver().valid(ordinal)) return hip::kErrorInvalidDevice;
  char name[256] = "", architecture[32];
  call().cuDeviceGetName(name, sizeof name, cu_device(ordinal));
  snprintf(architecture, sizeof architecture, "sm_%d%d", attribute(cuda::kComputeCapabilityMajor, ordinal),
           attribute(cuda::kComputeCapabilityMinor, ordinal));
  size_t total = 0;
  call().cuDeviceTotalMem(&total, cu_device(ordinal));
  runtimes::DeviceProperties d;
  d.name = name;
  d.architecture = architecture;
  d.total_memory = total;
  d.warp_size = attribute(cuda::kWarpSize, ordinal);
  d.max_threads = attribute(cuda::kMaxThreadsPerBlock, ordinal);
  d.processors = attribute(cuda::kMultiprocessorCount, ordinal);
  d.integrated = attribute(cuda::kIntegrated, ordinal);
  d.pci_domain = attribute(cuda::kPciDomainId, ordinal);
  d.pci_bus = attribute(cuda::kPciBusId, ordinal);
  d.pci_device = attribute(cuda::kPciDeviceId, ordinal);
  runtimes::put_properties(out, d, at);
  return hip::kSuccess;
}

// Numbers that only CUDA has keep CUDA's names.
const char* text_of(int error, const char* runtimes::ErrorText::*field,
                    hip::Error (*cuda::DriverTable::*ask)(hip::Error, const char**)) {
  if (const auto* known = runtimes::find_error(error)) return known->*field;
  const char* text = nullptr;
  const auto function = call().*ask;
  if (function && function(static_cast<hip::Error>(error), &text) == hip::kSuccess && text) return text;
  return runtimes::describe_error(error).*field;
}

hip::Error give_text(const char** out, const char* text) {
  if (!out) return hip::kErrorInvalidValue;
  *out = text;
  return hip::kSuccess;
}

}  // namespace

HIP_EXPORT hip::Error hipInit(unsigned flags) {
  HIP_ENTER_DRIVER();
  HIP_RETURN(flags ? hip::kErrorInvalidValue : hip::kSuccess);
}
HIP_EXPORT hip::Error hipGetDeviceCount(int* count) {
  if (!count) HIP_RETURN(hip::kErrorInvalidValue);
  *count = 0;
  HIP_ENTER_DRIVER();
  *count = driver().count;
  HIP_RETURN(hip::kSuccess);
}
HIP_EXPORT hip::Error hipGetDevice(int* device) {
  HIP_ENTER_DRIVER();
  if (!device) HIP_RETURN(hip::kErrorInvalidValue);
  *device = cuda::current_device();
  HIP_RETURN(hip::kSuccess);
}
HIP_EXPORT hip::Error hipSetDevice(int device) {
  HIP_ENTER_DRIVER();
  HIP_RETURN(cuda::set_current_device(device));
}
HIP_EXPORT hip::Error hipDeviceGet(hip::Device* out, int ordinal) {
  HIP_ENTER_DRIVER();
  if (!out || !driver().valid(ordinal)) HIP_RETURN(hip::kErrorInvalidDevice);
  *out = ordinal;
  HIP_RETURN(hip::kSuccess);
}
HIP_EXPORT hip::Error hipDeviceSynchronize() {
  HIP_ENTER();
  HIP_RETURN(call().cuCtxSynchronize());
}
HIP_EXPORT hip::Error hipDeviceReset() {
  HIP_ENTER();
  HIP_RETURN(cuda::reset_device());
}
HIP_EXPORT hip::Error hipDeviceCanAccessPeer(int* can, int device, int peer) {
  HIP_ENTER_DRIVER();
  if (!can) HIP_RETURN(hip::kErrorInvalidValue);
  if (!driver().valid(device) || !driver().valid(peer)) HIP_RETURN(hip::kErrorInvalidDevice);
  HIP_RETURN(call().cuDeviceCanAccessPeer(can, cu_device(device), cu_device(peer)));
}
HIP_EXPORT hip::Error hipDeviceEnablePeerAccess(int peer, unsigned flags) {
  HIP_ENTER();
  if (flags) HIP_RETURN(hip::kErrorInvalidValue);
  if (!driver().valid(peer)) HIP_RETURN(hip::kErrorInvalidDevice);
  cuda::Context context = nullptr;
  hip::Error error = cuda::primary_context(peer, context);
  HIP_RETURN(error == hip::kSuccess ? call().cuCtxEnablePeerAccess(context, 0) : error);
}
HIP_EXPORT hip::Error hipDeviceDisablePeerAccess(int peer) {
  HIP_ENTER();
  if (!driver().valid(peer)) HIP_RETURN(hip::kErrorInvalidDevice);
  cuda::Context context = nullptr;
  hip::Error error = cuda::primary_context(peer, context);
  HIP_RETURN(error == hip::kSuccess ? call().cuCtxDisablePeerAccess(context) : error);
}
HIP_EXPORT hip::Error hipDeviceGetAttribute(int* value, int number, int device) {
  HIP_ENTER_DRIVER();
  HIP_RETURN(get_attribute(value, number, device));
}
HIP_EXPORT hip::Error hipDeviceGetName(char* name, int length, hip::Device device) {
  HIP_ENTER_DRIVER();
  if (!name || length <= 0) HIP_RETURN(hip::kErrorInvalidValue);
  if (!driver().valid(device)) HIP_RETURN(hip::kErrorInvalidDevice);
  HIP_RETURN(call().cuDeviceGetName(name, length, cu_device(device)));
}
HIP_EXPORT hip::Error hipDeviceGetUuid(void* uuid, hip::Device device) {
  HIP_ENTER_DRIVER();
  if (!uuid) HIP_RETURN(hip::kErrorInvalidValue);
  if (!driver().valid(device)) HIP_RETURN(hip::kErrorInvalidDevice);
  HIP_RETURN(cuda::call_if(call().cuDeviceGetUuid, uuid, cu_device(device)));
}
/// In HIP's spelling, which CUDA's differs from by the case of its digits.
HIP_EXPORT hip::Error hipDeviceGetPCIBusId(char* out, int length, int device) {
  HIP_ENTER_DRIVER();
  if (!out || length < 13) HIP_RETURN(hip::kErrorInvalidValue);
  if (!driver().valid(device)) HIP_RETURN(hip::kErrorInvalidDevice);
  snprintf(out, static_cast<size_t>(length), "%04x:%02x:%02x.0",
           static_cast<unsigned>(attribute(cuda::kPciDomainId, device)),
           static_cast<unsigned>(attribute(cuda::kPciBusId, device)) & 0xff,
           static_cast<unsigned>(attribute(cuda::kPciDeviceId, device)) & 0xff);
  HIP_RETURN(hip::kSuccess);
}
HIP_EXPORT hip::Error hipDeviceGetByPCIBusId(int* out, const char* text) {
  HIP_ENTER_DRIVER();
  if (!out || !text) HIP_RETURN(hip::kErrorInvalidValue);
  int found = 0;
  if (hip::Error error = call().cuDeviceGetByPCIBusId(&found, text); error != hip::kSuccess)
    HIP_RETURN(error);
  for (int i = 0; i < driver().count; i++)
    if (cu_device(i) == found) {
      *out = i;
      HIP_RETURN(hip::kSuccess);
    }
  HIP_RETURN(hip::kErrorInvalidDevice);
}
HIP_EXPORT hip::Error hipGetDeviceProperties(void* out, int device) {
  HIP_ENTER_DRIVER();
  HIP_RETURN(properties(out, device, runtimes::kR0000));
}
HIP_EXPORT hip::Error hipGetDevicePropertiesR0000(void* out, int device) {
  HIP_ENTER_DRIVER();
  HIP_RETURN(properties(out, device, runtimes::kR0000));
}
HIP_EXPORT hip::Error hipGetDevicePropertiesR0600(void* out, int device) {
  HIP_ENTER_DRIVER();
  HIP_RETURN(properties(out, device, runtimes::kR0600));
}
HIP_EXPORT hip::Error hipRuntimeGetVersion(int* version) {
  if (!version) HIP_RETURN(hip::kErrorInvalidValue);
  *version = cuda::kVersion;
  HIP_RETURN(hip::kSuccess);
}
HIP_EXPORT hip::Error hipDriverGetVersion(int* version) {
  if (!version) HIP_RETURN(hip::kErrorInvalidValue);
  *version = cuda::kVersion;
  HIP_RETURN(hip::kSuccess);
}
/// Extension: that this is the CUDA stand-in, and cuDriverGetVersion (0 without a driver).
HIP_EXPORT hip::Error hipCudaDriverVersion(int* version) {
  if (!version) HIP_RETURN(hip::kErrorInvalidValue);
  *version = driver().version;
  HIP_RETURN(hip::kSuccess);
}

HIP_EXPORT hip::Error hipGetLastError() { return cuda::take_last_error(true); }
HIP_EXPORT hip::Error hipPeekAtLastError() { return cuda::take_last_error(false); }
HIP_EXPORT hip::Error hipExtGetLastError() { return cuda::take_last_error(true); }
HIP_EXPORT const char* hipGetErrorName(int error) {
  return text_of(error, &runtimes::ErrorText::name, &cuda::DriverTable::cuGetErrorName);
}
HIP_EXPORT const char* hipGetErrorString(int error) {
  return text_of(error, &runtimes::ErrorText::text, &cuda::DriverTable::cuGetErrorString);
}
HIP_EXPORT hip::Error hipDrvGetErrorName(int error, const char** out) {
  return give_text(out, hipGetErrorName(error));
}
HIP_EXPORT hip::Error hipDrvGetErrorString(int error, const char** out) {
  return give_text(out, hipGetErrorString(error));
}
