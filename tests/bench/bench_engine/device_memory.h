// The device memory that transfers go to and come from, with a known content before and a comparison after.
#pragma once

#include <vector>

#include "mount_client.h"
#include "workload.h"

namespace bench {

/// "what (hipErrorName)".
posix::Error hip_failure(const gpu::Runtime& runtime, const std::string& what, hip::Error error);

/// Pinned host memory.
class PinnedMemory {
 public:
  static posix::Result<PinnedMemory> make(std::shared_ptr<const gpu::Runtime> runtime, size_t size);
  PinnedMemory(PinnedMemory&& other) noexcept
      : runtime_(std::move(other.runtime_)), data_(std::exchange(other.data_, nullptr)) {}
  PinnedMemory& operator=(PinnedMemory&&) = delete;
  ~PinnedMemory();
  char* data() const { return data_; }

 private:
  PinnedMemory(std::shared_ptr<const gpu::Runtime> runtime, char* data)
      : runtime_(std::move(runtime)), data_(data) {}
  std::shared_ptr<const gpu::Runtime> runtime_;
  char* data_;
};

class DeviceMemory {
 public:
  static posix::Result<DeviceMemory> make(std::shared_ptr<const gpu::Runtime> runtime, int device,
                                          size_t size);

  char* address() const { return static_cast<char*>(target_.address()); }
  size_t size() const { return target_.size(); }
  const tools::TargetMemory& target() const { return target_; }

  /// Bytes that no pattern has, so that what an earlier transfer left is not taken for this one's.
  posix::Result<void> poison(uint64_t length);
  posix::Result<void> fill(uint64_t length, uint64_t seed);
  /// EILSEQ with the offset of the first byte that is not the pattern's.
  posix::Result<void> compare(const std::vector<Request>& requests, uint64_t seed);

 private:
  DeviceMemory(std::shared_ptr<const gpu::Runtime> runtime, tools::TargetMemory target, PinnedMemory window)
      : runtime_(std::move(runtime)), target_(std::move(target)), window_(std::move(window)) {}
  std::shared_ptr<const gpu::Runtime> runtime_;
  tools::TargetMemory target_;
  PinnedMemory window_;
};

}  // namespace bench
