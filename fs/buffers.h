// Buffers that clients registered, and who may use them.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "gpu/import.h"
#include "process.h"

namespace fs {

/// A registered buffer. Requests hold a reference while they run; the memory is let go when the last one is
/// dropped.
class Buffer {
 public:
  explicit Buffer(std::unique_ptr<gpu::Imported> imported) : imported_(std::move(imported)) {}
  ~Buffer() {
    imported_.reset();
    if (released_) released_();
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  const gpu::Memory& memory() const { return imported_->memory(); }

 private:
  friend class BufferTable;
  std::unique_ptr<gpu::Imported> imported_;
  std::function<void()> released_;
};

/// Names one open file description of the mount.
using DescriptionId = uint64_t;

/// Thread-safe.
class BufferTable {
 public:
  static constexpr size_t kMostPerDescription = 4096;
  /// Each is a mapping of the daemon, which has vm.max_map_count of them (65530).
  static constexpr size_t kMost = 32768;
  /// Of address space, which is 128 TiB in all.
  static constexpr uint64_t kMostBytes = uint64_t{16} << 40;

  /// Adds a buffer that belongs to `owner`, and with it to what is open there. `process`: who registered it,
  /// if known. /// ENOSPC: too many on this description. ENOMEM: too many or too large together.
  posix::Result<uint64_t> add(std::unique_ptr<gpu::Imported> imported, DescriptionId owner,
                              std::optional<ProcessKey> process, bool process_wide);
  /// Makes a buffer valid on another description. ENOENT: unknown id. EPERM: not this process's buffer.
  posix::Result<void> attach(uint64_t id, DescriptionId description,
                             const std::optional<ProcessKey>& process);
  /// The buffer, if it is valid on this description. `opener`: who opened it, where that was found out.
  std::shared_ptr<Buffer> find(uint64_t id, DescriptionId description,
                               const std::optional<ProcessKey>& opener) const;
  /// Forgets a buffer; `released` is called when the last request that uses it is done. False: not valid
  /// here.
  bool remove(uint64_t id, DescriptionId description, const std::optional<ProcessKey>& opener,
              std::function<void()> released);

  /// Both give the buffers that nobody can name any more, for the caller to let go where waiting is allowed.
  std::vector<std::shared_ptr<Buffer>> description_closed(DescriptionId description);
  std::vector<std::shared_ptr<Buffer>> process_ended(const ProcessKey& process);

  bool empty() const { return count_.load(std::memory_order_relaxed) == 0; }
  bool process_holds_buffer(const ProcessKey& process) const;
  size_t size() const { return count_.load(std::memory_order_relaxed); }

 private:
  struct Entry {
    std::shared_ptr<Buffer> buffer;
    DescriptionId owner;
    std::optional<ProcessKey> process;
    bool process_wide;
    std::set<DescriptionId> attached;
    bool valid_on(DescriptionId description, const std::optional<ProcessKey>& opener) const {
      return description == owner || attached.contains(description) ||
             (process_wide && opener && opener == process);
    }
  };
  // With mutex_ held.
  std::shared_ptr<Buffer> take(std::map<uint64_t, Entry>::iterator it);

  mutable std::mutex mutex_;
  std::map<uint64_t, Entry> entries_;
  std::map<DescriptionId, std::set<uint64_t>>
      on_description_;  ///< owned and attached, so that closing is cheap
  std::map<ProcessKey, size_t> of_process_;
  uint64_t bytes_ = 0;
  std::atomic<size_t> count_{0};
};

}  // namespace fs
