// The HIP runtime, found at run time, as one table of functions. Nothing is linked to libamdhip64, so one
// build runs with any ROCm, with none, and on a stand-in.
#pragma once

#include <memory>
#include <string>

#include "hip_abi/hip_abi.h"
#include "posix/error.h"

namespace gpu {

/// Entry points that every runtime from HIP 5.2 on has: name and parameters.
#define GPU_HIP_REQUIRED(X)                                                     \
  X(hipInit, (unsigned))                                                        \
  X(hipGetDeviceCount, (int*))                                                  \
  X(hipGetDevice, (int*))                                                       \
  X(hipSetDevice, (int))                                                        \
  X(hipRuntimeGetVersion, (int*))                                               \
  X(hipDeviceGetAttribute, (int*, int, int))                                    \
  X(hipDeviceGetName, (char*, int, hip::Device))                                \
  X(hipMalloc, (void**, size_t))                                                \
  X(hipFree, (void*))                                                           \
  X(hipHostMalloc, (void**, size_t, unsigned))                                  \
  X(hipHostFree, (void*))                                                       \
  X(hipMemset, (void*, int, size_t))                                            \
  X(hipMemcpy, (void*, const void*, size_t, hip::MemcpyKind))                   \
  X(hipMemcpyAsync, (void*, const void*, size_t, hip::MemcpyKind, hip::Stream)) \
  X(hipPointerGetAttributes, (hip::PointerAttributes*, const void*))            \
  X(hipMemGetAddressRange, (void**, size_t*, void*))                            \
  X(hipStreamCreateWithFlags, (hip::Stream*, unsigned))                         \
  X(hipStreamDestroy, (hip::Stream))                                            \
  X(hipStreamSynchronize, (hip::Stream))                                        \
  X(hipEventCreateWithFlags, (hip::Event*, unsigned))                           \
  X(hipEventDestroy, (hip::Event))                                              \
  X(hipEventRecord, (hip::Event, hip::Stream))                                  \
  X(hipEventQuery, (hip::Event))                                                \
  X(hipEventSynchronize, (hip::Event))                                          \
  X(hipIpcGetMemHandle, (hip::IpcMemHandle*, void*))                            \
  X(hipIpcOpenMemHandle, (void**, hip::IpcMemHandle, unsigned))                 \
  X(hipIpcCloseMemHandle, (void*))                                              \
  X(hipGetLastError, ())

/// Entry points that some runtimes lack: null then.
#define GPU_HIP_OPTIONAL(X)                                                                                \
  X(hipGetProcAddress, (const char*, void**, int, uint64_t, int*))                                         \
  X(hipLaunchHostFunc, (hip::Stream, hip::HostFunction, void*))                                            \
  X(hipStreamAddCallback, (hip::Stream, hip::StreamCallback, void*, unsigned))                             \
  X(hipStreamWaitValue64, (hip::Stream, void*, uint64_t, unsigned, uint64_t))                              \
  X(hipStreamGetFlags, (hip::Stream, unsigned*))                                                           \
  X(hipStreamIsCapturing, (hip::Stream, int*))                                                             \
  X(hipStreamQuery, (hip::Stream))                                                                         \
  X(hipExtMallocWithFlags, (void**, size_t, unsigned))                                                     \
  X(hipStreamGetDevice, (hip::Stream, hip::Device*))                                                       \
  X(hipDeviceGetUuid, (void*, hip::Device))                                                                \
  X(hipImportExternalMemory, (hip::ExternalMemory*, const hip::ExternalMemoryHandleDesc*))                 \
  X(hipExternalMemoryGetMappedBuffer, (void**, hip::ExternalMemory, const hip::ExternalMemoryBufferDesc*)) \
  X(hipDestroyExternalMemory, (hip::ExternalMemory))                                                       \
  X(hipModuleLoadData, (hip::Module*, const void*))                                                        \
  X(hipModuleUnload, (hip::Module))                                                                        \
  X(hipModuleGetFunction, (hip::Function*, hip::Module, const char*))                                      \
  X(hipModuleLaunchKernel, (hip::Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,     \
                            unsigned, hip::Stream, void**, void**))                                        \
  X(hipMemGetHandleForAddressRange, (void*, void*, size_t, int, unsigned long long))                       \
  X(hipHostRegister, (void*, size_t, unsigned))                                                            \
  X(hipHostUnregister, (void*))                                                                            \
  X(hipAmdFileRead, (hip::AmdFileHandle, void*, uint64_t, int64_t, uint64_t*, int32_t*))                   \
  X(hipAmdFileWrite, (hip::AmdFileHandle, void*, uint64_t, int64_t, uint64_t*, int32_t*))

struct HipTable {
#define GPU_HIP_MEMBER(name, parameters) hip::Error(*name) parameters = nullptr;
  GPU_HIP_REQUIRED(GPU_HIP_MEMBER)
  GPU_HIP_OPTIONAL(GPU_HIP_MEMBER)
#undef GPU_HIP_MEMBER
  const char* (*hipGetErrorName)(int) = nullptr;
};

enum class RuntimeKind { amd, software, cuda };

/// A loaded runtime. Immutable, so usable from any thread; never unloaded, because HIP runtimes cannot be.
class Runtime {
 public:
  /// Which runtime to take. `name` is "auto", "amd", "cuda", "software" or the path of a library. Auto takes the
  /// first of: a runtime already in this process, whatever devices it has; libamdhip64.so.10 to .5 with at
  /// least one device; the stand-in for NVIDIA GPUs that was built with this project, with at least one device;
  /// its software stand-in. ENODEV if there is none, EINVAL for a bad name.
  static posix::Result<std::shared_ptr<const Runtime>> load(const std::string& name);

  /// A runtime over a ready table, for tests that inject fakes.
  Runtime(const HipTable& table, RuntimeKind kind, std::string path, int version,
          bool device_memory_is_pages);

  const HipTable& hip() const { return table_; }
  RuntimeKind kind() const { return kind_; }
  /// hipRuntimeGetVersion: major * 10000000 + ...
  int version() const { return version_; }
  int major() const { return version_ / 10000000; }
  const std::string& path() const { return path_; }
  int device_count() const;
  /// For people: the device's name, and where the runtime came from.
  std::string describe() const;
  /// Device memory of this runtime is ordinary CPU-addressable pages (software runtime, not in strict mode).
  bool device_memory_is_pages() const { return device_memory_is_pages_; }
  bool has_ais() const { return table_.hipAmdFileRead && table_.hipAmdFileWrite; }
  /// hipIpcMemLazyEnablePeerAccess, the only value that this major accepts.
  unsigned ipc_open_flags() const { return major() >= 6 ? 1 : 0; }
  std::string error_name(hip::Error error) const;

 private:
  HipTable table_;
  RuntimeKind kind_;
  std::string path_;
  int version_;
  bool device_memory_is_pages_;
};

/// Makes a device current for the calling thread, and the former one again at the end.
class DeviceGuard {
 public:
  DeviceGuard(const Runtime& runtime, int device);
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;
  /// hip::kSuccess if the device is now current.
  hip::Error status() const { return status_; }

 private:
  const Runtime& runtime_;
  int former_ = -1;
  hip::Error status_ = hip::kSuccess;
};

}  // namespace gpu
