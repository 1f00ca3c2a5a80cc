#include "driver.h"

#include <linux/kcmp.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <sys/syscall.h>

namespace api {
namespace {

// Whether two descriptors are one open file. Where the kernel does not tell, the same inode counts as the
// same.
bool same_open_file(int a, int b) {
  long order = syscall(SYS_kcmp, getpid(), getpid(), KCMP_FILE, a, b);
  if (order >= 0) return order == 0;
  struct stat sa, sb;
  return fstat(a, &sa) == 0 && fstat(b, &sb) == 0 && sa.st_dev == sb.st_dev && sa.st_ino == sb.st_ino;
}

hipFileError_t from_errno(int error) {
  return failure(error == EMFILE || error == ENFILE ? hipFileGetNewFDFailed : hipFileInternalError);
}

}  // namespace

Driver& Driver::instance() {
  static auto* driver = new Driver;  // never destroyed: client threads may outlive static destructors
  return *driver;
}

engine::Engine& Driver::engine() {
  std::call_once(engine_once_, [this] {
    auto runtime = gpu::Runtime::load("auto");
    if (!runtime) spdlog::warn("hipFile: {}", runtime.error().text());
    engine_ = std::make_unique<engine::Engine>(runtime ? *runtime : nullptr, engine::Config());
  });
  return *engine_;
}

void Driver::open() { count_++; }

void Driver::open_implicitly() {
  int64_t closed = 0;
  count_.compare_exchange_strong(closed, 1);
}

hipFileError_t Driver::close() {
  std::unique_lock lock(mutex_);
  if (count_ == 0) return failure(hipFileDriverNotInitialized);
  if (--count_ == 0) {
    files_.clear();
    buffers_.clear();
  }
  return success();
}

hipFileError_t Driver::register_file(int fd, hipFileHandle_t& out) {
  auto own = posix::duplicate(fd);
  if (!own) return from_errno(own.error().code);
  {
    std::shared_lock lock(mutex_);
    for (const auto& [handle, known] : files_)
      if (known->client_fd == fd && same_open_file(fd, known->file->own()))
        return failure(hipFileHandleAlreadyRegistered);
  }
  auto file = storage::File::open(std::move(*own), engine().mounts());
  if (!file) {
    spdlog::warn("hipFile: register descriptor {}: {}", fd, file.error().text());
    return from_errno(file.error().code);
  }
  auto entry = std::make_shared<RegisteredFile>();
  entry->client_fd = fd;
  entry->file = std::move(*file);
  std::unique_lock lock(mutex_);
  for (const auto& [handle, known] : files_)
    if (known->client_fd == fd && same_open_file(fd, known->file->own()))
      return failure(hipFileHandleAlreadyRegistered);
  last_handle_ += 16;
  out = reinterpret_cast<hipFileHandle_t>(last_handle_);  // NOLINT(performance-no-int-to-ptr)
  files_.emplace(out, std::move(entry));
  return success();
}

void Driver::deregister_file(hipFileHandle_t handle) {
  std::shared_ptr<RegisteredFile> last;  // closed outside the lock
  std::unique_lock lock(mutex_);
  auto it = files_.find(handle);
  if (it == files_.end() || it->second->requests > 0) return;
  last = std::move(it->second);
  files_.erase(it);
}

Use<RegisteredFile> Driver::find_file(hipFileHandle_t handle) const {
  std::shared_lock lock(mutex_);
  auto it = files_.find(handle);
  return it == files_.end() ? Use<RegisteredFile>() : Use<RegisteredFile>(it->second);
}

tl::expected<gpu::Memory, hipFileError_t> Driver::describe(const void* base) {
  if (!base) return tl::unexpected(failure(hipFileInvalidValue));
  const gpu::Runtime* runtime = engine().runtime();
  if (!runtime) return tl::unexpected(hip_failure(hip::kErrorNoDevice));
  auto memory = gpu::describe(*runtime, base);
  if (!memory) {
    bool unknown = memory.error() == hip::kErrorInvalidValue || memory.error() == hip::kErrorNotFound;
    return tl::unexpected(unknown ? failure(hipFileInvalidValue) : hip_failure(memory.error()));
  }
  if (memory->kind == gpu::MemoryKind::pageable) return tl::unexpected(failure(hipFileHipMemoryTypeInvalid));
  return *memory;
}

hipFileError_t Driver::register_buffer(const void* base, size_t length) {
  auto memory = describe(base);
  if (!memory) return memory.error();
  if (length > memory->length) return failure(hipFileHipPointerRangeError);
  auto entry = std::make_shared<RegisteredBuffer>();
  entry->memory = *memory;
  entry->memory.length = length;
  std::unique_lock lock(mutex_);
  return buffers_.emplace(base, std::move(entry)).second ? success()
                                                         : failure(hipFileMemoryAlreadyRegistered);
}

hipFileError_t Driver::deregister_buffer(const void* base) {
  if (!is_open()) return failure(hipFileDriverClosing);
  std::unique_lock lock(mutex_);
  auto it = buffers_.find(base);
  if (it == buffers_.end()) return failure(hipFileMemoryNotRegistered);
  if (it->second->requests > 0) return failure(hipFileInternalError);
  buffers_.erase(it);
  return success();
}

tl::expected<Use<RegisteredBuffer>, hipFileError_t> Driver::find_buffer(const void* base) {
  {
    std::shared_lock lock(mutex_);
    auto it = buffers_.find(base);
    if (it != buffers_.end()) return Use<RegisteredBuffer>(it->second);
  }
  auto memory = describe(base);
  if (!memory) return tl::unexpected(memory.error());
  auto entry = std::make_shared<RegisteredBuffer>();
  entry->memory = *memory;
  return Use<RegisteredBuffer>(std::move(entry));
}

}  // namespace api
