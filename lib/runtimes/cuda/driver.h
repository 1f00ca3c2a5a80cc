// NVIDIA's driver API, found at run time: the few functions that are used here, declared by us.
//
// A CUresult has the number of the hipError_t of the same meaning, and flags, streams, events and copy
// kinds are the same numbers, so both sides share hip_abi.h's types. A CUdeviceptr is an integer as wide as a
// pointer and is declared as one, which is the same to the C ABI of every 64-bit machine.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "hip_abi/hip_abi.h"

namespace cuda {

using Context = struct CUctx_st*;
using Module = struct CUmod_st*;
using Function = struct CUfunc_st*;
using AllocationHandle = unsigned long long;

struct MemoryLocation {
  int type, id;
};

/// CUmemAllocationProp.
struct AllocationProperties {
  int type, handle_types;
  MemoryLocation location;
  void* windows;
  unsigned char compression, gpu_direct;
  unsigned short usage;
  unsigned char reserved[4];
};
static_assert(sizeof(AllocationProperties) == 32);

/// CUmemAccessDesc.
struct AccessDescription {
  MemoryLocation location;
  int flags;
};

inline constexpr int kPinnedAllocation = 1;    // CU_MEM_ALLOCATION_TYPE_PINNED
inline constexpr int kLocationDevice = 1;      // CU_MEM_LOCATION_TYPE_DEVICE
inline constexpr int kHandlePosixFd = 1;       // CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
inline constexpr int kGranularityMinimum = 0;  // CU_MEM_ALLOC_GRANULARITY_MINIMUM
inline constexpr int kAccessReadWrite = 3;     // CU_MEM_ACCESS_FLAGS_PROT_READWRITE
inline constexpr int kExternalDmaBuf = 9;      // CU_EXTERNAL_MEMORY_HANDLE_TYPE_DMABUF_FD
inline constexpr unsigned kIpcLazyPeerAccess =
    1;  // CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS, the only value it takes

/// CUpointer_attribute, which hipPointer_attribute equals.
enum PointerAttribute : int {
  kPointerContext = 1,
  kPointerMemoryType = 2,
  kPointerDevice = 3,
  kPointerHost = 4,
  kPointerBufferId = 7,
  kPointerIsManaged = 8,
  kPointerOrdinal = 9,
  kPointerRangeStart = 11,
  kPointerRangeSize = 12,
};

/// CUmemorytype.
enum MemoryType : unsigned { kMemoryUnknown = 0, kMemoryHost = 1, kMemoryDevice = 2, kMemoryUnified = 4 };

// Member and symbol, which carries the version of the ABI that is declared here.
#define CUDA_REQUIRED(X)                                                                                  \
  X(cuInit, "cuInit", (unsigned))                                                                         \
  X(cuDriverGetVersion, "cuDriverGetVersion", (int*))                                                     \
  X(cuDeviceGetCount, "cuDeviceGetCount", (int*))                                                         \
  X(cuDeviceGet, "cuDeviceGet", (int*, int))                                                              \
  X(cuDeviceGetName, "cuDeviceGetName", (char*, int, int))                                                \
  X(cuDeviceTotalMem, "cuDeviceTotalMem_v2", (size_t*, int))                                              \
  X(cuDeviceGetAttribute, "cuDeviceGetAttribute", (int*, int, int))                                       \
  X(cuDeviceGetByPCIBusId, "cuDeviceGetByPCIBusId", (int*, const char*))                                  \
  X(cuDeviceCanAccessPeer, "cuDeviceCanAccessPeer", (int*, int, int))                                     \
  X(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", (Context*, int))                                \
  X(cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", (int))                                     \
  X(cuDevicePrimaryCtxReset, "cuDevicePrimaryCtxReset_v2", (int))                                         \
  X(cuCtxGetCurrent, "cuCtxGetCurrent", (Context*))                                                       \
  X(cuCtxSetCurrent, "cuCtxSetCurrent", (Context))                                                        \
  X(cuCtxPushCurrent, "cuCtxPushCurrent_v2", (Context))                                                   \
  X(cuCtxPopCurrent, "cuCtxPopCurrent_v2", (Context*))                                                    \
  X(cuCtxGetDevice, "cuCtxGetDevice", (int*))                                                             \
  X(cuCtxSynchronize, "cuCtxSynchronize", ())                                                             \
  X(cuCtxGetStreamPriorityRange, "cuCtxGetStreamPriorityRange", (int*, int*))                             \
  X(cuCtxEnablePeerAccess, "cuCtxEnablePeerAccess", (Context, unsigned))                                  \
  X(cuCtxDisablePeerAccess, "cuCtxDisablePeerAccess", (Context))                                          \
  X(cuMemAlloc, "cuMemAlloc_v2", (void**, size_t))                                                        \
  X(cuMemFree, "cuMemFree_v2", (void*))                                                                   \
  X(cuMemAllocManaged, "cuMemAllocManaged", (void**, size_t, unsigned))                                   \
  X(cuMemGetInfo, "cuMemGetInfo_v2", (size_t*, size_t*))                                                  \
  X(cuMemGetAddressRange, "cuMemGetAddressRange_v2", (void**, size_t*, void*))                            \
  X(cuMemHostAlloc, "cuMemHostAlloc", (void**, size_t, unsigned))                                         \
  X(cuMemFreeHost, "cuMemFreeHost", (void*))                                                              \
  X(cuMemHostRegister, "cuMemHostRegister_v2", (void*, size_t, unsigned))                                 \
  X(cuMemHostUnregister, "cuMemHostUnregister", (void*))                                                  \
  X(cuMemHostGetDevicePointer, "cuMemHostGetDevicePointer_v2", (void**, void*, unsigned))                 \
  X(cuMemHostGetFlags, "cuMemHostGetFlags", (unsigned*, void*))                                           \
  X(cuMemcpy, "cuMemcpy", (void*, const void*, size_t))                                                   \
  X(cuMemcpyHtoD, "cuMemcpyHtoD_v2", (void*, const void*, size_t))                                        \
  X(cuMemcpyDtoH, "cuMemcpyDtoH_v2", (void*, const void*, size_t))                                        \
  X(cuMemcpyDtoD, "cuMemcpyDtoD_v2", (void*, const void*, size_t))                                        \
  X(cuMemcpyAsync, "cuMemcpyAsync", (void*, const void*, size_t, hip::Stream))                            \
  X(cuMemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2", (void*, const void*, size_t, hip::Stream))                 \
  X(cuMemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2", (void*, const void*, size_t, hip::Stream))                 \
  X(cuMemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2", (void*, const void*, size_t, hip::Stream))                 \
  X(cuMemcpyPeer, "cuMemcpyPeer", (void*, Context, const void*, Context, size_t))                         \
  X(cuMemcpyPeerAsync, "cuMemcpyPeerAsync", (void*, Context, const void*, Context, size_t, hip::Stream))  \
  X(cuMemsetD8, "cuMemsetD8_v2", (void*, unsigned char, size_t))                                          \
  X(cuMemsetD8Async, "cuMemsetD8Async", (void*, unsigned char, size_t, hip::Stream))                      \
  X(cuPointerGetAttributes, "cuPointerGetAttributes", (unsigned, PointerAttribute*, void**, const void*)) \
  X(cuPointerGetAttribute, "cuPointerGetAttribute", (void*, PointerAttribute, const void*))               \
  X(cuStreamCreate, "cuStreamCreate", (hip::Stream*, unsigned))                                           \
  X(cuStreamCreateWithPriority, "cuStreamCreateWithPriority", (hip::Stream*, unsigned, int))              \
  X(cuStreamDestroy, "cuStreamDestroy_v2", (hip::Stream))                                                 \
  X(cuStreamSynchronize, "cuStreamSynchronize", (hip::Stream))                                            \
  X(cuStreamQuery, "cuStreamQuery", (hip::Stream))                                                        \
  X(cuStreamWaitEvent, "cuStreamWaitEvent", (hip::Stream, hip::Event, unsigned))                          \
  X(cuStreamGetFlags, "cuStreamGetFlags", (hip::Stream, unsigned*))                                       \
  X(cuStreamGetPriority, "cuStreamGetPriority", (hip::Stream, int*))                                      \
  X(cuStreamGetCtx, "cuStreamGetCtx", (hip::Stream, Context*))                                            \
  X(cuStreamIsCapturing, "cuStreamIsCapturing", (hip::Stream, int*))                                      \
  X(cuStreamAddCallback, "cuStreamAddCallback", (hip::Stream, hip::StreamCallback, void*, unsigned))      \
  X(cuLaunchHostFunc, "cuLaunchHostFunc", (hip::Stream, hip::HostFunction, void*))                        \
  X(cuThreadExchangeStreamCaptureMode, "cuThreadExchangeStreamCaptureMode", (int*))                       \
  X(cuEventCreate, "cuEventCreate", (hip::Event*, unsigned))                                              \
  X(cuEventDestroy, "cuEventDestroy_v2", (hip::Event))                                                    \
  X(cuEventRecord, "cuEventRecord", (hip::Event, hip::Stream))                                            \
  X(cuEventQuery, "cuEventQuery", (hip::Event))                                                           \
  X(cuEventSynchronize, "cuEventSynchronize", (hip::Event))                                               \
  X(cuEventElapsedTime, "cuEventElapsedTime", (float*, hip::Event, hip::Event))                           \
  X(cuIpcGetMemHandle, "cuIpcGetMemHandle", (hip::IpcMemHandle*, void*))                                  \
  X(cuIpcOpenMemHandle, "cuIpcOpenMemHandle_v2", (void**, hip::IpcMemHandle, unsigned))                   \
  X(cuIpcCloseMemHandle, "cuIpcCloseMemHandle", (void*))                                                  \
  X(cuModuleLoadData, "cuModuleLoadData", (Module*, const void*))                                         \
  X(cuModuleUnload, "cuModuleUnload", (Module))                                                           \
  X(cuModuleGetFunction, "cuModuleGetFunction", (Function*, Module, const char*))                         \
  X(cuLaunchKernel, "cuLaunchKernel",                                                                     \
    (Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, hip::Stream, void**, \
     void**))

// Null where the driver is too old for them: hipErrorNotSupported then.
#define CUDA_OPTIONAL(X)                                                                               \
  X(cuDeviceGetUuid, "cuDeviceGetUuid_v2", (void*, int))                                               \
  X(cuGetErrorName, "cuGetErrorName", (hip::Error, const char**))                                      \
  X(cuGetErrorString, "cuGetErrorString", (hip::Error, const char**))                                  \
  X(cuMemAllocAsync, "cuMemAllocAsync", (void**, size_t, hip::Stream))                                 \
  X(cuMemFreeAsync, "cuMemFreeAsync", (void*, hip::Stream))                                            \
  X(cuStreamWaitValue32, "cuStreamWaitValue32_v2", (hip::Stream, void*, uint32_t, unsigned))           \
  X(cuStreamWaitValue64, "cuStreamWaitValue64_v2", (hip::Stream, void*, uint64_t, unsigned))           \
  X(cuStreamWriteValue32, "cuStreamWriteValue32_v2", (hip::Stream, void*, uint32_t, unsigned))         \
  X(cuStreamWriteValue64, "cuStreamWriteValue64_v2", (hip::Stream, void*, uint64_t, unsigned))         \
  X(cuIpcGetEventHandle, "cuIpcGetEventHandle", (hip::IpcMemHandle*, hip::Event))                      \
  X(cuIpcOpenEventHandle, "cuIpcOpenEventHandle", (hip::Event*, hip::IpcMemHandle))                    \
  X(cuMemGetHandleForAddressRange, "cuMemGetHandleForAddressRange",                                    \
    (void*, void*, size_t, int, unsigned long long))                                                   \
  X(cuImportExternalMemory, "cuImportExternalMemory",                                                  \
    (hip::ExternalMemory*, const hip::ExternalMemoryHandleDesc*))                                      \
  X(cuExternalMemoryGetMappedBuffer, "cuExternalMemoryGetMappedBuffer",                                \
    (void**, hip::ExternalMemory, const hip::ExternalMemoryBufferDesc*))                               \
  X(cuDestroyExternalMemory, "cuDestroyExternalMemory", (hip::ExternalMemory))                         \
  X(cuMemImportFromShareableHandle, "cuMemImportFromShareableHandle", (AllocationHandle*, void*, int)) \
  X(cuMemRetainAllocationHandle, "cuMemRetainAllocationHandle", (AllocationHandle*, void*))            \
  X(cuMemRelease, "cuMemRelease", (AllocationHandle))                                                  \
  X(cuMemGetAllocationGranularity, "cuMemGetAllocationGranularity",                                    \
    (size_t*, const AllocationProperties*, int))                                                       \
  X(cuMemAddressReserve, "cuMemAddressReserve", (void**, size_t, size_t, void*, unsigned long long))   \
  X(cuMemAddressFree, "cuMemAddressFree", (void*, size_t))                                             \
  X(cuMemMap, "cuMemMap", (void*, size_t, size_t, AllocationHandle, unsigned long long))               \
  X(cuMemUnmap, "cuMemUnmap", (void*, size_t))                                                         \
  X(cuMemSetAccess, "cuMemSetAccess", (void*, size_t, const AccessDescription*, size_t))               \
  X(cuModuleLoadDataEx, "cuModuleLoadDataEx", (Module*, const void*, unsigned, int*, void**))          \
  X(cuModuleLoad, "cuModuleLoad", (Module*, const char*))

struct DriverTable {
#define CUDA_MEMBER(name, symbol, parameters) hip::Error(*name) parameters = nullptr;
  CUDA_REQUIRED(CUDA_MEMBER)
  CUDA_OPTIONAL(CUDA_MEMBER)
#undef CUDA_MEMBER
};

inline constexpr int kMostDevices = 64;

/// libcuda.so.1 and the devices it shows. Loaded and initialised once, at first use; immutable then.
struct Driver {
  DriverTable call;
  hip::Error status = hip::kErrorNoDevice;  ///< anything but kSuccess: nothing else may be used
  int version = 0;                          ///< cuDriverGetVersion: 1000 * major + 10 * minor
  int count = 0;
  std::array<int, kMostDevices> devices{};  ///< CUdevice by ordinal

  bool valid(int ordinal) const { return ordinal >= 0 && ordinal < count; }
};

/// kErrorNoDevice is the status where there is no driver, no device, or a driver without what is required.
const Driver& driver();

}  // namespace cuda
