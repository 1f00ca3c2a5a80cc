// Operations that libfuse 3.14 does not know, or not whole: O_TMPFILE, statx, and setxattr with the flag that asks for
// the set-group-id bit to go.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include <cstring>

#include "explain.h"
#include "filesystem.h"

namespace fs {
namespace {

struct RawRequest {
  Filesystem& fs;
  const kernel::InHeader& header;
  std::span<const char> arguments;

  template <typename T>
  const T* fixed() const {
    return arguments.size() < sizeof(T) ? nullptr : reinterpret_cast<const T*>(arguments.data());
  }
  Caller caller(mode_t umask) const { return {header.uid, header.gid, umask}; }
  void answer(int error) const { fs.session().reply_raw(header.unique, error); }
};

// A file without a name, open; 0 or an errno.
int make_tmpfile(Filesystem& fs, NodeId parent, int flags, mode_t mode, const Caller& caller, pid_t process,
                 fuse_entry_param& entry, OpenReply& open) {
  auto place = fs.place(parent);
  if (!place) return place.error().code;
  AsCreator as(caller, true);
  posix::Fd fd(openat(place->fd(), ".", flags | O_TMPFILE | O_CLOEXEC, mode));
  return fd ? enter_open_file(fs, *place, nullptr, std::move(fd), flags, process, entry, open) : errno;
}

void tmpfile(const RawRequest& request) {
  const auto* in = request.fixed<kernel::CreateIn>();
  if (!in) return request.answer(EINVAL);
  fuse_entry_param entry{};
  OpenReply open;
  if (int error =
          make_tmpfile(request.fs, request.header.nodeid, static_cast<int>(in->flags), in->mode,
                       request.caller(in->umask), static_cast<pid_t>(request.header.pid), entry, open))
    return request.answer(error);
  if (request.fs.session().reply_raw_create(request.header.unique, entry, open) == -ENOENT)
    leave_open_file(request.fs, entry, open);
}

// What the mount says of a file; 0 or an errno.
int read_status(Filesystem& fs, NodeId id, int flags, unsigned mask, struct statx& st, double& seconds) {
  auto place = fs.place(id);
  if (!place) return place.error().code;
  if (statx(place->fd(), "", AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW | flags, mask, &st) < 0) return errno;
  st.stx_ino = fs.shown_inode(makedev(st.stx_dev_major, st.stx_dev_minor), st.stx_ino);
  seconds = fs.attribute_seconds(*place->node);
  return 0;
}

kernel::StatxTime to_kernel(const statx_timestamp& t) { return {t.tv_sec, t.tv_nsec, 0}; }

kernel::Statx to_kernel(const struct statx& st) {
  kernel::Statx to{};
  to.mask = st.stx_mask;
  to.blksize = st.stx_blksize;
  to.attributes = st.stx_attributes;
  to.attributes_mask = st.stx_attributes_mask;
  to.nlink = st.stx_nlink;
  to.uid = st.stx_uid;
  to.gid = st.stx_gid;
  to.mode = st.stx_mode;
  to.ino = st.stx_ino;
  to.size = st.stx_size;
  to.blocks = st.stx_blocks;
  to.atime = to_kernel(st.stx_atime);
  to.btime = to_kernel(st.stx_btime);
  to.ctime = to_kernel(st.stx_ctime);
  to.mtime = to_kernel(st.stx_mtime);
  to.rdev_major = st.stx_rdev_major;
  to.rdev_minor = st.stx_rdev_minor;
  to.dev_major = st.stx_dev_major;
  to.dev_minor = st.stx_dev_minor;
  return to;
}

void status(const RawRequest& request) {
  const auto* in = request.fixed<kernel::StatxIn>();
  if (!in) return request.answer(EINVAL);
  struct statx st;
  double seconds = 0;
  if (int error = read_status(request.fs, request.header.nodeid, static_cast<int>(in->sx_flags), in->sx_mask,
                              st, seconds))
    return request.answer(error);
  kernel::StatxOut out{};
  split_seconds(seconds, out.attr_valid, out.attr_valid_nsec);
  out.stat = to_kernel(st);
  request.fs.session().reply_raw(request.header.unique, 0, &out, sizeof out);
}

void set_extended_attribute(const RawRequest& request) {
  const auto* in = request.fixed<kernel::SetxattrIn>();
  auto place = request.fs.place(request.header.nodeid);
  if (!in || !place) return request.answer(in ? place.error().code : EINVAL);
  const char* name = reinterpret_cast<const char*>(in + 1);
  const size_t left = request.arguments.size() - sizeof *in;
  const size_t length = strnlen(name, left);
  if (length == left || in->size > left - length - 1) return request.answer(EINVAL);
  if (is_explanation(name)) return request.answer(EPERM);
  const std::string path = place->name();
  if (setxattr(path.c_str(), name, name + length + 1, in->size, static_cast<int>(in->flags)) < 0)
    return request.answer(errno);
  // The file system underneath sees a daemon that may keep the bit; the kernel knows that the caller may not.
  struct stat st;
  if (in->setxattr_flags & kernel::kSetxattrAclKillSgid && stat(path.c_str(), &st) == 0 &&
      st.st_mode & S_ISGID)
    chmod(path.c_str(), st.st_mode & ~static_cast<mode_t>(S_ISGID) & 07777);
  request.answer(0);
}

using Operation = void (*)(const RawRequest&);
Operation operation_of(uint32_t opcode) {
  switch (opcode) {
    case kernel::kOpTmpfile:
      return tmpfile;
    case kernel::kOpStatx:
      return status;
    case kernel::kOpSetxattr:
      return set_extended_attribute;
    default:
      return nullptr;
  }
}

}  // namespace

#if FUSE_VERSION >= FUSE_MAKE_VERSION(3, 18)
// A libfuse that speaks io_uring itself serves what comes that way alone.
namespace {

void op_tmpfile(fuse_req_t request, fuse_ino_t parent, mode_t mode, fuse_file_info* fi) {
  Filesystem& fs = filesystem_of(request);
  fuse_entry_param entry{};
  OpenReply open;
  if (int error = make_tmpfile(fs, parent, fi->flags, mode, caller_of(request), fuse_req_ctx(request)->pid,
                               entry, open))
    return void(fuse_reply_err(request, error));
  if (fs.session().reply_create(request, entry, open) == -ENOENT) leave_open_file(fs, entry, open);
}

void op_statx(fuse_req_t request, fuse_ino_t id, int flags, int mask, fuse_file_info*) {
  struct statx st;
  double seconds = 0;
  if (int error = read_status(filesystem_of(request), id, flags, static_cast<unsigned>(mask), st, seconds))
    fuse_reply_err(request, error);
  else
    fuse_reply_statx(request, 0, &st, seconds);
}

}  // namespace
#endif

void add_newer_operations([[maybe_unused]] fuse_lowlevel_ops& ops) {
#if FUSE_VERSION >= FUSE_MAKE_VERSION(3, 18)
  ops.tmpfile = guard<op_tmpfile>;
  ops.statx = guard<op_statx>;
#endif
}

bool Filesystem::serve_raw(RequestBytes bytes) {
  const auto& header = *reinterpret_cast<const kernel::InHeader*>(bytes.data());
  const Operation operation = operation_of(header.opcode);
  if (!operation || (header.opcode == kernel::kOpSetxattr && !session_->has_setxattr_flags())) return false;
  const RawRequest request{*this, header, std::span<const char>(bytes).subspan(sizeof header)};
  try {
    prepare_thread();
    operation(request);
  } catch (const std::exception&) {
    request.answer(ENOMEM);
  }
  return true;
}

}  // namespace fs
