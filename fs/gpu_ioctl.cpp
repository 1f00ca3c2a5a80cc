#include "gpu_ioctl.h"

#include <limits.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "foreign_descriptor.h"
#include "gpu_io.h"
#include "hipfile_fuse.h"

namespace fs {
namespace {

constexpr uint64_t kLargestOffset = INT64_MAX;

template <typename T, size_t N>
bool all_zero(const T (&array)[N]) {
  for (const T& element : array)
    if (element != 0) return false;
  return true;
}

int check_version(uint32_t version) { return version == HIPFILE_FUSE_ABI_VERSION ? 0 : EPROTONOSUPPORT; }

/// One command being answered.
struct Call {
  fuse_req_t request;
  Filesystem& fs;
  std::shared_ptr<Description> description;

  void fail(int error) const { fuse_reply_err(request, error); }
  template <typename T>
  void answer(const T& out) const {
    fuse_reply_ioctl(request, 0, &out, sizeof out);
  }
  void done() const { fuse_reply_ioctl(request, 0, nullptr, 0); }
  std::shared_ptr<OpenFile> file() const { return std::dynamic_pointer_cast<OpenFile>(description); }
  std::optional<ProcessKey> process() const { return process_of_thread(fuse_req_ctx(request)->pid); }
};

// ---------------------------------------------------------------------------------------------------------
// INFO

uint32_t runtime_number(const gpu::Runtime* runtime) {
  if (!runtime) return HIPFILE_FUSE_RUNTIME_NONE;
  switch (runtime->kind()) {
    case gpu::RuntimeKind::amd:
      return HIPFILE_FUSE_RUNTIME_AMD;
    case gpu::RuntimeKind::software:
      return HIPFILE_FUSE_RUNTIME_SOFTWARE;
    case gpu::RuntimeKind::cuda:
      return HIPFILE_FUSE_RUNTIME_CUDA;
  }
  return HIPFILE_FUSE_RUNTIME_NONE;
}

template <size_t N>
void copy_text(char (&to)[N], const std::string& from) {
  size_t n = std::min(from.size(), N - 1);
  memcpy(to, from.data(), n);
  to[n] = '\0';
}

void serve_info(const Call& call, const hipfile_fuse_info& in) {
  if (int error = check_version(in.version)) return call.fail(error);
  if (in.flags || !all_zero(in.reserved)) return call.fail(EINVAL);
  const gpu::Runtime* runtime = call.fs.engine().runtime();
  hipfile_fuse_info out{};
  out.version = HIPFILE_FUSE_ABI_VERSION;
  out.capabilities = HIPFILE_FUSE_CAP_FD;
  if (runtime) out.capabilities |= HIPFILE_FUSE_CAP_HIP_IPC;
  if (call.fs.handover()) out.capabilities |= HIPFILE_FUSE_CAP_SOCKET;
  if (call.fs.session().passes_through()) out.capabilities |= HIPFILE_FUSE_CAP_PASSTHROUGH;
  if (call.fs.options().tag == TagPolicy::all) out.capabilities |= HIPFILE_FUSE_CAP_TAG_ALL;
  if (auto file = call.file(); file && file->sees_data) out.capabilities |= HIPFILE_FUSE_CAP_TAGGABLE;
  out.runtime = runtime_number(runtime);
  out.device_count = runtime ? runtime->device_count() : 0;
  out.runtime_version = runtime ? static_cast<uint32_t>(runtime->version()) : 0;
  out.backing_dev = call.description->node->device;
  out.backing_ino = call.description->node->inode;
  out.max_batch = HIPFILE_FUSE_BATCH_MAX;
  out.daemon_pid = static_cast<uint32_t>(getpid());
  if (runtime) copy_text(out.runtime_name, runtime->describe());
  if (call.fs.handover()) copy_text(out.socket_path, call.fs.handover()->path());
  copy_text(out.backing_path, call.fs.path_of(*call.description->path));
  call.answer(out);
}

// -----------------------------------------------------------------------------------------------------
// REGISTER

bool known_device(const gpu::Runtime* runtime, int device) {
  return runtime && device >= 0 && device < runtime->device_count();
}

posix::Result<posix::Fd> memory_descriptor(const Call& call, const hipfile_fuse_register& in,
                                           const std::optional<ProcessKey>& process) {
  if (in.fd < 0) {
    if (!call.fs.handover()) return posix::failure(EBADF, "no hand-over socket");
    return call.fs.handover()->redeem(in.token, fuse_req_ctx(call.request)->uid);
  }
  if (!process) return posix::failure(EPERM, "the caller's process is not visible from here");
  return fetch_descriptor(*process, in.fd);
}

posix::Result<std::unique_ptr<gpu::Imported>> import_memory(const Call& call, const hipfile_fuse_register& in,
                                                            const std::optional<ProcessKey>& process) {
  auto runtime = call.fs.engine().shared_runtime();
  if (in.kind == HIPFILE_FUSE_BUFFER_HIP_IPC) {
    if (!known_device(runtime.get(), in.device))
      return posix::failure(ENODEV, "HIP device " + std::to_string(in.device));
    hip::IpcMemHandle handle;
    static_assert(sizeof handle == sizeof in.ipc_handle);
    memcpy(&handle, in.ipc_handle, sizeof handle);
    return gpu::import_ipc(runtime, in.device, handle, in.offset, in.length);
  }
  auto fd = memory_descriptor(call, in, process);
  if (!fd) return tl::unexpected(fd.error());
  if (!gpu::is_memory(fd->get())) {
    dispose(std::move(*fd));
    return posix::failure(EINVAL, "not a memory descriptor");
  }
  return gpu::import_fd(runtime, in.device, std::move(*fd), in.offset, in.length);
}

int check_register(const hipfile_fuse_register& in) {
  if (int error = check_version(in.version)) return error;
  if (in.flags & ~HIPFILE_FUSE_REGISTER_PROCESS || in.reserved0 || !all_zero(in.reserved)) return EINVAL;
  const bool handle_given = !all_zero(in.ipc_handle);
  switch (in.kind) {
    case HIPFILE_FUSE_BUFFER_HIP_IPC:
      if (!handle_given || in.fd != -1 || in.token || in.buffer_id) return EINVAL;
      break;
    case HIPFILE_FUSE_BUFFER_FD:
      if (handle_given || in.fd < -1 || (in.fd >= 0 && in.token) || in.buffer_id) return EINVAL;
      break;
    case HIPFILE_FUSE_BUFFER_ATTACH:
      if (handle_given || in.fd != -1 || in.token || in.flags || in.offset || in.length || in.device)
        return EINVAL;
      return 0;
    default:
      return EINVAL;
  }
  if (in.length == 0 || in.offset > kLargestOffset || in.length > kLargestOffset - in.offset) return EINVAL;
  return 0;
}

void finish_register(const Call& call, const hipfile_fuse_register& in,
                     const std::optional<ProcessKey>& process);

void serve_register(const Call& call, const hipfile_fuse_register& in) {
  if (int error = check_register(in)) return call.fail(error);
  auto process = call.process();
  hipfile_fuse_register out = in;
  if (in.kind == HIPFILE_FUSE_BUFFER_ATTACH) {
    auto attached = call.fs.buffers().attach(in.buffer_id, call.description->id, process);
    if (!attached) return call.fail(attached.error().code);
    return call.answer(out);
  }
  if (in.flags & HIPFILE_FUSE_REGISTER_PROCESS && !process) return call.fail(EPERM);
  // Opening another process's memory may wait for a device, so it is not done on a thread that serves POSIX.
  call.fs.executor().submit([call, in, process] { finish_register(call, in, process); },
                            std::make_shared<engine::CancelToken>(), false);
}

void finish_register(const Call& call, const hipfile_fuse_register& in,
                     const std::optional<ProcessKey>& process) {
  hipfile_fuse_register out = in;
  auto imported = import_memory(call, in, process);
  if (!imported) {
    spdlog::info("register buffer of process {}: {}", process ? process->pid : 0, imported.error().text());
    return call.fail(imported.error().code == ESRCH ? EPERM : imported.error().code);
  }
  // Watched before it is added: a process that ends in between is noticed by watch() failing.
  if (process)
    if (auto watched = call.fs.watcher().watch(*process); !watched)
      return call.fail(watched.error().code == ESRCH ? EPERM : watched.error().code);
  auto id = call.fs.buffers().add(std::move(*imported), call.description->id, process,
                                  in.flags & HIPFILE_FUSE_REGISTER_PROCESS);
  if (!id) return call.fail(id.error().code);
  out.buffer_id = *id;
  spdlog::debug("process {} registered {} bytes as {:016x}", process ? process->pid : 0, in.length, *id);
  call.answer(out);
}

void serve_unregister(const Call& call, const hipfile_fuse_unregister& in) {
  if (int error = check_version(in.version)) return call.fail(error);
  if (in.flags || !all_zero(in.reserved)) return call.fail(EINVAL);
  // Answered when the last request that uses the buffer has let it go.
  if (!call.fs.buffers().remove(in.buffer_id, call.description->id, call.description->opener,
                                [request = call.request] { fuse_reply_ioctl(request, 0, nullptr, 0); }))
    call.fail(ENOENT);
}

// -----------------------------------------------------------------------------------------------------------
// IO

int check_file(const Call& call) {
  auto file = call.file();
  if (!file) return EISDIR;
  struct stat st;
  if (fstat(file->descriptor(), &st) < 0) return errno;
  return S_ISREG(st.st_mode) || S_ISBLK(st.st_mode) ? 0 : ENODEV;
}

// What IO, BATCH and TAG share: whether this window of the file may go from or to this window of a buffer. 0 and the
// buffer, or an errno.
template <typename T>
int check_windows(const Call& call, const OpenFile& file, const T& in, bool writing,
                  std::shared_ptr<Buffer>& buffer) {
  if (in.file_offset > kLargestOffset || in.length > kLargestOffset - in.file_offset) return EINVAL;
  if (writing ? !file.writable() : !file.readable()) return EBADF;
  if (writing && file.flags & O_APPEND) return EINVAL;
  buffer = call.fs.buffers().find(in.buffer_id, file.id, file.opener);
  if (!buffer) return ENOENT;
  const uint64_t size = buffer->memory().length;
  return in.buffer_offset > size || in.length > size - in.buffer_offset ? ERANGE : 0;
}

// 0 and a request that is ready to run, or an errno.
template <typename T>
int check_io(const Call& call, const OpenFile& file, const T& in, GpuIo& io) {
  if (in.op != HIPFILE_FUSE_OP_READ && in.op != HIPFILE_FUSE_OP_WRITE) return EINVAL;
  const bool writing = in.op == HIPFILE_FUSE_OP_WRITE;
  std::shared_ptr<Buffer> buffer;
  if (int error = check_windows(call, file, in, writing, buffer)) return error;
  io = {writing ? engine::Direction::write : engine::Direction::read,
        std::move(buffer),
        in.buffer_offset,
        in.file_offset,
        in.length,
        caller_of(call.request)};
  return 0;
}

template <typename T>
void put_outcome(T& out, const engine::Outcome& outcome) {
  out.result = outcome.result();
  out.route = static_cast<uint32_t>(outcome.route);
  out.reason = static_cast<uint32_t>(outcome.reason);
}

void serve_io(const Call& call, const hipfile_fuse_io& in) {
  if (int error = check_version(in.version)) return call.fail(error);
  if (in.flags || in.reserved0 || !all_zero(in.reserved)) return call.fail(EINVAL);
  if (int error = check_file(call)) return call.fail(error);
  auto file = call.file();
  GpuIo io;
  if (int error = check_io(call, *file, in, io)) return call.fail(error);
  if (auto outcome = carry_out_at_once(call.fs, *file, io)) {
    hipfile_fuse_io out = in;
    put_outcome(out, *outcome);
    return call.answer(out);
  }
  const uint64_t length = io.length;
  auto token = std::make_shared<engine::CancelToken>();
  auto job = [call, out = in, file, io = std::move(io), token,
              guard = InterruptGuard(call.request, token)]() mutable {
    prepare_thread();
    put_outcome(out, carry_out_safely(call.fs, *file, io, *token));
    io.buffer.reset();
    guard.disarm();
    call.answer(out);
  };
  call.fs.executor().submit(std::move(job), token, is_long(length), file->node->device);
}

// --------------------------------------------------------------------------------------------------------
// BATCH

/// A batch being carried out; the last part to end answers it.
class Batch {
 public:
  Batch(Call call, const hipfile_fuse_batch& header, std::vector<hipfile_fuse_batch_entry> entries)
      : call_(std::move(call)),
        header_(header),
        entries_(std::move(entries)),
        token_(std::make_shared<engine::CancelToken>()),
        guard_(call_.request, token_) {}

  static void start(const std::shared_ptr<Batch>& batch) {
    auto parts = batch->check();
    if (parts.size() == 1 && batch->run_at_once(parts[0])) parts.clear();
    const dev_t source = batch->call_.file()->node->device;
    batch->open_parts_ = parts.size() + 1;
    for (auto& part : parts) {
      uint64_t bytes = 0;
      for (const GpuIo& io : part.ios) bytes += io.length;
      batch->call_.fs.executor().submit([batch, part = std::move(part)]() mutable { batch->run(part); },
                                        batch->token_, is_long(bytes), source);
    }
    batch->part_done();
  }

 private:
  /// Neighbours in the batch that go the same direction.
  struct Part {
    std::vector<size_t> indices;
    std::vector<GpuIo> ios;
  };
  static constexpr uint64_t kPartBytes = 1 << 20;  // small entries share a part

  std::vector<Part> check() {
    std::vector<Part> parts;
    uint64_t bytes = kPartBytes;
    auto file = call_.file();
    for (size_t i = 0; i < header_.count; i++) {
      auto& entry = entries_[i];
      GpuIo io;
      int error = entry.flags || entry.reserved ? EINVAL : check_io(call_, *file, entry, io);
      if (error) {
        entry.result = -error;
        entry.route = entry.reason = 0;
        continue;
      }
      if (bytes >= kPartBytes || parts.back().ios.back().direction != io.direction) {
        parts.emplace_back();
        bytes = 0;
      }
      bytes += io.length;
      parts.back().indices.push_back(i);
      parts.back().ios.push_back(std::move(io));
    }
    return parts;
  }

  /// What waits for no disk; the rest stays in the part. Whether that was all.
  bool run_at_once(Part& part) {
    auto outcomes = carry_out_reads_at_once(call_.fs, *call_.file(), part.ios);
    Part left;
    for (size_t i = 0; i < outcomes.size(); i++) {
      if (outcomes[i]) {
        put_outcome(entries_[part.indices[i]], *outcomes[i]);
      } else {
        left.indices.push_back(part.indices[i]);
        left.ios.push_back(std::move(part.ios[i]));
      }
    }
    part = std::move(left);
    return part.ios.empty();
  }

  void run(Part& part) {
    prepare_thread();
    auto outcomes = outcomes_of(part);
    for (size_t i = 0; i < outcomes.size(); i++) put_outcome(entries_[part.indices[i]], outcomes[i]);
    part = {};
    part_done();
  }

  std::vector<engine::Outcome> outcomes_of(const Part& part) {
    auto file = call_.file();
    std::vector<engine::Outcome> outcomes;
    if (part.ios.size() > 1 && part.ios[0].direction == engine::Direction::read) {
      try {
        return carry_out_reads(call_.fs, *file, part.ios, *token_);
      } catch (const std::bad_alloc&) {  // one by one then
      }
    }
    for (const GpuIo& io : part.ios) outcomes.push_back(carry_out_safely(call_.fs, *file, io, *token_));
    return outcomes;
  }

  void part_done() {
    if (--open_parts_ > 0) return;
    guard_.disarm();
    iovec parts[2] = {{&header_, sizeof header_}, {entries_.data(), entries_.size() * sizeof entries_[0]}};
    fuse_reply_ioctl_iov(call_.request, 0, parts, 2);
  }

  Call call_;
  hipfile_fuse_batch header_;
  std::vector<hipfile_fuse_batch_entry> entries_;
  std::shared_ptr<engine::CancelToken> token_;
  InterruptGuard guard_;
  std::atomic<size_t> open_parts_{0};
};

void serve_batch(const Call& call, const void* in, size_t size) {
  hipfile_fuse_batch header;
  memcpy(&header, in, sizeof header);
  std::vector<hipfile_fuse_batch_entry> entries((size - sizeof header) / sizeof(hipfile_fuse_batch_entry));
  memcpy(entries.data(), static_cast<const char*>(in) + sizeof header, entries.size() * sizeof entries[0]);
  if (int error = check_version(header.version)) return call.fail(error);
  if (header.flags || header.reserved0 || !all_zero(header.reserved)) return call.fail(EINVAL);
  if (header.count == 0 || header.count > entries.size()) return call.fail(EINVAL);
  if (int error = check_file(call)) return call.fail(error);
  Batch::start(std::make_shared<Batch>(call, header, std::move(entries)));
}

// ----------------------------------------------------------------------------------------------------------
// TAG

void serve_tag(const Call& call, const hipfile_fuse_tag& in) {
  if (int error = check_version(in.version)) return call.fail(error);
  if (in.flags & ~(HIPFILE_FUSE_TAG_TEE | HIPFILE_FUSE_TAG_WRITE) || !all_zero(in.reserved) || in.length == 0)
    return call.fail(EINVAL);
  if (int error = check_file(call)) return call.fail(error);
  auto file = call.file();
  const bool write = in.flags & HIPFILE_FUSE_TAG_WRITE;
  std::shared_ptr<Buffer> buffer;
  if (int error = check_windows(call, *file, in, write, buffer)) return call.fail(error);
  if (!file->sees_data) return call.fail(EOPNOTSUPP);
  auto tag = std::make_shared<Tag>();
  tag->buffer = buffer;
  tag->buffer_offset = in.buffer_offset;
  tag->file_offset = in.file_offset;
  tag->length = in.length;
  tag->tee = in.flags & HIPFILE_FUSE_TAG_TEE;
  tag->write = write;
  {
    std::lock_guard lock(file->mutex);
    if (file->tag) return call.fail(EBUSY);
    file->tag = std::move(tag);
  }
  call.done();
}

void serve_untag(const Call& call, const hipfile_fuse_untag& in) {
  if (int error = check_version(in.version)) return call.fail(error);
  if (in.flags || !all_zero(in.reserved)) return call.fail(EINVAL);
  auto file = call.file();
  if (!file) return call.fail(EISDIR);
  std::shared_ptr<Tag> tag;
  {
    std::lock_guard lock(file->mutex);
    tag = std::move(file->tag);
    file->tag = nullptr;
  }
  if (!tag) return call.fail(ENODATA);
  // Answered when the last request that came through the tag is done.
  Tag& t = *tag;
  t.ended = [&t, call] {
    hipfile_fuse_untag out{};
    out.version = HIPFILE_FUSE_ABI_VERSION;
    out.bytes_read = t.bytes_read;
    out.bytes_written = t.bytes_written;
    out.requests = t.requests;
    out.failures = t.failures;
    out.route = t.route;
    out.reason = t.reason;
    call.answer(out);
  };
}

template <typename T>
void with(const Call& call, const void* in, size_t size, void (*serve)(const Call&, const T&)) {
  if (size != sizeof(T)) return call.fail(EINVAL);
  T argument;
  memcpy(&argument, in, sizeof argument);
  serve(call, argument);
}

bool is_batch_size(size_t size) {
  if (size < sizeof(hipfile_fuse_batch)) return false;
  size_t entries = size - sizeof(hipfile_fuse_batch);
  return entries % sizeof(hipfile_fuse_batch_entry) == 0 &&
         entries / sizeof(hipfile_fuse_batch_entry) <= HIPFILE_FUSE_BATCH_MAX;
}

}  // namespace

bool is_gpu_command(unsigned command) {
  constexpr unsigned kFirst = _IOC_NR(HIPFILE_FUSE_IOC_INFO), kLast = _IOC_NR(HIPFILE_FUSE_IOC_UNTAG);
  return _IOC_TYPE(command) == HIPFILE_FUSE_IOC_MAGIC && _IOC_NR(command) >= kFirst &&
         _IOC_NR(command) <= kLast;
}

void serve_gpu_ioctl(fuse_req_t request, Filesystem& fs, std::shared_ptr<Description> description,
                     unsigned command, const void* in, size_t in_size) {
  Call call{request, fs, std::move(description)};
  switch (command) {
    case HIPFILE_FUSE_IOC_INFO:
      return with(call, in, in_size, serve_info);
    case HIPFILE_FUSE_IOC_REGISTER:
      return with(call, in, in_size, serve_register);
    case HIPFILE_FUSE_IOC_UNREGISTER:
      return with(call, in, in_size, serve_unregister);
    case HIPFILE_FUSE_IOC_IO:
      return with(call, in, in_size, serve_io);
    case HIPFILE_FUSE_IOC_TAG:
      return with(call, in, in_size, serve_tag);
    case HIPFILE_FUSE_IOC_UNTAG:
      return with(call, in, in_size, serve_untag);
    default:
      break;
  }
  const size_t size = _IOC_SIZE(command);
  if (_IOC_NR(command) == _IOC_NR(HIPFILE_FUSE_IOC_BATCH(1)) &&
      _IOC_DIR(command) == (_IOC_READ | _IOC_WRITE) && is_batch_size(size) && in_size == size)
    return serve_batch(call, in, in_size);
  call.fail(EINVAL);
}

}  // namespace fs
