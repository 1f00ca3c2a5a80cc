#include "session.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <thread>

#if FUSE_VERSION >= FUSE_MAKE_VERSION(3, 17)
#define HIPFILE_NATIVE_PASSTHROUGH 1
#else
#define HIPFILE_NATIVE_PASSTHROUGH 0
#endif
// From 3.18 on libfuse speaks io_uring itself, if it was built so, and takes no hooks.
#if FUSE_VERSION >= FUSE_MAKE_VERSION(3, 18)
#define HIPFILE_NATIVE_URING 1
#else
#define HIPFILE_NATIVE_URING 0
#endif

namespace fs {
namespace {

// The largest request or reply: what libfuse agrees on with the kernel.
constexpr size_t kLargest = size_t{1} << 20;

constexpr unsigned kBackgroundRequests = 64;

uint32_t file_system_type(const std::string& path) {
  struct statfs st;
  return statfs(path.c_str(), &st) < 0 ? 0 : static_cast<uint32_t>(st.f_type);
}

// How many layers may lie underneath: more than one only where it is needed, because the kernel allows two in all and
// the mount may itself be a layer of an overlay.
uint32_t stack_depth(uint32_t type) {
  return type == OVERLAYFS_SUPER_MAGIC || type == ECRYPTFS_SUPER_MAGIC ? 2 : 1;
}

// A server decides on opening, and the kernel asks it with the rights of a passed-through file: those of nobody.
bool opens_at_server(uint32_t type) {
  constexpr std::array<uint32_t, 9> remote{NFS_SUPER_MAGIC,  SMB_SUPER_MAGIC,  SMB2_SUPER_MAGIC,
                                           CIFS_SUPER_MAGIC, CEPH_SUPER_MAGIC, V9FS_MAGIC,
                                           AFS_SUPER_MAGIC,  AFS_FS_MAGIC,     CODA_SUPER_MAGIC};
  return std::find(remote.begin(), remote.end(), type) != remote.end();
}

// A request keeps its place in the ring until it is answered, and for a lock that can be never.
bool wants_ring(const Options& options) { return options.uring != Switch::off && !options.forward_locks; }

#if HIPFILE_NATIVE_PASSTHROUGH
fuse_file_info to_file_info(const OpenReply& open) {
  fuse_file_info fi{};
  fi.fh = open.handle;
  fi.backing_id = open.backing_id;
  fi.direct_io = (open.flags & kernel::kOpenDirectIo) != 0;
  fi.keep_cache = (open.flags & kernel::kOpenKeepCache) != 0;
  fi.noflush = (open.flags & kernel::kOpenNoFlush) != 0;
  fi.parallel_direct_writes = (open.flags & kernel::kOpenParallelDirectWrites) != 0;
  return fi;
}
#endif

// Commas and backslashes separate options: escaped as mount options are.
std::string escaped(const std::string& text) {
  std::string result;
  for (char c : text) {
    if (c == ',' || c == '\\') result += '\\';
    result += c;
  }
  return result;
}

// What the source's own mount allows is allowed, for root, and no more; the user's options come behind and win. What it
// forbids to write stays forbidden.
std::string fuse_option_list(const Options& options) {
  struct statvfs source {};
  statvfs(options.source.c_str(), &source);
  std::string list = "default_permissions,subtype=hipfile-fuse,fsname=" + escaped(options.source);
#if HIPFILE_NATIVE_URING
  if (wants_ring(options)) list += ",io_uring";
#endif
  if (geteuid() == 0) {
    list += ",allow_other";
    list += source.f_flag & ST_NOSUID ? ",nosuid" : ",suid";
    list += source.f_flag & ST_NODEV ? ",nodev" : ",dev";
    if (source.f_flag & ST_NOEXEC) list += ",noexec";
  }
  if (options.access_times == AccessTimes::never) list += ",noatime";
  for (const auto& o : options.fuse_options) list += "," + o;
  list += options.read_only || source.f_flag & ST_RDONLY ? ",ro" : ",rw";
  return list;
}

}  // namespace

void split_seconds(double seconds, uint64_t& whole, uint32_t& nanoseconds) {
  whole = static_cast<uint64_t>(seconds);
  nanoseconds = static_cast<uint32_t>((seconds - static_cast<double>(whole)) * 1e9);
}

kernel::EntryOut to_kernel(const fuse_entry_param& e) {
  kernel::EntryOut out{};
  out.nodeid = e.ino;
  out.generation = e.generation;
  split_seconds(e.entry_timeout, out.entry_valid, out.entry_valid_nsec);
  split_seconds(e.attr_timeout, out.attr_valid, out.attr_valid_nsec);
  const struct stat& s = e.attr;
  out.attr.ino = s.st_ino;
  out.attr.size = static_cast<uint64_t>(s.st_size);
  out.attr.blocks = static_cast<uint64_t>(s.st_blocks);
  out.attr.atime = static_cast<uint64_t>(s.st_atim.tv_sec);
  out.attr.mtime = static_cast<uint64_t>(s.st_mtim.tv_sec);
  out.attr.ctime = static_cast<uint64_t>(s.st_ctim.tv_sec);
  out.attr.atimensec = static_cast<uint32_t>(s.st_atim.tv_nsec);
  out.attr.mtimensec = static_cast<uint32_t>(s.st_mtim.tv_nsec);
  out.attr.ctimensec = static_cast<uint32_t>(s.st_ctim.tv_nsec);
  out.attr.mode = s.st_mode;
  out.attr.nlink = static_cast<uint32_t>(s.st_nlink);
  out.attr.uid = s.st_uid;
  out.attr.gid = s.st_gid;
  out.attr.rdev = static_cast<uint32_t>(s.st_rdev);
  out.attr.blksize = static_cast<uint32_t>(s.st_blksize);
  return out;
}

/// What libfuse calls instead of the system calls on its descriptor.
struct Hooks {
  static ssize_t on_read(int fd, void* buffer, size_t length, void*) { return read(fd, buffer, length); }
  static ssize_t on_write(int, iovec* parts, int count, void* user_data);
  static ssize_t on_splice(int in, off_t* in_offset, int out, off_t* out_offset, size_t length,
                           unsigned flags, void*) {
    return splice(in, in_offset, out, out_offset, length, flags);
  }
};

Caller caller_of(fuse_req_t request) {
  const fuse_ctx* c = fuse_req_ctx(request);
  return {c->uid, c->gid, c->umask};
}

posix::Result<std::unique_ptr<Session>> Session::mount(const Options& options,
                                                       const fuse_lowlevel_ops& operations,
                                                       Connection& connection) {
  std::unique_ptr<Session> s(new Session(options, connection));
  connection.session = s.get();
  const uint32_t source_type = file_system_type(options.source);  // now: later the path may lead to the mount
  s->stack_depth_ = stack_depth(source_type);
  s->may_pass_through_ = options.passthrough && !opens_at_server(source_type);
  std::string list = fuse_option_list(options);
  fuse_args arguments = FUSE_ARGS_INIT(0, nullptr);
  fuse_opt_add_arg(&arguments, "hipfile-fuse");
  fuse_opt_add_arg(&arguments, "-o");
  fuse_opt_add_arg(&arguments, list.c_str());
  if (options.debug_fuse) fuse_opt_add_arg(&arguments, "-d");
  s->session_ = fuse_session_new(&arguments, &operations, sizeof operations, &connection);
  fuse_opt_free_args(&arguments);
  if (!s->session_) return posix::failure(EINVAL, "start FUSE session with options " + list);
  errno = 0;
  if (fuse_session_mount(s->session_, options.mountpoint.c_str()) != 0)
    return posix::failure(errno ? errno : EIO, "mount " + options.source + " on " + options.mountpoint);
  s->mounted_ = true;
  if (!options.follow_links) {
    mount_attr wanted{};
    wanted.attr_set = MOUNT_ATTR_NOSYMFOLLOW;
    if (mount_setattr(AT_FDCWD, options.mountpoint.c_str(), 0, &wanted, sizeof wanted) < 0)
      return posix::last_failure("mount option nosymfollow");
  }
  s->install_hooks();
  return s;
}

Session::~Session() {
  if (mounted_) abort();
  unmount();
  if (session_) fuse_session_destroy(session_);
  connection_.session = nullptr;
}

void Session::abort() {
  // Only if it is still there: what else is mounted at that place is not ours.
  pollfd device{fuse_session_fd(session_), 0, 0};
  const bool gone = poll(&device, 1, 0) == 1 && device.revents & POLLERR;
  if (mounted_ && !gone && geteuid() == 0) umount2(options_.mountpoint.c_str(), MNT_FORCE | MNT_DETACH);
  if (ring_) ring_->stop();  // it holds the device, too
  if (geteuid() != 0) unmount();
}

void Session::unmount() {
  if (mounted_) fuse_session_unmount(session_);
  mounted_ = false;
}

void Session::install_hooks() {
#if !HIPFILE_NATIVE_URING
  static fuse_custom_io io{};
  io.read = Hooks::on_read;
  io.writev = Hooks::on_write;
  io.splice_receive = Hooks::on_splice;
  io.splice_send = Hooks::on_splice;
  hooked_ = fuse_session_custom_io(session_, &io, fuse_session_fd(session_)) == 0;
  if (!hooked_) spdlog::warn("this libfuse takes no hooks: no kernel passthrough, no io_uring");
#endif
}

void Session::negotiate(fuse_conn_info* c) {
  unsigned wanted = FUSE_CAP_DONT_MASK | FUSE_CAP_POSIX_ACL | FUSE_CAP_CACHE_SYMLINKS | FUSE_CAP_READDIRPLUS |
                    FUSE_CAP_READDIRPLUS_AUTO | FUSE_CAP_PARALLEL_DIROPS | FUSE_CAP_ATOMIC_O_TRUNC |
                    FUSE_CAP_ASYNC_DIO | FUSE_CAP_AUTO_INVAL_DATA | FUSE_CAP_IOCTL_DIR;
  // An answer by splice cannot go into a ring.
  if (!may_have_ring()) wanted |= FUSE_CAP_SPLICE_WRITE | FUSE_CAP_SPLICE_MOVE;
  if (options_.forward_locks) wanted |= FUSE_CAP_POSIX_LOCKS | FUSE_CAP_FLOCK_LOCKS;
  c->max_background = kBackgroundRequests;
#if HIPFILE_NATIVE_PASSTHROUGH
  for (unsigned bit = 1; bit; bit <<= 1)
    if (wanted & bit) fuse_set_feature_flag(c, bit);
  fuse_set_feature_flag(c, FUSE_CAP_HANDLE_KILLPRIV_V2);
  fuse_set_feature_flag(c, FUSE_CAP_DIRECT_IO_ALLOW_MMAP);
  fuse_set_feature_flag(c, FUSE_CAP_NO_EXPORT_SUPPORT);
  fuse_set_feature_flag(c, FUSE_CAP_SETXATTR_EXT);
  fuse_unset_feature_flag(c, FUSE_CAP_WRITEBACK_CACHE);
  if (may_pass_through_ && fuse_set_feature_flag(c, FUSE_CAP_PASSTHROUGH)) {
    c->max_backing_stack_depth = stack_depth_ - 1;  // libfuse adds one
    passthrough_ = true;
  }
#else
  c->want |= c->capable & wanted;
  c->want &=
      ~static_cast<unsigned>(FUSE_CAP_WRITEBACK_CACHE | FUSE_CAP_HANDLE_KILLPRIV | FUSE_CAP_SPLICE_READ);
#endif
}

int Session::loop() {
  RequestLoop loop(fuse_session_fd(session_), kLargest, [this](RequestBytes request) { serve(request); });
  return loop.run();
}

void Session::serve(RequestBytes request) {
  const auto& in = *reinterpret_cast<const kernel::InHeader*>(request.data());
  if (in.opcode == kernel::kOpInit) note_init(request);
  if (connection_.serve_raw(request)) return;
  fuse_buf buffer{};
  buffer.mem = request.data();
  buffer.size = request.size();
  fuse_session_process_buf(session_, &buffer);
}

void Session::note_init(RequestBytes request) {
  if (request.size() < sizeof(kernel::InHeader) + sizeof(kernel::InitIn)) return;
  const auto& in = *reinterpret_cast<const kernel::InHeader*>(request.data());
  const auto& init = *reinterpret_cast<const kernel::InitIn*>(&in + 1);
  offered_ = init.flags;
  if (init.flags & kernel::kInitExt) offered_ |= static_cast<uint64_t>(init.flags2) << 32;
  init_unique_ = in.unique;
  if (options_.uring == Switch::on && !may_have_ring())
    spdlog::warn("no FUSE over io_uring: needs Linux 6.14, fuse.enable_uring=Y and locks=local");
}

// Completes what libfuse answers by what it does not know.
void Session::complete_init(kernel::InitOut& out) {
  uint64_t flags = out.flags | static_cast<uint64_t>(out.flags2) << 32;
#if !HIPFILE_NATIVE_PASSTHROUGH
  if (may_pass_through_ && offered_ & kernel::kInitPassthrough && !(flags & kernel::kInitWritebackCache)) {
    flags |= kernel::kInitPassthrough;
    out.max_stack_depth = stack_depth_;
    passthrough_ = true;
  }
  flags |= offered_ & (kernel::kInitHandleKillprivV2 | kernel::kInitDirectIoAllowMmap |
                       kernel::kInitNoExportSupport | kernel::kInitSetxattrExt);
#endif
  start_ring(flags);
  flags |= offered_ & kernel::kInitExt;
  out.flags = static_cast<uint32_t>(flags);
  out.flags2 = static_cast<uint32_t>(flags >> 32);
}

bool Session::has_ring() const { return ring_ || (HIPFILE_NATIVE_URING && may_have_ring()); }

bool Session::may_have_ring() const {
  return (hooked_ || HIPFILE_NATIVE_URING) && wants_ring(options_) && offered_ & kernel::kInitOverIoUring;
}

void Session::start_ring(uint64_t& flags) {
  if (!may_have_ring()) return;
  auto ring = Ring::create(kLargest, [this](RequestBytes request) { serve(request); });
  if (!ring) return spdlog::warn("no FUSE over io_uring: {}", ring.error().text());
  ring_ = std::move(*ring);
  spdlog::info("requests come over io_uring");
  flags |= kernel::kInitOverIoUring;
}

// Sends an answer, or a notification, the way that its request came.
ssize_t Session::send(iovec* parts, int count) {
  ssize_t total = 0;
  for (int i = 0; i < count; i++) total += static_cast<ssize_t>(parts[i].iov_len);
  auto& out = *static_cast<kernel::OutHeader*>(parts[0].iov_base);
  const uint64_t init = init_unique_.load(std::memory_order_relaxed);
  if (init && out.unique == init) {
    init_unique_ = 0;
    if (out.error == 0 && count == 2 && parts[1].iov_len >= sizeof(kernel::InitOut))
      complete_init(*static_cast<kernel::InitOut*>(parts[1].iov_base));
    const ssize_t written = writev(fuse_session_fd(session_), parts, count);
    if (written > 0 && ring_) ring_->start(fuse_session_fd(session_));
    return written;
  }
  if (ring_ && ring_->answer(parts, count)) return total;
  return writev(fuse_session_fd(session_), parts, count);
}

ssize_t Hooks::on_write(int, iovec* parts, int count, void* user_data) {
  return static_cast<Connection*>(user_data)->session->send(parts, count);
}

// As the kernel knows it, without asking us.
dev_t Session::device() const {
  struct statx st;
  if (statx(AT_FDCWD, options_.mountpoint.c_str(), AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT, 0, &st) < 0)
    return 0;
  return makedev(st.stx_dev_major, st.stx_dev_minor);
}

int32_t Session::open_backing(int path_fd) {
  if (!passthrough_) return 0;
  kernel::BackingMap map{path_fd, 0, 0};
  AsNobody weak;
  int id = ioctl(fuse_session_fd(session_), kernel::kIocBackingOpen, &map);
  if (id > 0) return id;
  if (!backing_failed_.exchange(true))
    spdlog::warn("kernel passthrough refused: {}; the daemon serves file data itself", strerror(errno));
  return 0;
}

void Session::close_backing(int32_t id) {
  auto value = static_cast<uint32_t>(id);
  if (ioctl(fuse_session_fd(session_), kernel::kIocBackingClose, &value) < 0)
    spdlog::debug("close backing id {}: {}", id, strerror(errno));
}

int Session::reply_open(fuse_req_t request, const OpenReply& open) const {
#if HIPFILE_NATIVE_PASSTHROUGH
  fuse_file_info fi = to_file_info(open);
  return fuse_reply_open(request, &fi);
#else
  kernel::OpenOut out{open.handle, open.flags, open.backing_id};
  return fuse_reply_buf(request, reinterpret_cast<const char*>(&out), sizeof out);
#endif
}

int Session::reply_create(fuse_req_t request, const fuse_entry_param& entry, const OpenReply& open) const {
#if HIPFILE_NATIVE_PASSTHROUGH
  fuse_file_info fi = to_file_info(open);
  return fuse_reply_create(request, &entry, &fi);
#else
  kernel::CreateOut out{to_kernel(entry), {open.handle, open.flags, open.backing_id}};
  return fuse_reply_buf(request, reinterpret_cast<const char*>(&out), sizeof out);
#endif
}

int Session::reply_raw(uint64_t unique, int error, const void* data, size_t size) {
  kernel::OutHeader out{static_cast<uint32_t>(sizeof out + size), -error, unique};
  iovec parts[] = {{&out, sizeof out}, {const_cast<void*>(data), size}};
  return send(parts, size ? 2 : 1) < 0 ? -errno : 0;
}

int Session::reply_raw_create(uint64_t unique, const fuse_entry_param& entry, const OpenReply& open) {
  const kernel::CreateOut out{to_kernel(entry), {open.handle, open.flags, open.backing_id}};
  return reply_raw(unique, 0, &out, sizeof out);
}

void Session::invalidate(fuse_ino_t id, off_t offset, off_t length) const {
  if (length == 0)
    fuse_lowlevel_notify_inval_inode(session_, id, -1, 0);
  else
    fuse_lowlevel_notify_inval_inode(session_, id, offset, length);
}

void Session::invalidate_name(fuse_ino_t directory, std::string_view name) const {
  fuse_lowlevel_notify_inval_entry(session_, directory, std::string(name).c_str(), name.size());
}

void Session::invalidate_directory(fuse_ino_t directory) const {
  fuse_lowlevel_notify_inval_inode(session_, directory, 0, 0);
}

void Session::invalidate_all_names() {
  kernel::OutHeader out{sizeof out, kernel::kNotifyIncEpoch, 0};
  iovec part{&out, sizeof out};
  if (send(&part, 1) < 0)
    spdlog::error("changes of the source were missed, and names cannot be dropped: {}", strerror(errno));
}

}  // namespace fs
