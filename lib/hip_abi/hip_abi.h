// The part of HIP's C ABI that this project speaks, declared by us so that no HIP header is needed to build.
//
// Names live in namespace hip so that this header and AMD's own can meet in one translation unit. Numbers are
// those that HIP 5.2 to 7.2 share; what differs between majors (memory types, the IPC open flag) is
// translated in lib/gpu and chosen at build time in lib/runtimes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hip {

/// hipError_t. Any other number may also come from a runtime.
enum Error : int {
  kSuccess = 0,
  kErrorInvalidValue = 1,
  kErrorOutOfMemory = 2,
  kErrorNotInitialized = 3,
  kErrorInvalidMemcpyDirection = 21,
  kErrorInvalidDeviceFunction = 98,
  kErrorNoDevice = 100,
  kErrorInvalidDevice = 101,
  kErrorInvalidContext = 201,
  kErrorNoBinaryForGpu = 209,
  kErrorPeerAccessAlreadyEnabled = 704,
  kErrorInvalidHandle = 400,
  kErrorNotFound = 500,
  kErrorNotReady = 600,
  kErrorHostMemoryAlreadyRegistered = 712,
  kErrorHostMemoryNotRegistered = 713,
  kErrorLaunchFailure = 719,
  kErrorNotSupported = 801,
  kErrorStreamCaptureUnsupported = 900,
  kErrorUnknown = 999,
};

/// hipMemcpyKind.
enum MemcpyKind : int {
  kMemcpyHostToHost = 0,
  kMemcpyHostToDevice = 1,
  kMemcpyDeviceToHost = 2,
  kMemcpyDeviceToDevice = 3,
  kMemcpyDefault = 4,
};

/// hipDeviceAttribute_t: the few that matter for file I/O.
enum DeviceAttribute : int {
  kAttributeIntegrated = 16,
  kAttributeManagedMemory = 24,
  kAttributeMaxThreadsPerBlock = 56,
  kAttributePciBusId = 67,
  kAttributePciDeviceId = 68,
  kAttributePciDomainId = 69,
  kAttributeUnifiedAddressing = 85,
  kAttributeHdpMemFlushCntl = 10005,  ///< a pointer to the register
  kAttributeIsLargeBar = 10011,
  kAttributeCanUseStreamWaitValue = 10013,
};

inline constexpr unsigned kHostMallocPortable = 1;
inline constexpr unsigned kHostRegisterPortable = 1;
inline constexpr unsigned kHostRegisterReadOnly = 8;  ///< from HIP 5.7 on; another meaning before
inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventBlockingSync = 1;
inline constexpr unsigned kEventDisableTiming = 2;
inline constexpr int kInvalidDeviceId = -2;
inline constexpr unsigned kMallocSignalMemory = 2;
inline constexpr int kExternalMemoryOpaqueFd = 1;
inline constexpr int kMemRangeHandleTypeDmaBufFd = 1;

enum StreamWaitValue : unsigned { kWaitGte = 0, kWaitEq = 1, kWaitAnd = 2, kWaitNor = 3 };

using Stream = struct ihipStream_t*;
using Event = struct ihipEvent_t*;
using Module = struct ihipModule_t*;
using Function = struct ihipModuleSymbol_t*;
using ExternalMemory = void*;
using Device = int;

/// hipPointerAttribute_t: one layout in all majors; `type` counts differently before and from HIP 6.
struct PointerAttributes {
  int type;
  int device;
  void* device_pointer;
  void* host_pointer;
  int is_managed;
  unsigned allocation_flags;
};
static_assert(sizeof(PointerAttributes) == 32);

struct IpcMemHandle {
  char reserved[64];
};
static_assert(sizeof(IpcMemHandle) == 64);

/// hipExternalMemoryHandleDesc at its largest (HIP 6 and later); HIP 5 reads the first 40 bytes.
struct ExternalMemoryHandleDesc {
  int type;
  union {
    int fd;
    struct {
      void* handle;
      const void* name;
    } win32;
  } handle;
  unsigned long long size;
  unsigned flags;
  unsigned reserved[16];
};
static_assert(sizeof(ExternalMemoryHandleDesc) == 104 && offsetof(ExternalMemoryHandleDesc, size) == 24);

/// hipExternalMemoryBufferDesc at its largest; HIP 5 reads the first 24 bytes.
struct ExternalMemoryBufferDesc {
  unsigned long long offset;
  unsigned long long size;
  unsigned flags;
  unsigned reserved[16];
};
static_assert(sizeof(ExternalMemoryBufferDesc) == 88);

/// hipAmdFileHandle_t: passed by value.
struct AmdFileHandle {
  union {
    void* handle;
    int fd;
    uint8_t pad[8];
  };
};
static_assert(sizeof(AmdFileHandle) == 8);

using HostFunction = void (*)(void*);
using StreamCallback = void (*)(Stream, Error, void*);

}  // namespace hip
