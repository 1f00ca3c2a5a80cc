// Memory entry points: allocation, copies, pointer attributes, sharing between processes.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "runtime.h"

using software::Allocation;
using software::Kind;
using software::runtime;

namespace {

// hipMemoryType changed its numbers with HIP 6.
struct TypeNumbers {
  int unregistered, host, device, managed;
};
constexpr TypeNumbers kTypes = software::kMajor == 5 ? TypeNumbers{-1, 0, 1, 1} : TypeNumbers{0, 1, 2, 3};
constexpr unsigned kIpcOpenFlags = software::kMajor == 5 ? 0 : 1;  // hipIpcMemLazyEnablePeerAccess

int type_number(Kind kind) {
  switch (kind) {
    case Kind::device:
      return kTypes.device;
    case Kind::managed:
      return kTypes.managed;
    case Kind::host:
    case Kind::registered:
      return kTypes.host;
  }
  return kTypes.unregistered;
}

hip::Error check_copy(void* dst, const void* src, size_t bytes, hip::MemcpyKind kind) {
  if (bytes == 0) return hip::kSuccess;
  if (!dst || !src) return hip::kErrorInvalidValue;
  if (kind < hip::kMemcpyHostToHost || kind > hip::kMemcpyDefault) return hip::kErrorInvalidMemcpyDirection;
  auto& memory = runtime().memory;
  if (!memory.access(dst, bytes) || !memory.access(src, bytes)) return hip::kErrorInvalidValue;
  // Unified addressing: a real runtime looks at the pointers too, and refuses a device pointer that is none.
  if (kind == hip::kMemcpyHostToDevice && !memory.find(dst)) return hip::kErrorInvalidValue;
  if (kind == hip::kMemcpyDeviceToHost && !memory.find(src)) return hip::kErrorInvalidValue;
  return hip::kSuccess;
}

void copy_now(void* dst, const void* src, size_t bytes) {
  auto& memory = runtime().memory;
  void* to = memory.access(dst, bytes);
  void* from = memory.access(src, bytes);
  if (to && from) memmove(to, from, bytes);  // freed meanwhile: nothing to copy
}

hip::Error copy(void* dst, const void* src, size_t bytes, hip::MemcpyKind kind) {
  if (hip::Error error = check_copy(dst, src, bytes, kind); error != hip::kSuccess || bytes == 0)
    return error;
  runtime().streams.drain_blocking(software::current_device());
  copy_now(dst, src, bytes);
  return hip::kSuccess;
}

hip::Error copy_async(void* dst, const void* src, size_t bytes, hip::MemcpyKind kind, hip::Stream stream) {
  if (hip::Error error = check_copy(dst, src, bytes, kind); error != hip::kSuccess || bytes == 0)
    return error;
  auto& r = runtime();
  auto queue = r.streams.find(stream, software::current_device());
  if (!queue) return hip::kErrorInvalidHandle;
  uint64_t number = r.streams.push(queue, [=] { copy_now(dst, src, bytes); });
  // A copy from or to pageable memory is synchronous with respect to the host, as on a GPU.
  if (!r.memory.find(dst) || !r.memory.find(src)) queue->wait(number);
  return hip::kSuccess;
}

hip::Error fill(void* dst, int value, size_t bytes, hip::Stream stream, bool synchronous) {
  if (bytes == 0) return hip::kSuccess;
  auto& r = runtime();
  if (!dst || !r.memory.find(dst) || !r.memory.access(dst, bytes)) return hip::kErrorInvalidValue;
  auto queue = r.streams.find(stream, software::current_device());
  if (!queue) return hip::kErrorInvalidHandle;
  uint64_t number = r.streams.push(queue, [=] {
    if (void* to = runtime().memory.access(dst, bytes)) memset(to, value, bytes);
  });
  if (synchronous) queue->wait(number);
  return hip::kSuccess;
}

// What an IPC handle holds: enough to find the memfd again, and to notice that it is another one.
struct IpcContent {
  uint32_t magic;
  int32_t pid;
  int32_t memfd;
  int32_t device;
  uint64_t nonce[2];
  uint64_t size, offset;
};
static_assert(sizeof(IpcContent) <= sizeof(hip::IpcMemHandle));
constexpr uint32_t kIpcMagic = 0x53504948;  // "HIPS"

// The exporter's memfd, if it is the one whose name the handle knows. Looked at before it is opened: the
// handle comes from anywhere, and opening may do things.
int open_named_memfd(const IpcContent& content) {
  const std::string place = "/proc/" + std::to_string(content.pid) + "/fd/" + std::to_string(content.memfd);
  int path = open(place.c_str(), O_PATH | O_CLOEXEC);
  if (path < 0) return -1;
  const std::string self = "/proc/self/fd/" + std::to_string(path);
  char target[128] = {};
  ssize_t n = readlink(self.c_str(), target, sizeof target - 1);
  struct stat st;
  struct statfs fs;
  int fd = -1;
  if (n > 0 && std::string(target) == "/memfd:" + software::memfd_name(content.nonce) + " (deleted)" &&
      fstat(path, &st) == 0 && S_ISREG(st.st_mode) && fstatfs(path, &fs) == 0 &&
      fs.f_type == 0x01021994 /* tmpfs */)
    fd = open(self.c_str(), O_RDWR | O_CLOEXEC);
  close(path);
  return fd;
}

}  // namespace

HIP_EXPORT hip::Error hipMalloc(void** out, size_t size) {
  HIP_ENTER("hipMalloc");
  HIP_RETURN(runtime().memory.allocate(Kind::device, software::current_device(), size, 0, out));
}
HIP_EXPORT hip::Error hipExtMallocWithFlags(void** out, size_t size, unsigned flags) {
  HIP_ENTER("hipExtMallocWithFlags");
  if (flags == hip::kMallocSignalMemory && size != 8) HIP_RETURN(hip::kErrorInvalidValue);
  // Signal memory is host memory that a stream can wait on.
  Kind kind = flags == hip::kMallocSignalMemory ? Kind::managed : Kind::device;
  HIP_RETURN(runtime().memory.allocate(kind, software::current_device(), size, flags, out));
}
HIP_EXPORT hip::Error hipMallocManaged(void** out, size_t size, unsigned flags) {
  HIP_ENTER("hipMallocManaged");
  HIP_RETURN(runtime().memory.allocate(Kind::managed, software::current_device(), size, flags, out));
}
HIP_EXPORT hip::Error hipFree(void* p) {
  HIP_ENTER("hipFree");
  if (auto a = runtime().memory.find(p)) runtime().streams.drain(a->device);
  HIP_RETURN(runtime().memory.free(p, false));
}
HIP_EXPORT hip::Error hipMallocAsync(void** out, size_t size, hip::Stream stream) {
  HIP_ENTER("hipMallocAsync");
  if (!runtime().streams.find(stream, software::current_device())) HIP_RETURN(hip::kErrorInvalidHandle);
  HIP_RETURN(runtime().memory.allocate(Kind::device, software::current_device(), size, 0, out));
}
HIP_EXPORT hip::Error hipFreeAsync(void* p, hip::Stream stream) {
  HIP_ENTER("hipFreeAsync");
  auto& r = runtime();
  auto queue = r.streams.find(stream, software::current_device());
  if (!queue) HIP_RETURN(hip::kErrorInvalidHandle);
  auto a = r.memory.find(p);
  if (!a || a->kind != Kind::device || a->imports) HIP_RETURN(hip::kErrorInvalidValue);
  r.streams.push(queue, [p] { runtime().memory.free(p, false); });
  HIP_RETURN(hip::kSuccess);
}
HIP_EXPORT hip::Error hipHostMalloc(void** out, size_t size, unsigned flags) {
  HIP_ENTER("hipHostMalloc");
  HIP_RETURN(runtime().memory.allocate(Kind::host, software::current_device(), size, flags, out));
}
HIP_EXPORT hip::Error hipHostAlloc(void** out, size_t size, unsigned flags) {
  HIP_ENTER("hipHostAlloc");
  HIP_RETURN(runtime().memory.allocate(Kind::host, software::current_device(), size, flags, out));
}
HIP_EXPORT hip::Error hipHostFree(void* p) {
  HIP_ENTER("hipHostFree");
  if (auto a = runtime().memory.find(p)) runtime().streams.drain(a->device);
  HIP_RETURN(runtime().memory.free(p, true));
}
HIP_EXPORT hip::Error hipHostRegister(void* p, size_t size, unsigned flags) {
  HIP_ENTER("hipHostRegister");
  if (flags > 15) HIP_RETURN(hip::kErrorInvalidValue);
  HIP_RETURN(runtime().memory.register_host(p, size, flags, software::current_device()));
}
HIP_EXPORT hip::Error hipHostUnregister(void* p) {
  HIP_ENTER("hipHostUnregister");
  HIP_RETURN(runtime().memory.unregister_host(p));
}
HIP_EXPORT hip::Error hipHostGetDevicePointer(void** out, void* p, unsigned flags) {
  HIP_ENTER("hipHostGetDevicePointer");
  auto a = runtime().memory.find(p);
  if (!out || flags || !a || a->kind == Kind::device) HIP_RETURN(hip::kErrorInvalidValue);
  *out = p;
  HIP_RETURN(hip::kSuccess);
}
HIP_EXPORT hip::Error hipHostGetFlags(unsigned* out, void* p) {
  HIP_ENTER("hipHostGetFlags");
  auto a = runtime().memory.find(p);
  if (!out || !a || a->kind == Kind::device) HIP_RETURN(hip::kErrorInvalidValue);
  *out = a->flags;
  HIP_RETURN(hip::kSuccess);
}
HIP_EXPORT hip::Error hipMemGetInfo(size_t* free_bytes, size_t* total) {
  HIP_ENTER("hipMemGetInfo");
  if (!free_bytes || !total) HIP_RETURN(hip::kErrorInvalidValue);
  *free_bytes = runtime().memory.free_bytes(software::current_device());
  *total = runtime().memory.total_bytes();
  HIP_RETURN(hip::kSuccess);
}

// -------------------------------------------------------------------------------------------------------
// copies

HIP_EXPORT hip::Error hipMemcpy(void* dst, const void* src, size_t bytes, hip::MemcpyKind kind) {
  HIP_ENTER("hipMemcpy");
  HIP_RETURN(copy(dst, src, bytes, kind));
}
HIP_EXPORT hip::Error hipMemcpyAsync(void* dst, const void* src, size_t bytes, hip::MemcpyKind kind,
                                     hip::Stream stream) {
  HIP_ENTER("hipMemcpyAsync");
  HIP_RETURN(copy_async(dst, src, bytes, kind, stream));
}
HIP_EXPORT hip::Error hipMemcpyWithStream(void* dst, const void* src, size_t bytes, hip::MemcpyKind kind,
                                          hip::Stream stream) {
  HIP_ENTER("hipMemcpyWithStream");
  hip::Error error = copy_async(dst, src, bytes, kind, stream);
  if (error == hip::kSuccess)
    if (auto queue = runtime().streams.find(stream, software::current_device())) queue->wait(queue->last());
  HIP_RETURN(error);
}
HIP_EXPORT hip::Error hipMemcpyHtoD(void* dst, void* src, size_t bytes) {
  HIP_ENTER("hipMemcpyHtoD");
  HIP_RETURN(copy(dst, src, bytes, hip::kMemcpyHostToDevice));
}
HIP_EXPORT hip::Error hipMemcpyDtoH(void* dst, void* src, size_t bytes) {
  HIP_ENTER("hipMemcpyDtoH");
  HIP_RETURN(copy(dst, src, bytes, hip::kMemcpyDeviceToHost));
}
HIP_EXPORT hip::Error hipMemcpyDtoD(void* dst, void* src, size_t bytes) {
  HIP_ENTER("hipMemcpyDtoD");
  HIP_RETURN(copy(dst, src, bytes, hip::kMemcpyDeviceToDevice));
}
HIP_EXPORT hip::Error hipMemcpyHtoDAsync(void* dst, void* src, size_t bytes, hip::Stream stream) {
  HIP_ENTER("hipMemcpyHtoDAsync");
  HIP_RETURN(copy_async(dst, src, bytes, hip::kMemcpyHostToDevice, stream));
}
HIP_EXPORT hip::Error hipMemcpyDtoHAsync(void* dst, void* src, size_t bytes, hip::Stream stream) {
  HIP_ENTER("hipMemcpyDtoHAsync");
  HIP_RETURN(copy_async(dst, src, bytes, hip::kMemcpyDeviceToHost, stream));
}
HIP_EXPORT hip::Error hipMemcpyPeer(void* dst, int, const void* src, int, size_t bytes) {
  HIP_ENTER("hipMemcpyPeer");
  HIP_RETURN(copy(dst, src, bytes, hip::kMemcpyDeviceToDevice));
}
HIP_EXPORT hip::Error hipMemcpyPeerAsync(void* dst, int, const void* src, int, size_t bytes,
                                         hip::Stream stream) {
  HIP_ENTER("hipMemcpyPeerAsync");
  HIP_RETURN(copy_async(dst, src, bytes, hip::kMemcpyDeviceToDevice, stream));
}
HIP_EXPORT hip::Error hipMemset(void* dst, int value, size_t bytes) {
  HIP_ENTER("hipMemset");
  HIP_RETURN(fill(dst, value, bytes, nullptr, true));
}
HIP_EXPORT hip::Error hipMemsetD8(void* dst, unsigned char value, size_t bytes) {
  HIP_ENTER("hipMemsetD8");
  HIP_RETURN(fill(dst, value, bytes, nullptr, true));
}
HIP_EXPORT hip::Error hipMemsetAsync(void* dst, int value, size_t bytes, hip::Stream stream) {
  HIP_ENTER("hipMemsetAsync");
  HIP_RETURN(fill(dst, value, bytes, stream, false));
}

// ---------------------------------------------------------------------------------------------------
// attributes

HIP_EXPORT hip::Error hipPointerGetAttributes(hip::PointerAttributes* out, const void* p) {
  HIP_ENTER("hipPointerGetAttributes");
  if (!out) HIP_RETURN(hip::kErrorInvalidValue);
  *out = {};
  auto a = runtime().memory.find(p);
  if (!a) {
    if (software::kMajor == 5 || !p) HIP_RETURN(hip::kErrorInvalidValue);
    out->type = kTypes.unregistered;
    out->device = hip::kInvalidDeviceId;
    HIP_RETURN(hip::kSuccess);
  }
  out->type = type_number(a->kind);
  out->device = a->device;
  out->device_pointer = const_cast<void*>(p);
  out->host_pointer = a->kind == Kind::device ? nullptr : const_cast<void*>(p);
  out->is_managed = a->kind == Kind::managed;
  out->allocation_flags = a->flags;
  HIP_RETURN(hip::kSuccess);
}
HIP_EXPORT hip::Error hipPointerGetAttribute(void* out, int attribute, void* p) {
  HIP_ENTER("hipPointerGetAttribute");
  enum {
    kMemoryType = 2,
    kDevicePointer = 3,
    kHostPointer = 4,
    kBufferId = 7,
    kIsManaged = 8,
    kOrdinal = 9,
    kRangeStart = 11,
    kRangeSize = 12
  };
  auto a = runtime().memory.find(p);
  if (!out || !a) HIP_RETURN(hip::kErrorInvalidValue);
  auto put = [&](auto value) {
    memcpy(out, &value, sizeof value);
    return hip::kSuccess;
  };
  switch (attribute) {
    case kMemoryType:
      HIP_RETURN(put(type_number(a->kind)));
    case kDevicePointer:
      HIP_RETURN(put(p));
    case kHostPointer:
      HIP_RETURN(a->kind == Kind::device ? hip::kErrorInvalidValue : put(p));
    case kBufferId:
      HIP_RETURN(put(a->id));
    case kIsManaged:
      HIP_RETURN(put(a->kind == Kind::managed));
    case kOrdinal:
      HIP_RETURN(put(a->device));
    case kRangeStart:
      HIP_RETURN(put(a->address));
    case kRangeSize:
      HIP_RETURN(put(a->size));
    default:
      HIP_RETURN(hip::kErrorNotSupported);
  }
}
HIP_EXPORT hip::Error hipMemGetAddressRange(void** base, size_t* size, void* p) {
  HIP_ENTER("hipMemGetAddressRange");
  auto a = runtime().memory.find(p);
  if (!a) HIP_RETURN(hip::kErrorNotFound);
  if (base) *base = reinterpret_cast<void*>(a->address);  // NOLINT(performance-no-int-to-ptr)
  if (size) *size = a->size;
  HIP_RETURN(hip::kSuccess);
}
HIP_EXPORT hip::Error hipMemPtrGetInfo(void* p, size_t* size) {
  HIP_ENTER("hipMemPtrGetInfo");
  auto a = runtime().memory.find(p);
  if (!a || !size) HIP_RETURN(hip::kErrorInvalidValue);
  *size = a->size;
  HIP_RETURN(hip::kSuccess);
}

// ------------------------------------------------------------------------------------- sharing between
// processes

HIP_EXPORT hip::Error hipIpcGetMemHandle(hip::IpcMemHandle* handle, void* p) {
  HIP_ENTER("hipIpcGetMemHandle");
  auto a = runtime().memory.find(p);
  if (!handle || !a || a->kind != Kind::device) HIP_RETURN(hip::kErrorInvalidValue);
  IpcContent content{kIpcMagic,
                     getpid(),
                     a->memfd,
                     a->device,
                     {a->nonce[0], a->nonce[1]},
                     a->size,
                     reinterpret_cast<uintptr_t>(p) - a->address};
  memset(handle, 0, sizeof *handle);
  memcpy(handle, &content, sizeof content);
  HIP_RETURN(hip::kSuccess);
}
HIP_EXPORT hip::Error hipIpcOpenMemHandle(void** out, hip::IpcMemHandle handle, unsigned flags) {
  HIP_ENTER("hipIpcOpenMemHandle");
  IpcContent content;
  memcpy(&content, &handle, sizeof content);
  if (!out || flags != kIpcOpenFlags || content.magic != kIpcMagic || content.offset >= content.size)
    HIP_RETURN(hip::kErrorInvalidValue);
  if (content.pid == getpid()) HIP_RETURN(hip::kErrorInvalidContext);
  if (!software::valid_device(content.device)) HIP_RETURN(hip::kErrorInvalidValue);
  int fd = open_named_memfd(content);
  if (fd < 0) HIP_RETURN(hip::kErrorInvalidHandle);
  void* base = nullptr;
  hip::Error error = runtime().memory.import(fd, content.size, content.device, &base);
  close(fd);
  if (error == hip::kSuccess) *out = static_cast<char*>(base) + content.offset;
  HIP_RETURN(error);
}
HIP_EXPORT hip::Error hipIpcCloseMemHandle(void* p) {
  HIP_ENTER("hipIpcCloseMemHandle");
  auto a = runtime().memory.find(p);
  if (!a) HIP_RETURN(hip::kErrorInvalidValue);
  runtime().streams.drain(a->device);
  HIP_RETURN(runtime().memory.close_import(reinterpret_cast<void*>(a->address)));  // NOLINT
}
/// The stand-in for a dma-buf is a descriptor of the allocation's memfd.
HIP_EXPORT hip::Error hipMemGetHandleForAddressRange(void* handle, void* p, size_t size, int type,
                                                     unsigned long long flags) {
  HIP_ENTER("hipMemGetHandleForAddressRange");
  auto a = runtime().memory.find(p);
  if (!handle || !a || a->kind != Kind::device || type != hip::kMemRangeHandleTypeDmaBufFd || flags > 1 ||
      reinterpret_cast<uintptr_t>(p) != a->address || size > a->mapped)
    HIP_RETURN(hip::kErrorInvalidValue);
  int fd = fcntl(a->memfd, F_DUPFD_CLOEXEC, 0);
  if (fd < 0) HIP_RETURN(hip::kErrorOutOfMemory);
  memcpy(handle, &fd, sizeof fd);
  HIP_RETURN(hip::kSuccess);
}
HIP_EXPORT hip::Error hipImportExternalMemory(hip::ExternalMemory* out,
                                              const hip::ExternalMemoryHandleDesc* desc) {
  HIP_ENTER("hipImportExternalMemory");
  if (!out || !desc || desc->type != hip::kExternalMemoryOpaqueFd) HIP_RETURN(hip::kErrorInvalidValue);
  void* base = nullptr;
  hip::Error error = runtime().memory.import(desc->handle.fd, desc->size, software::current_device(), &base);
  if (error == hip::kSuccess) *out = base;
  HIP_RETURN(error);
}
HIP_EXPORT hip::Error hipExternalMemoryGetMappedBuffer(void** out, hip::ExternalMemory memory,
                                                       const hip::ExternalMemoryBufferDesc* desc) {
  HIP_ENTER("hipExternalMemoryGetMappedBuffer");
  auto a = runtime().memory.find(memory);
  if (!out || !desc || !a || !a->imports || desc->offset > a->size || desc->size > a->size - desc->offset)
    HIP_RETURN(hip::kErrorInvalidValue);
  *out = static_cast<char*>(memory) + desc->offset;
  HIP_RETURN(hip::kSuccess);
}
HIP_EXPORT hip::Error hipDestroyExternalMemory(hip::ExternalMemory memory) {
  HIP_ENTER("hipDestroyExternalMemory");
  auto a = runtime().memory.find(memory);
  if (!a) HIP_RETURN(hip::kErrorInvalidValue);
  runtime().streams.drain(a->device);
  HIP_RETURN(runtime().memory.close_import(memory));
}
