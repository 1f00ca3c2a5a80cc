// The state behind the C API: who has the driver open, which files and buffers are registered.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>

#include "engine/engine.h"
#include "hipfile.h"

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
  Use(Use&& other) noexcept : object_(std::move(other.object_)) {}
  Use& operator=(Use&& other) noexcept {
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
  std::shared_ptr<const storage::File> file;
};

struct RegisteredBuffer : InUse {
  gpu::Memory memory;
};

inline hipFileError_t success() { return {hipFileSuccess, hipSuccess}; }
inline hipFileError_t failure(hipFileOpError_t error) { return {error, hipSuccess}; }
inline hipFileError_t hip_failure(hip::Error error) {
  return {hipFileHipDriverError, static_cast<hipError_t>(static_cast<int>(error))};
}

/// Thread-safe. One per process.
class Driver {
 public:
  static Driver& instance();

  void open();
  hipFileError_t close();
  int64_t use_count() const { return count_; }
  bool is_open() const { return count_ > 0; }
  /// Opens the driver, once, if nobody has.
  void open_implicitly();

  hipFileError_t register_file(int fd, hipFileHandle_t& out);
  void deregister_file(hipFileHandle_t handle);
  Use<RegisteredFile> find_file(hipFileHandle_t handle) const;

  hipFileError_t register_buffer(const void* base, size_t length);
  hipFileError_t deregister_buffer(const void* base);
  /// The registered buffer that starts at `base`, or a temporary one for what HIP knows about the pointer.
  tl::expected<Use<RegisteredBuffer>, hipFileError_t> find_buffer(const void* base);

  /// The engine, made at first use; with it the HIP runtime is chosen.
  engine::Engine& engine();

 private:
  Driver() = default;
  tl::expected<gpu::Memory, hipFileError_t> describe(const void* base);

  std::atomic<int64_t> count_{0};
  mutable std::shared_mutex mutex_;  ///< guards what follows
  std::map<hipFileHandle_t, std::shared_ptr<RegisteredFile>> files_;
  std::map<const void*, std::shared_ptr<RegisteredBuffer>> buffers_;
  uintptr_t last_handle_ = 0x1000;  ///< handles are numbers that never come again, so a stale one is noticed
  std::once_flag engine_once_;
  std::unique_ptr<engine::Engine> engine_;
};

}  // namespace api
