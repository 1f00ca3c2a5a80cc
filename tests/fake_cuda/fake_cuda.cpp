// A libcuda.so.1 for tests without a GPU: contexts, handles and recorded calls are its own, the rest it hands to the
// software HIP runtime, whose HIP_SOFTWARE_* variables therefore count here, too.
//
// It is strict where the driver is: what needs a context fails without one.
#include "fake_cuda.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "hip_abi/hip_abi.h"

#define CUDA_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using hip::Error;

// ---------------------------------------------------------------------------------------- the runtime underneath

void* software() {
  static void* library = [] {
    Dl_info self;
    dladdr(reinterpret_cast<void*>(software), &self);
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

template <typename... A>
Error forward(const char* name, A... arguments) {
  auto function = reinterpret_cast<Error (*)(A...)>(dlsym(software(), name));
  return function ? function(arguments...) : hip::kErrorUnknown;
}

// ------------------------------------------------------------------------------------------------------- records

struct Record {
  int calls = 0;
  std::string last;
};
std::mutex record_mutex;
std::map<std::string, Record>& records() {
  static auto* all = new std::map<std::string, Record>;
  return *all;
}

template <typename... A>
void record(const char* name, const char* format, A... arguments) {
  char text[256];
  snprintf(text, sizeof text, format, arguments...);
  std::lock_guard lock(record_mutex);
  Record& r = records()[name];
  r.calls++;
  r.last = text;
}
void record(const char* name) { record(name, "%s", ""); }

// ------------------------------------------------------------------------------------------------------ contexts

struct Context {
  int device = 0;
  bool primary = false;
  int retained = 0;
  bool alive = true;
};
std::array<Context, 16> primaries;
std::mutex context_mutex;
thread_local Context* current = nullptr;
thread_local std::vector<Context*> pushed;

bool initialised = false;

int device_count() {
  int count = 0;
  return forward<int*>("hipGetDeviceCount", &count) == hip::kSuccess ? count : 0;
}

// Software's current device follows the context.
Error enter() {
  if (!initialised) return hip::kErrorNotInitialized;
  if (!current) return hip::kErrorInvalidContext;
  if (!current->alive) return static_cast<Error>(709);  // CUDA_ERROR_CONTEXT_IS_DESTROYED
  return forward("hipSetDevice", current->device);
}
#define ENTER() \
  if (Error entered = enter(); entered != hip::kSuccess) return entered

// ----------------------------------------------------------------------------------- allocations by cuMemCreate

struct Created {
  int fd = -1;
  size_t size = 0;
  int references = 0;
};
struct MappedRange {
  size_t size = 0;
  unsigned long long handle = 0;
};
std::mutex created_mutex;
std::map<unsigned long long, Created> created;
std::map<char*, MappedRange> mapped;
unsigned long long next_handle = 1;
constexpr size_t kGranularity = size_t{2} << 20;

std::map<char*, MappedRange>::iterator find_mapped(void* p) {
  auto after = mapped.upper_bound(static_cast<char*>(p));
  if (after == mapped.begin()) return mapped.end();
  auto it = std::prev(after);
  return static_cast<size_t>(static_cast<char*>(p) - it->first) < it->second.size ? it : mapped.end();
}

void release(unsigned long long handle) {
  auto it = created.find(handle);
  if (it == created.end() || --it->second.references > 0) return;
  close(it->second.fd);
  created.erase(it);
}

}  // namespace

// ---------------------------------------------------------------------------------------------- asked by the tests

CUDA_EXPORT int fakeCudaCalls(const char* name) {
  std::lock_guard lock(record_mutex);
  auto it = records().find(name);
  return it == records().end() ? 0 : it->second.calls;
}
CUDA_EXPORT const char* fakeCudaLast(const char* name) {
  thread_local std::string copy;
  std::lock_guard lock(record_mutex);
  auto it = records().find(name);
  copy = it == records().end() ? "" : it->second.last;
  return copy.c_str();
}
CUDA_EXPORT Error hipSoftwarePlanFaults(const char* spec) { return forward("hipSoftwarePlanFaults", spec); }

// ------------------------------------------------------------------------------------------------------- devices

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

// ------------------------------------------------------------------------------------------------------ contexts

CUDA_EXPORT Error cuDevicePrimaryCtxRetain(Context** context, int device) {
  record("cuDevicePrimaryCtxRetain", "%d", device);
  if (!initialised) return hip::kErrorNotInitialized;
  std::lock_guard lock(context_mutex);
  Context& primary = primaries.at(static_cast<size_t>(device));
  primary.device = device;
  primary.primary = primary.alive = true;
  primary.retained++;
  *context = &primary;
  return hip::kSuccess;
}
CUDA_EXPORT Error cuDevicePrimaryCtxRelease_v2(int device) {
  record("cuDevicePrimaryCtxRelease", "%d", device);
  std::lock_guard lock(context_mutex);
  primaries.at(static_cast<size_t>(device)).retained--;
  return hip::kSuccess;
}
CUDA_EXPORT Error cuDevicePrimaryCtxReset_v2(int device) {
  record("cuDevicePrimaryCtxReset", "%d", device);
  std::lock_guard lock(context_mutex);
  primaries.at(static_cast<size_t>(device)).alive = false;
  return hip::kSuccess;
}
CUDA_EXPORT Error cuCtxCreate_v2(Context** out, unsigned, int device) {
  *out = current = new Context{device, false, 0, true};
  return hip::kSuccess;
}
CUDA_EXPORT Error cuCtxDestroy_v2(Context* context) {
  context->alive = false;  // kept: the tests look at what happens to its users
  if (current == context) current = nullptr;
  return hip::kSuccess;
}
CUDA_EXPORT Error cuCtxGetCurrent(Context** out) {
  if (!initialised) return hip::kErrorNotInitialized;
  *out = current;
  return hip::kSuccess;
}
CUDA_EXPORT Error cuCtxSetCurrent(Context* context) {
  record("cuCtxSetCurrent", "%d", context ? context->device : -1);
  if (context && !context->alive) return static_cast<Error>(709);
  current = context;
  return hip::kSuccess;
}
CUDA_EXPORT Error cuCtxPushCurrent_v2(Context* context) {
  pushed.push_back(current);
  current = context;
  return hip::kSuccess;
}
CUDA_EXPORT Error cuCtxPopCurrent_v2(Context** context) {
  if (pushed.empty()) return hip::kErrorInvalidContext;
  *context = current;
  current = pushed.back();
  pushed.pop_back();
  return hip::kSuccess;
}
CUDA_EXPORT Error cuCtxGetDevice(int* device) {
  if (!current) return hip::kErrorInvalidContext;
  *device = current->device;
  return hip::kSuccess;
}
CUDA_EXPORT Error cuCtxSynchronize() {
  ENTER();
  return forward("hipDeviceSynchronize");
}
CUDA_EXPORT Error cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  ENTER();
  if (least) *least = 0;
  if (greatest) *greatest = -5;
  return hip::kSuccess;
}
CUDA_EXPORT Error cuCtxEnablePeerAccess(Context* peer, unsigned) {
  ENTER();
  record("cuCtxEnablePeerAccess", "%d", peer->device);
  return hip::kSuccess;
}
CUDA_EXPORT Error cuCtxDisablePeerAccess(Context* peer) {
  ENTER();
  record("cuCtxDisablePeerAccess", "%d", peer->device);
  return hip::kSuccess;
}

// -------------------------------------------------------------------------------------------------------- memory

CUDA_EXPORT Error cuMemAlloc_v2(void** out, size_t size) {
  ENTER();
  record("cuMemAlloc", "device %d size %zu", current->device, size);
  return size ? forward("hipMalloc", out, size) : hip::kErrorInvalidValue;
}
CUDA_EXPORT Error cuMemFree_v2(void* p) {
  ENTER();
  record("cuMemFree");
  return forward("hipFree", p);
}
CUDA_EXPORT Error cuMemAllocManaged(void** out, size_t size, unsigned flags) {
  ENTER();
  if (flags != 1 && flags != 2) return hip::kErrorInvalidValue;
  return forward("hipMallocManaged", out, size, flags);
}
CUDA_EXPORT Error cuMemAllocAsync(void** out, size_t size, hip::Stream stream) {
  ENTER();
  return forward("hipMallocAsync", out, size, stream);
}
CUDA_EXPORT Error cuMemFreeAsync(void* p, hip::Stream stream) {
  ENTER();
  return forward("hipFreeAsync", p, stream);
}
CUDA_EXPORT Error cuMemGetInfo_v2(size_t* free_bytes, size_t* total) {
  ENTER();
  return forward("hipMemGetInfo", free_bytes, total);
}
CUDA_EXPORT Error cuMemHostAlloc(void** out, size_t size, unsigned flags) {
  ENTER();
  record("cuMemHostAlloc", "flags %u", flags);
  return flags & ~7u ? hip::kErrorInvalidValue : forward("hipHostMalloc", out, size, flags);
}
CUDA_EXPORT Error cuMemFreeHost(void* p) {
  ENTER();
  record("cuMemFreeHost");
  return forward("hipHostFree", p);
}
CUDA_EXPORT Error cuMemHostRegister_v2(void* p, size_t size, unsigned flags) {
  ENTER();
  record("cuMemHostRegister", "flags %u", flags);
  return forward("hipHostRegister", p, size, flags);
}
CUDA_EXPORT Error cuMemHostUnregister(void* p) {
  ENTER();
  return forward("hipHostUnregister", p);
}
CUDA_EXPORT Error cuMemHostGetDevicePointer_v2(void** out, void* p, unsigned flags) {
  ENTER();
  return forward("hipHostGetDevicePointer", out, p, flags);
}
CUDA_EXPORT Error cuMemHostGetFlags(unsigned* flags, void* p) {
  ENTER();
  return forward("hipHostGetFlags", flags, p);
}

namespace {

Error copy(const char* name, void* dst, const void* src, size_t bytes, hip::MemcpyKind kind) {
  ENTER();
  record(name, "%zu", bytes);
  return forward("hipMemcpy", dst, src, bytes, kind);
}
Error copy_async(const char* name, void* dst, const void* src, size_t bytes, hip::MemcpyKind kind,
                 hip::Stream stream) {
  ENTER();
  record(name, "%zu on %p", bytes, static_cast<void*>(stream));
  return forward("hipMemcpyAsync", dst, src, bytes, kind, stream);
}

}  // namespace

CUDA_EXPORT Error cuMemcpy(void* dst, const void* src, size_t n) {
  return copy("cuMemcpy", dst, src, n, hip::kMemcpyDefault);
}
CUDA_EXPORT Error cuMemcpyHtoD_v2(void* dst, const void* src, size_t n) {
  return copy("cuMemcpyHtoD", dst, src, n, hip::kMemcpyHostToDevice);
}
CUDA_EXPORT Error cuMemcpyDtoH_v2(void* dst, const void* src, size_t n) {
  return copy("cuMemcpyDtoH", dst, src, n, hip::kMemcpyDeviceToHost);
}
CUDA_EXPORT Error cuMemcpyDtoD_v2(void* dst, const void* src, size_t n) {
  return copy("cuMemcpyDtoD", dst, src, n, hip::kMemcpyDeviceToDevice);
}
CUDA_EXPORT Error cuMemcpyAsync(void* dst, const void* src, size_t n, hip::Stream s) {
  return copy_async("cuMemcpyAsync", dst, src, n, hip::kMemcpyDefault, s);
}
CUDA_EXPORT Error cuMemcpyHtoDAsync_v2(void* dst, const void* src, size_t n, hip::Stream s) {
  return copy_async("cuMemcpyHtoDAsync", dst, src, n, hip::kMemcpyHostToDevice, s);
}
CUDA_EXPORT Error cuMemcpyDtoHAsync_v2(void* dst, const void* src, size_t n, hip::Stream s) {
  return copy_async("cuMemcpyDtoHAsync", dst, src, n, hip::kMemcpyDeviceToHost, s);
}
CUDA_EXPORT Error cuMemcpyDtoDAsync_v2(void* dst, const void* src, size_t n, hip::Stream s) {
  return copy_async("cuMemcpyDtoDAsync", dst, src, n, hip::kMemcpyDeviceToDevice, s);
}
CUDA_EXPORT Error cuMemcpyPeer(void* dst, Context* to, const void* src, Context* from, size_t n) {
  ENTER();
  record("cuMemcpyPeer", "%d from %d", to->device, from->device);
  return forward("hipMemcpyPeer", dst, to->device, src, from->device, n);
}
CUDA_EXPORT Error cuMemcpyPeerAsync(void* dst, Context* to, const void* src, Context* from, size_t n,
                                    hip::Stream stream) {
  ENTER();
  record("cuMemcpyPeerAsync", "%d from %d", to->device, from->device);
  return forward("hipMemcpyPeerAsync", dst, to->device, src, from->device, n, stream);
}
CUDA_EXPORT Error cuMemsetD8_v2(void* dst, unsigned char value, size_t n) {
  ENTER();
  record("cuMemsetD8");
  return forward("hipMemset", dst, static_cast<int>(value), n);
}
CUDA_EXPORT Error cuMemsetD8Async(void* dst, unsigned char value, size_t n, hip::Stream stream) {
  ENTER();
  record("cuMemsetD8Async");
  return forward("hipMemsetAsync", dst, static_cast<int>(value), n, stream);
}

namespace {

enum { kMemoryType = 2, kDevicePointer = 3, kHostPointer = 4, kIsManaged = 8, kOrdinal = 9 };

// As CUDA: 0 for pointers that are not known.
Error one_attribute(void* out, int attribute, void* p) {
  hip::PointerAttributes a{};
  if (std::lock_guard lock(created_mutex); find_mapped(p) != mapped.end())
    a = {2, 0, p, nullptr, 0, 0};
  else if (forward("hipPointerGetAttributes", &a, static_cast<const void*>(p)) != hip::kSuccess ||
           a.type == 0)
    return hip::kErrorInvalidValue;
  auto put = [out](auto value) {
    memcpy(out, &value, sizeof value);
    return hip::kSuccess;
  };
  switch (attribute) {
    case kMemoryType:
      return put(a.type == 1 ? 1u : 2u);
    case kDevicePointer:
      return put(a.device_pointer);
    case kHostPointer:
      return put(a.host_pointer);
    case kIsManaged:
      return put(a.is_managed);
    case kOrdinal:
      return put(a.device);
    default:
      return forward("hipPointerGetAttribute", out, attribute, p);
  }
}

}  // namespace

CUDA_EXPORT Error cuPointerGetAttribute(void* out, int attribute, void* p) {
  ENTER();
  return one_attribute(out, attribute, p);
}
CUDA_EXPORT Error cuPointerGetAttributes(unsigned count, int* attributes, void** out, void* p) {
  ENTER();
  for (unsigned i = 0; i < count; i++)
    if (one_attribute(out[i], attributes[i], p) != hip::kSuccess)
      memset(out[i], 0, attributes[i] == kDevicePointer || attributes[i] == kHostPointer ? 8 : 4);
  return hip::kSuccess;
}
CUDA_EXPORT Error cuMemGetAddressRange_v2(void** base, size_t* size, void* p) {
  ENTER();
  {
    std::lock_guard lock(created_mutex);
    if (auto it = find_mapped(p); it != mapped.end()) {
      *base = it->first;
      *size = it->second.size;
      return hip::kSuccess;
    }
  }
  unsigned type = 0;
  if (one_attribute(&type, kMemoryType, p) != hip::kSuccess || type != 2) return hip::kErrorNotFound;
  return forward("hipMemGetAddressRange", base, size, p);
}

// ------------------------------------------------------------------------------------------------------- streams

CUDA_EXPORT Error cuStreamCreate(hip::Stream* out, unsigned flags) {
  ENTER();
  record("cuStreamCreate", "%u", flags);
  return forward("hipStreamCreateWithFlags", out, flags);
}
CUDA_EXPORT Error cuStreamCreateWithPriority(hip::Stream* out, unsigned flags, int priority) {
  ENTER();
  record("cuStreamCreateWithPriority", "%u %d", flags, priority);
  return forward("hipStreamCreateWithFlags", out, flags);
}
CUDA_EXPORT Error cuStreamDestroy_v2(hip::Stream stream) {
  ENTER();
  return forward("hipStreamDestroy", stream);
}
CUDA_EXPORT Error cuStreamSynchronize(hip::Stream stream) {
  ENTER();
  record("cuStreamSynchronize", "%p", static_cast<void*>(stream));
  return forward("hipStreamSynchronize", stream);
}
CUDA_EXPORT Error cuStreamQuery(hip::Stream stream) {
  ENTER();
  return forward("hipStreamQuery", stream);
}
CUDA_EXPORT Error cuStreamWaitEvent(hip::Stream stream, hip::Event event, unsigned flags) {
  ENTER();
  return forward("hipStreamWaitEvent", stream, event, flags);
}
CUDA_EXPORT Error cuStreamGetFlags(hip::Stream stream, unsigned* flags) {
  ENTER();
  return forward("hipStreamGetFlags", stream, flags);
}
CUDA_EXPORT Error cuStreamGetPriority(hip::Stream, int* priority) {
  ENTER();
  *priority = -3;
  return hip::kSuccess;
}
CUDA_EXPORT Error cuStreamGetCtx(hip::Stream stream, Context** context) {
  ENTER();
  int device = 0;
  Error error = forward("hipStreamGetDevice", stream, &device);
  *context = &primaries.at(static_cast<size_t>(device));
  return error;
}
CUDA_EXPORT Error cuStreamIsCapturing(hip::Stream stream, int* status) {
  ENTER();
  return forward("hipStreamIsCapturing", stream, status);
}
CUDA_EXPORT Error cuThreadExchangeStreamCaptureMode(int* mode) {
  return forward("hipThreadExchangeStreamCaptureMode", mode);
}
CUDA_EXPORT Error cuStreamAddCallback(hip::Stream stream, hip::StreamCallback callback, void* data,
                                      unsigned flags) {
  ENTER();
  return forward("hipStreamAddCallback", stream, callback, data, flags);
}
CUDA_EXPORT Error cuLaunchHostFunc(hip::Stream stream, hip::HostFunction function, void* data) {
  ENTER();
  return forward("hipLaunchHostFunc", stream, function, data);
}
CUDA_EXPORT Error cuStreamWaitValue32_v2(hip::Stream stream, void* p, uint32_t value, unsigned how) {
  ENTER();
  return forward("hipStreamWaitValue32", stream, p, value, how, ~uint32_t{0});
}
CUDA_EXPORT Error cuStreamWaitValue64_v2(hip::Stream stream, void* p, uint64_t value, unsigned how) {
  ENTER();
  return forward("hipStreamWaitValue64", stream, p, value, how, ~uint64_t{0});
}
CUDA_EXPORT Error cuStreamWriteValue32_v2(hip::Stream stream, void* p, uint32_t value, unsigned flags) {
  ENTER();
  return forward("hipStreamWriteValue32", stream, p, value, flags);
}
CUDA_EXPORT Error cuStreamWriteValue64_v2(hip::Stream stream, void* p, uint64_t value, unsigned flags) {
  ENTER();
  return forward("hipStreamWriteValue64", stream, p, value, flags);
}
CUDA_EXPORT Error cuEventCreate(hip::Event* out, unsigned flags) {
  ENTER();
  record("cuEventCreate", "%u", flags);
  return flags & ~7u ? hip::kErrorInvalidValue : forward("hipEventCreateWithFlags", out, flags);
}
CUDA_EXPORT Error cuEventDestroy_v2(hip::Event event) {
  ENTER();
  return forward("hipEventDestroy", event);
}
CUDA_EXPORT Error cuEventRecord(hip::Event event, hip::Stream stream) {
  ENTER();
  return forward("hipEventRecord", event, stream);
}
CUDA_EXPORT Error cuEventQuery(hip::Event event) {
  ENTER();
  return forward("hipEventQuery", event);
}
CUDA_EXPORT Error cuEventSynchronize(hip::Event event) {
  ENTER();
  return forward("hipEventSynchronize", event);
}
CUDA_EXPORT Error cuEventElapsedTime(float* milliseconds, hip::Event start, hip::Event stop) {
  ENTER();
  return forward("hipEventElapsedTime", milliseconds, start, stop);
}

// ------------------------------------------------------------------------------------------------------- sharing

/// A handle names the allocation alone, as CUDA's do.
CUDA_EXPORT Error cuIpcGetMemHandle(hip::IpcMemHandle* handle, void* p) {
  ENTER();
  void* base = nullptr;
  size_t size = 0;
  if (cuMemGetAddressRange_v2(&base, &size, p) != hip::kSuccess) return hip::kErrorInvalidValue;
  Error error = forward("hipIpcGetMemHandle", handle, base);
  if (getenv("FAKE_CUDA_FULL_IPC_HANDLES")) handle->reserved[60] = 1;
  return error;
}
CUDA_EXPORT Error cuIpcOpenMemHandle_v2(void** out, hip::IpcMemHandle handle, unsigned flags) {
  ENTER();
  record("cuIpcOpenMemHandle", "flags %u tail %d", flags, handle.reserved[60]);
  if (flags != 1) return hip::kErrorInvalidValue;
  return forward("hipIpcOpenMemHandle", out, handle, 1u);
}
CUDA_EXPORT Error cuIpcCloseMemHandle(void* p) {
  ENTER();
  record("cuIpcCloseMemHandle", "%p", p);
  void* base = nullptr;
  size_t size = 0;
  if (forward("hipMemGetAddressRange", &base, &size, p) != hip::kSuccess || base != p)
    return hip::kErrorInvalidValue;
  return forward("hipIpcCloseMemHandle", p);
}
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

// ------------------------------------------------------------------------- allocations by cuMemCreate, by memfd

CUDA_EXPORT Error cuMemCreate(unsigned long long* handle, size_t size, const void*, unsigned long long) {
  ENTER();
  if (size == 0 || size % kGranularity) return hip::kErrorInvalidValue;
  int fd = memfd_create("fake-cuda", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, static_cast<off_t>(size)) < 0) return hip::kErrorOutOfMemory;
  std::lock_guard lock(created_mutex);
  *handle = next_handle++;
  created[*handle] = {fd, size, 1};
  return hip::kSuccess;
}
CUDA_EXPORT Error cuMemExportToShareableHandle(void* out, unsigned long long handle, int,
                                               unsigned long long) {
  ENTER();
  std::lock_guard lock(created_mutex);
  auto it = created.find(handle);
  if (it == created.end()) return hip::kErrorInvalidValue;
  int fd = fcntl(it->second.fd, F_DUPFD_CLOEXEC, 0);
  memcpy(out, &fd, sizeof fd);
  return hip::kSuccess;
}
CUDA_EXPORT Error cuMemImportFromShareableHandle(unsigned long long* handle, void* os_handle, int type) {
  ENTER();
  int fd = static_cast<int>(reinterpret_cast<uintptr_t>(os_handle));
  struct stat st;
  if (type != 1 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) return hip::kErrorInvalidValue;
  std::lock_guard lock(created_mutex);
  *handle = next_handle++;
  created[*handle] = {fcntl(fd, F_DUPFD_CLOEXEC, 0), static_cast<size_t>(st.st_size), 1};
  return hip::kSuccess;
}
CUDA_EXPORT Error cuMemRetainAllocationHandle(unsigned long long* handle, void* p) {
  ENTER();
  std::lock_guard lock(created_mutex);
  auto it = find_mapped(p);
  if (it == mapped.end()) return hip::kErrorInvalidValue;
  *handle = it->second.handle;
  created[*handle].references++;
  return hip::kSuccess;
}
CUDA_EXPORT Error cuMemRelease(unsigned long long handle) {
  record("cuMemRelease");
  std::lock_guard lock(created_mutex);
  release(handle);
  return hip::kSuccess;
}
CUDA_EXPORT Error cuMemGetAllocationGranularity(size_t* granularity, const void*, int) {
  ENTER();
  *granularity = kGranularity;
  return hip::kSuccess;
}
CUDA_EXPORT Error cuMemAddressReserve(void** out, size_t size, size_t, void*, unsigned long long) {
  ENTER();
  if (size % kGranularity) return hip::kErrorInvalidValue;
  *out = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (*out == MAP_FAILED) return hip::kErrorOutOfMemory;
  return forward("hipHostRegister", *out, size, 0u);  // so that copies can cross it
}
CUDA_EXPORT Error cuMemAddressFree(void* p, size_t size) {
  record("cuMemAddressFree");
  forward("hipHostUnregister", p);
  return munmap(p, size) == 0 ? hip::kSuccess : hip::kErrorInvalidValue;
}
CUDA_EXPORT Error cuMemMap(void* p, size_t size, size_t offset, unsigned long long handle,
                           unsigned long long) {
  ENTER();
  std::lock_guard lock(created_mutex);
  auto it = created.find(handle);
  if (it == created.end() || offset != 0 || size > it->second.size || size % kGranularity)
    return hip::kErrorInvalidValue;
  if (mmap(p, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, it->second.fd, 0) == MAP_FAILED)
    return hip::kErrorOutOfMemory;
  it->second.references++;
  mapped[static_cast<char*>(p)] = {size, handle};
  return hip::kSuccess;
}
CUDA_EXPORT Error cuMemUnmap(void* p, size_t) {
  record("cuMemUnmap");
  std::lock_guard lock(created_mutex);
  auto it = mapped.find(static_cast<char*>(p));
  if (it == mapped.end()) return hip::kErrorInvalidValue;
  release(it->second.handle);
  mapped.erase(it);
  return hip::kSuccess;
}
CUDA_EXPORT Error cuMemSetAccess(void*, size_t, const void*, size_t count) {
  ENTER();
  return count == 1 ? hip::kSuccess : hip::kErrorInvalidValue;
}

// ------------------------------------------------------------------------------------------------------- modules

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
