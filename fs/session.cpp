#include "session.h"

#include <spdlog/spdlog.h>
#include <sys/ioctl.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>

#if FUSE_VERSION >= FUSE_MAKE_VERSION(3, 17)
#define HIPFILE_NATIVE_PASSTHROUGH 1
#else
#define HIPFILE_NATIVE_PASSTHROUGH 0
#endif

namespace fs {
namespace {

// One backing layer underneath: enough for ext4, xfs and tmpfs.
constexpr uint32_t kStackDepth = 1;

#if !HIPFILE_NATIVE_PASSTHROUGH
// libfuse before 3.17 does not know passthrough: the INIT exchange is completed on its way through.
// Everything else passes unchanged.
ssize_t read_hook(int fd, void* buffer, size_t length, void* user_data) {
  ssize_t n = read(fd, buffer, length);
  if (n < static_cast<ssize_t>(sizeof(kernel::InHeader))) return n;
  auto* in = static_cast<kernel::InHeader*>(buffer);
  if (in->opcode == kernel::kOpInit &&
      n >= static_cast<ssize_t>(sizeof(kernel::InHeader) + sizeof(kernel::InitIn))) {
    auto* init = reinterpret_cast<kernel::InitIn*>(in + 1);
    uint64_t flags = init->flags;
    if (flags & kernel::kInitExt) flags |= static_cast<uint64_t>(init->flags2) << 32;
    auto* connection = static_cast<Connection*>(user_data);
    connection->kernel_flags = flags;
    connection->init_unique = in->unique;
  }
  return n;
}

void complete_init(Connection& connection, kernel::InitOut& out) {
  const uint64_t offered = connection.kernel_flags;
  uint64_t flags = out.flags | static_cast<uint64_t>(out.flags2) << 32;
  if (connection.want_passthrough && offered & kernel::kInitPassthrough &&
      !(flags & kernel::kInitWritebackCache)) {
    flags |= kernel::kInitPassthrough;
    out.max_stack_depth = kStackDepth;
    connection.passthrough = true;
  }
  flags |= offered &
           (kernel::kInitHandleKillprivV2 | kernel::kInitDirectIoAllowMmap | kernel::kInitNoExportSupport);
  if (offered & kernel::kInitExt) flags |= kernel::kInitExt;
  out.flags = static_cast<uint32_t>(flags);
  out.flags2 = static_cast<uint32_t>(flags >> 32);
}

ssize_t write_hook(int fd, iovec* parts, int count, void* user_data) {
  auto* connection = static_cast<Connection*>(user_data);
  uint64_t expected = connection->init_unique.load(std::memory_order_relaxed);
  if (expected) {
    auto* out = static_cast<kernel::OutHeader*>(parts[0].iov_base);
    if (out->unique == expected && out->error == 0 && count == 2 &&
        parts[1].iov_len >= sizeof(kernel::InitOut)) {
      connection->init_unique = 0;
      complete_init(*connection, *static_cast<kernel::InitOut*>(parts[1].iov_base));
    }
  }
  return writev(fd, parts, count);
}

ssize_t splice_hook(int in, off_t* in_offset, int out, off_t* out_offset, size_t length, unsigned flags,
                    void*) {
  return splice(in, in_offset, out, out_offset, length, flags);
}

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
#else
fuse_file_info to_file_info(const OpenReply& open) {
  fuse_file_info fi{};
  fi.fh = open.handle;
  fi.backing_id = open.backing_id;
  fi.direct_io = (open.flags & kernel::kOpenDirectIo) != 0;
  fi.noflush = (open.flags & kernel::kOpenNoFlush) != 0;
  fi.parallel_direct_writes = (open.flags & kernel::kOpenParallelDirectWrites) != 0;
  return fi;
}
#endif

// For root: what the source's own mount allows, and no more. The user's options come behind and win.
std::string mirrored_flags(const Options& options) {
  struct statvfs source;
  if (geteuid() != 0 || statvfs(options.source.c_str(), &source) < 0) return "";
  std::string flags = ",allow_other";
  flags += source.f_flag & ST_NOSUID ? ",nosuid" : ",suid";
  flags += source.f_flag & ST_NODEV ? ",nodev" : ",dev";
  if (source.f_flag & ST_NOEXEC) flags += ",noexec";
  if (source.f_flag & ST_RDONLY) flags += ",ro";
  return flags;
}

std::string fuse_option_list(const Options& options) {
  std::string list = "default_permissions,subtype=hipfile-fuse" + mirrored_flags(options);
  bool has_name = false;
  for (const auto& o : options.fuse_options) {
    list += "," + o;
    has_name |= o.rfind("fsname=", 0) == 0;
  }
  if (!has_name) {
    // Commas and backslashes separate options: escape them as mount options are.
    std::string escaped;
    for (char c : options.source) {
      if (c == ',' || c == '\\') escaped += '\\';
      escaped += c;
    }
    list += ",fsname=" + escaped;
  }
  return list;
}

}  // namespace

Caller caller_of(fuse_req_t request) {
  const fuse_ctx* c = fuse_req_ctx(request);
  return {c->uid, c->gid, c->umask};
}

posix::Result<std::unique_ptr<Session>> Session::mount(const Options& options,
                                                       const fuse_lowlevel_ops& operations,
                                                       Connection& connection) {
  std::unique_ptr<Session> s(new Session(options, connection));
  connection.want_passthrough = options.passthrough;
  std::string list = fuse_option_list(options);
  fuse_args arguments = FUSE_ARGS_INIT(0, nullptr);
  fuse_opt_add_arg(&arguments, "hipfile-fuse");
  fuse_opt_add_arg(&arguments, "-o");
  fuse_opt_add_arg(&arguments, list.c_str());
  if (options.debug_fuse) fuse_opt_add_arg(&arguments, "-d");
  s->session_ = fuse_session_new(&arguments, &operations, sizeof operations, &connection);
  fuse_opt_free_args(&arguments);
  if (!s->session_) return posix::failure(EINVAL, "start FUSE session with options " + list);
  if (fuse_set_signal_handlers(s->session_) != 0) return posix::failure(EINVAL, "set signal handlers");
  errno = 0;
  if (fuse_session_mount(s->session_, options.mountpoint.c_str()) != 0)
    return posix::failure(errno ? errno : EIO, "mount " + options.source + " on " + options.mountpoint);
  s->mounted_ = true;
  s->install_hooks();
  return s;
}

Session::~Session() {
  unmount();
  if (!session_) return;
  fuse_remove_signal_handlers(session_);
  fuse_session_destroy(session_);
}

void Session::unmount() {
  if (mounted_) fuse_session_unmount(session_);
  mounted_ = false;
}

void Session::install_hooks() {
#if !HIPFILE_NATIVE_PASSTHROUGH
  static fuse_custom_io io{};
  io.read = read_hook;
  io.writev = write_hook;
  io.splice_receive = splice_hook;
  io.splice_send = splice_hook;
  if (fuse_session_custom_io(session_, &io, fuse_session_fd(session_)) != 0)
    spdlog::warn("this libfuse takes no hooks: no kernel passthrough");
#endif
}

void Session::negotiate(fuse_conn_info* c) const {
  const unsigned wanted = FUSE_CAP_DONT_MASK | FUSE_CAP_POSIX_ACL | FUSE_CAP_CACHE_SYMLINKS |
                          FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE | FUSE_CAP_SPLICE_MOVE |
                          FUSE_CAP_READDIRPLUS | FUSE_CAP_READDIRPLUS_AUTO | FUSE_CAP_PARALLEL_DIROPS |
                          FUSE_CAP_ATOMIC_O_TRUNC | FUSE_CAP_ASYNC_DIO | FUSE_CAP_AUTO_INVAL_DATA |
                          FUSE_CAP_IOCTL_DIR;
#if HIPFILE_NATIVE_PASSTHROUGH
  for (unsigned bit = 1; bit; bit <<= 1)
    if (wanted & bit) fuse_set_feature_flag(c, bit);
  fuse_set_feature_flag(c, FUSE_CAP_HANDLE_KILLPRIV_V2);
  fuse_set_feature_flag(c, FUSE_CAP_DIRECT_IO_ALLOW_MMAP);
  fuse_set_feature_flag(c, FUSE_CAP_NO_EXPORT_SUPPORT);
  fuse_unset_feature_flag(c, FUSE_CAP_WRITEBACK_CACHE);
  if (options_.passthrough && fuse_set_feature_flag(c, FUSE_CAP_PASSTHROUGH)) {
    c->max_backing_stack_depth = kStackDepth - 1;  // libfuse adds one
    connection_.passthrough = true;
  }
#else
  c->want |= c->capable & wanted;
  c->want &= ~static_cast<unsigned>(FUSE_CAP_WRITEBACK_CACHE | FUSE_CAP_HANDLE_KILLPRIV);
#endif
}

int Session::loop() {
  fuse_loop_config* config = fuse_loop_cfg_create();
  fuse_loop_cfg_set_max_threads(config, std::max(10u, 2 * std::thread::hardware_concurrency()));
  int status = fuse_session_loop_mt(session_, config);
  fuse_loop_cfg_destroy(config);
  return status;
}

int32_t Session::open_backing(int path_fd) {
  if (!connection_.passthrough) return 0;
  kernel::BackingMap map{path_fd, 0, 0};
  AsNobody weak;
  int id = ioctl(fuse_session_fd(session_), kernel::kIocBackingOpen, &map);
  if (id > 0) return id;
  if (!connection_.backing_failed.exchange(true))
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

void Session::invalidate(fuse_ino_t id, off_t offset, off_t length) const {
  if (length == 0)
    fuse_lowlevel_notify_inval_inode(session_, id, -1, 0);
  else
    fuse_lowlevel_notify_inval_inode(session_, id, offset, length);
}

}  // namespace fs
