// The state behind the C API: who has the driver open, which files and buffers are registered.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "engine/engine.h"
#include "engine/executor.h"
#include "hipfile.h"
#include "parameters.h"
#include "sharded_mutex.h"
#include "stats.h"

namespace api {

/// A registered object that knows how many requests use it.
struct InUse {
  std::atomic<int> requests{0};
};

/// Counts one request as long as it lives.
template <typename T>
class Use {
 public:
  Use() = default;
  explicit Use(std::shared_ptr<T> object) : object_(std::move(object)) {
    if (object_) object_->requests++;
  }
  Use(const Use& other) : Use(other.object_) {}
  Use(Use&& other) noexcept : object_(std::move(other.object_)) {}
  Use& operator=(Use other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Use() {
    if (object_) object_->requests--;
  }
  explicit operator bool() const { return object_ != nullptr; }
  T* operator->() const { return object_.get(); }

 private:
  std::shared_ptr<T> object_;
};

struct RegisteredFile : InUse {
  int client_fd = -1;  ///< the number it was registered under
  posix::Fd client;  ///< our copy of the client's open file, to tell it from a later one with the same number
  std::shared_ptr<const storage::File> file;
  engine::RouteSet routes = engine::RouteSet::all();
};

struct RegisteredBuffer : InUse {
  gpu::Memory memory;
};

inline hipFileError_t success() { return {hipFileSuccess, hipSuccess}; }
inline hipFileError_t failure(hipFileOpError_t error) { return {error, hipSuccess}; }
inline hipFileError_t hip_failure(hip::Error error) {
  return {hipFileHipDriverError, static_cast<hipError_t>(static_cast<int>(error))};
}

/// One read or write that has passed all checks.
struct Transfer {
  engine::Direction direction = engine::Direction::read;
  Use<RegisteredFile> file;
  Use<RegisteredBuffer> buffer;
  uint64_t size = 0;
  uint64_t file_offset = 0;
  uint64_t buffer_offset = 0;
};

/// What its job may have to wait for.
inline engine::Executor::Source source_of(const Transfer& transfer) {
  return transfer.file->file->facts().id.device;
}

/// Whether [offset, offset + size) is part of the memory. At its very end there is nothing, not even for size 0.
inline bool lies_within(const gpu::Memory& memory, hoff_t offset, size_t size) {
  if (offset < 0 || static_cast<uint64_t>(offset) >= memory.length) return false;
  return size <= memory.length - static_cast<uint64_t>(offset);
}

/// What one call moves at most: MAX_RW_COUNT of the kernel.
inline constexpr uint64_t kMostBytes = 0x7ffff000;

/// Thread-safe. One per process.
class Driver {
 public:
  static Driver& instance();
  /// False in a child made by fork: nothing here can be used there.
  static bool usable();

  void open();
  hipFileError_t close();
  int64_t use_count() const { return count_; }
  bool is_open() const { return count_ > 0; }
  /// Opens the driver, once, if nobody has.
  void open_implicitly();
  /// To be called, without locks, when the last reference is given back.
  void on_close(std::function<void()> f);

  hipFileError_t register_file(int fd, hipFileHandle_t& out);
  void deregister_file(hipFileHandle_t handle);
  Use<RegisteredFile> find_file(hipFileHandle_t handle) const;

  hipFileError_t register_buffer(const void* base, size_t length);
  hipFileError_t deregister_buffer(const void* base);
  /// The registered buffer that starts at `base`, or a temporary one for what HIP knows about the pointer.
  tl::expected<Use<RegisteredBuffer>, hipFileError_t> find_buffer(const void* base);

  /// Moves the data on the calling thread, and counts it.
  engine::Outcome run(const Transfer& transfer, const engine::CancelToken& cancel);

  /// The same if it is a small read that waits for no disk; nothing otherwise.
  std::optional<engine::Outcome> run_at_once(const Transfer& transfer);

  /// Several transfers on the calling thread; small reads share one submission. All are counted.
  std::vector<engine::Outcome> run_all(const std::vector<Transfer>& transfers,
                                       const engine::CancelToken& cancel);
  /// Those of them that are small reads and wait for no disk; nothing for the others, which are not counted.
  std::vector<std::optional<engine::Outcome>> run_all_at_once(const std::vector<Transfer>& transfers);

  /// The HIP runtime, chosen at first use; null if there is none.
  std::shared_ptr<const gpu::Runtime> runtime();
  std::shared_ptr<engine::Engine> engine();
  /// Threads for asynchronous and batch operations.
  std::shared_ptr<engine::Executor> executor();
  Stats& stats() { return stats_; }

  /// A copy of all settings; size() and flag() are for one of them.
  Settings settings() const;
  size_t size(hipFileSizeTConfigParameter_t p) const;
  bool flag(hipFileBoolConfigParameter_t p) const;
  /// Stages a change; hipFileDriverAlreadyOpen while the driver is open.
  hipFileError_t stage(const std::function<void(Settings&)>& change);

 private:
  Driver();
  tl::expected<gpu::Memory, hipFileError_t> describe(const void* base);
  /// Null if none has been made yet.
  std::shared_ptr<engine::Engine> current_engine() const;
  void apply_settings();
  engine::RouteSet routes_of(int fd) const;
  static engine::Request request_of(const Transfer& transfer);
  static std::vector<engine::Request> requests_of(const std::vector<Transfer>& transfers);
  void count(const Transfer& transfer, const engine::Outcome& outcome, uint64_t microseconds);

  std::atomic<int64_t> count_{0};
  mutable ShardedMutex mutex_;  ///< guards what follows
  Parameters parameters_;
  std::map<hipFileHandle_t, std::shared_ptr<RegisteredFile>> files_;
  std::map<const void*, std::shared_ptr<RegisteredBuffer>> buffers_;
  uintptr_t last_handle_ = 0x1000;  ///< handles are numbers that never come again, so a stale one is noticed
  std::vector<std::function<void()>> on_close_;
  mutable ShardedMutex engine_mutex_;  ///< guards what follows
  bool runtime_chosen_ = false;
  std::shared_ptr<const gpu::Runtime> runtime_;
  std::shared_ptr<engine::Engine> engine_;
  std::map<unsigned, std::shared_ptr<engine::Executor>>
      executors_;  ///< by threads; kept, as operations may run on them
  storage::MountTable mounts_;
  Stats stats_;
};

/// Runs the body of an API function: nothing may be thrown across the C ABI, and nothing works in a forked
/// child.
template <typename F>
hipFileError_t guarded(F f) noexcept try {
  if (!Driver::usable()) return failure(hipFileDriverError);
  return f();
} catch (const std::bad_alloc&) {
  return {hipFileHipDriverError, static_cast<hipError_t>(static_cast<int>(hip::kErrorOutOfMemory))};
} catch (...) {
  return failure(hipFileInternalError);
}

/// Keeps what became of the calling thread's request for hipFileLastOutcome.
void remember_outcome(const engine::Outcome& outcome, ssize_t result, int error);

/// What hipFileRead returns for an outcome; -1 with `error` set where errno is to be.
ssize_t result_of(const engine::Outcome& outcome, int& error);

}  // namespace api
