// What outlives a single measurement: the runtime, the library, device memory, and its registration with mounts.
#pragma once

#include <map>
#include <optional>

#include "device_memory.h"
#include "file_api.h"

namespace bench {

/// Device memory registered with a mount for every file that this process opens on it.
struct MountRegistration {
  posix::Fd directory;
  uint64_t buffer_id;
  pid_t daemon;
};

class Session {
 public:
  Session(std::shared_ptr<const gpu::Runtime> runtime, int device, posix::Result<FileApi> api)
      : runtime_(std::move(runtime)), device_(device), api_(std::move(api)) {}

  const std::shared_ptr<const gpu::Runtime>& runtime() const { return runtime_; }
  int device() const { return device_; }
  /// Or why there is none.
  const posix::Result<FileApi>& api() const { return api_; }
  /// At least `size` bytes; kept, so that its making is no part of what comes later.
  posix::Result<DeviceMemory*> memory(size_t size);
  /// Of memory() with the mount that `path` lies on.
  posix::Result<const MountRegistration*> registration(const std::string& path);

 private:
  std::shared_ptr<const gpu::Runtime> runtime_;
  int device_;
  posix::Result<FileApi> api_;
  std::optional<DeviceMemory> memory_;
  std::map<std::string, MountRegistration> registrations_;  // by directory
};

}  // namespace bench
