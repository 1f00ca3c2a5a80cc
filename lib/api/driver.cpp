#include "driver.h"

#include <linux/kcmp.h>
#include <pthread.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <thread>

#include "mount_bypass.h"

namespace api {
namespace {

std::atomic<bool> forked{false};

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

uint64_t microseconds_since(std::chrono::steady_clock::time_point start) {
  auto taken = std::chrono::steady_clock::now() - start;
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(taken).count());
}

bool is_of_client(const RegisteredFile& file, int fd) {
  return file.client_fd == fd && same_open_file(fd, file.client ? file.client.get() : file.file->own());
}

void apply_log_level(const std::string& level) {
  if (auto parsed = parse_log_level(level)) spdlog::set_level(*parsed);
}

}  // namespace

bool Driver::usable() { return !forked; }

Driver::Driver() {
  apply_log_level(parameters_.current().strings[hipFileParamLoggingLevel]);
  stats_.set_level(parameters_.current().size(hipFileParamProfileStats));
  pthread_atfork(nullptr, nullptr, [] { forked = true; });
}

Driver& Driver::instance() {
  static auto* driver = new Driver;  // never destroyed: client threads may outlive static destructors
  return *driver;
}

std::shared_ptr<const gpu::Runtime> Driver::runtime() {
  std::lock_guard lock(engine_mutex_);
  if (!runtime_chosen_) {
    auto loaded = gpu::Runtime::load("auto");
    if (loaded)
      runtime_ = *loaded;
    else
      spdlog::warn("hipFile: {}", loaded.error().text());
    runtime_chosen_ = true;
    if (runtime_ && runtime_->hip().hipDeviceGetUuid)
      for (int d = 0; d < std::min(runtime_->device_count(), static_cast<int>(kStatsGpus)); d++)
        runtime_->hip().hipDeviceGetUuid(stats_.page().gpus[d].uuid, d);
  }
  return runtime_;
}

std::shared_ptr<engine::Engine> Driver::current_engine() const {
  std::shared_lock lock(engine_mutex_);
  return engine_;
}

std::shared_ptr<engine::Engine> Driver::engine() {
  if (auto engine = current_engine()) return engine;
  auto chosen = runtime();
  engine::Config config = settings().engine_config();
  std::lock_guard lock(engine_mutex_);
  if (!engine_) engine_ = std::make_shared<engine::Engine>(chosen, config);
  return engine_;
}

std::shared_ptr<engine::Executor> Driver::executor() {
  size_t wanted = size(hipFileParamExecutionMaxIOThreads);
  if (wanted == 0) wanted = 2 * std::thread::hardware_concurrency();
  const auto threads = static_cast<unsigned>(std::max<size_t>(wanted, 2));
  std::lock_guard lock(engine_mutex_);
  auto& executor = executors_[threads];
  if (!executor) executor = std::make_shared<engine::Executor>(threads);
  return executor;
}

// -------------------------------------------------------------------------------------------------- open and
// close

// What was staged counts from here on: the engine is made anew with it.
void Driver::apply_settings() {
  Settings now = settings();
  stats_.set_level(now.size(hipFileParamProfileStats));
  apply_log_level(now.strings[hipFileParamLoggingLevel]);
  std::shared_ptr<engine::Engine> old_engine;
  std::lock_guard lock(engine_mutex_);
  std::swap(engine_, old_engine);  // requests that still run keep theirs
}

void Driver::open() {
  std::unique_lock lock(mutex_);
  bool first = count_++ == 0;
  lock.unlock();
  if (first) apply_settings();
}

void Driver::open_implicitly() {
  std::unique_lock lock(mutex_);
  if (count_ > 0) return;
  count_ = 1;
  lock.unlock();
  apply_settings();
}

void Driver::on_close(std::function<void()> f) {
  std::lock_guard lock(mutex_);
  on_close_.push_back(std::move(f));
}

hipFileError_t Driver::close() {
  std::map<hipFileHandle_t, std::shared_ptr<RegisteredFile>> files;
  std::map<const void*, std::shared_ptr<RegisteredBuffer>> buffers;
  std::vector<std::function<void()>> callbacks;
  {
    std::unique_lock lock(mutex_);
    if (count_ == 0) return failure(hipFileDriverNotInitialized);
    if (--count_ > 0) return success();
    files.swap(files_);
    buffers.swap(buffers_);
    parameters_.closed();
    callbacks = on_close_;
  }
  for (auto& f : callbacks) f();
  if (auto engine = current_engine()) engine->drop_windows();
  return success();
}

Settings Driver::settings() const {
  std::shared_lock lock(mutex_);
  return parameters_.current();
}

size_t Driver::size(hipFileSizeTConfigParameter_t p) const {
  std::shared_lock lock(mutex_);
  return parameters_.current().size(p);
}

bool Driver::flag(hipFileBoolConfigParameter_t p) const {
  std::shared_lock lock(mutex_);
  return parameters_.current().flag(p);
}

hipFileError_t Driver::stage(const std::function<void(Settings&)>& change) {
  std::unique_lock lock(mutex_);
  if (count_ > 0) return failure(hipFileDriverAlreadyOpen);
  change(parameters_.staged());
  return success();
}

// -----------------------------------------------------------------------------------------------------------
// files

engine::RouteSet Driver::routes_of(int fd) const {
  char target[PATH_MAX];
  ssize_t n = readlink(posix::proc_path(fd).c_str(), target, sizeof target);
  std::string path(target, static_cast<size_t>(std::max<ssize_t>(n, 0)));
  std::shared_lock lock(mutex_);
  const MountRule* best = nullptr;
  for (const auto& rule : parameters_.current().mounts)
    if (rule.covers(path) && (!best || rule.path.size() > best->path.size())) best = &rule;
  return best ? best->routes : engine::RouteSet::all();
}

hipFileError_t Driver::register_file(int fd, hipFileHandle_t& out) {
  auto own = posix::duplicate(fd);
  if (!own) return from_errno(own.error().code);
  auto entry = std::make_shared<RegisteredFile>();
  entry->client_fd = fd;
  entry->routes = routes_of(fd);
  auto behind = open_behind_mount(fd);
  const bool elsewhere =
      behind || fcntl(fd, F_GETFL) & O_APPEND;  // the file's own descriptor is not the client's
  if (elsewhere) {
    auto again = posix::duplicate(fd);
    if (!again) return from_errno(again.error().code);
    entry->client = std::move(*again);
  }
  auto file = storage::File::open(behind ? std::move(*behind) : std::move(*own), mounts_);
  if (!file) {
    spdlog::warn("hipFile: register descriptor {}: {}", fd, file.error().text());
    return from_errno(file.error().code);
  }
  entry->file = std::move(*file);
  std::unique_lock lock(mutex_);
  for (const auto& [handle, known] : files_)
    if (is_of_client(*known, fd)) return failure(hipFileHandleAlreadyRegistered);
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

// ---------------------------------------------------------------------------------------------------------
// buffers

tl::expected<gpu::Memory, hipFileError_t> Driver::describe(const void* base) {
  if (!base) return tl::unexpected(failure(hipFileInvalidValue));
  auto hip_runtime = runtime();
  if (!hip_runtime) return tl::unexpected(hip_failure(hip::kErrorNoDevice));
  auto memory = gpu::describe(*hip_runtime, base);
  if (!memory) {
    bool unknown = memory.error() == hip::kErrorInvalidValue || memory.error() == hip::kErrorNotFound;
    return tl::unexpected(unknown ? failure(hipFileInvalidValue) : hip_failure(memory.error()));
  }
  if (memory->kind == gpu::MemoryKind::pageable) return tl::unexpected(failure(hipFileHipMemoryTypeInvalid));
  if (memory->kind != gpu::MemoryKind::device && !flag(hipFileParamPropertiesAllowSystemMemory))
    return tl::unexpected(failure(hipFileHipMemoryTypeInvalid));
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

// -------------------------------------------------------------------------------------------------------------
// I/O

engine::Request Driver::request_of(const Transfer& t) {
  uint64_t length = std::min(t.size, kMostBytes);
  length = std::min(length, static_cast<uint64_t>(INT64_MAX) - t.file_offset);
  return {t.direction, t.file->file.get(), t.buffer->memory, t.buffer_offset, t.file_offset,
          length,      t.file->routes};
}

void Driver::count(const Transfer& t, const engine::Outcome& outcome, uint64_t microseconds) {
  const uint64_t length = std::min(t.size, kMostBytes);
  const uint64_t align = std::max<uint64_t>(t.file->file->facts().offset_align, 1);
  const bool unaligned = t.file_offset % align || length % align;
  stats_.count(t.direction, t.buffer->memory.device, length, unaligned, outcome, microseconds);
}

engine::Outcome Driver::run(const Transfer& t, const engine::CancelToken& cancel) {
  const auto started = std::chrono::steady_clock::now();
  engine::Outcome outcome = engine()->run(request_of(t), cancel);
  count(t, outcome, microseconds_since(started));
  return outcome;
}

std::optional<engine::Outcome> Driver::run_at_once(const Transfer& t) {
  const auto started = std::chrono::steady_clock::now();
  auto outcome = engine()->run_at_once(request_of(t));
  if (outcome) count(t, *outcome, microseconds_since(started));
  return outcome;
}

std::vector<engine::Request> Driver::requests_of(const std::vector<Transfer>& transfers) {
  std::vector<engine::Request> requests;
  requests.reserve(transfers.size());
  for (const auto& t : transfers) requests.push_back(request_of(t));
  return requests;
}

std::vector<engine::Outcome> Driver::run_all(const std::vector<Transfer>& transfers,
                                             const engine::CancelToken& cancel) {
  const auto started = std::chrono::steady_clock::now();
  auto outcomes = engine()->run_all(requests_of(transfers), cancel);
  const uint64_t each = microseconds_since(started) / std::max<size_t>(transfers.size(), 1);
  for (size_t i = 0; i < transfers.size(); i++) count(transfers[i], outcomes[i], each);
  return outcomes;
}

std::vector<std::optional<engine::Outcome>> Driver::run_all_at_once(const std::vector<Transfer>& transfers) {
  const auto started = std::chrono::steady_clock::now();
  auto outcomes = engine()->run_all_at_once(requests_of(transfers));
  const uint64_t each = microseconds_since(started) / std::max<size_t>(transfers.size(), 1);
  for (size_t i = 0; i < transfers.size(); i++)
    if (outcomes[i]) count(transfers[i], *outcomes[i], each);
  return outcomes;
}

ssize_t result_of(const engine::Outcome& outcome, int& error) {
  error = 0;
  if (outcome.bytes > 0 || outcome.error == 0) return static_cast<ssize_t>(outcome.bytes);
  if (outcome.hip_error != hip::kSuccess && outcome.route != engine::Route::peer)
    return -hipFileHipDriverError;
  if (outcome.error == EOPNOTSUPP && outcome.route == engine::Route::none) return -hipFileInternalError;
  error = outcome.error;
  return -1;
}

}  // namespace api
