// Buffers that clients registered, and who may use them.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>

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
  static constexpr size_t kMostPerDescription = 65536;

  /// Adds a buffer that belongs to `owner`, and with it to what is open there. `process`: who registered it,
  /// if known. ENOSPC: too many on this description.
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

  void description_closed(DescriptionId description);
  void process_ended(const ProcessKey& process);

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
  // Takes entries out under the lock; the buffers die after it, because releasing memory may wait for the
  // device.
  template <typename Condition>
  void remove_if(Condition condition);

  mutable std::mutex mutex_;
  std::map<uint64_t, Entry> entries_;
  std::map<DescriptionId, size_t> owned_;
  std::atomic<size_t> count_{0};
};

}  // namespace fs
