// Attributes of files, symbolic links, extended attributes, file system statistics.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>

#include <climits>
#include <vector>

#include "filesystem.h"

namespace fs {
namespace {

int status_of(const Node& node, struct stat& st) {
  return fstatat(node.path.get(), "", &st, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW);
}

void reply_attributes(fuse_req_t request, Filesystem& fs, Node& node) {
  struct stat st;
  if (status_of(node, st) < 0)
    fuse_reply_err(request, errno);
  else
    fuse_reply_attr(request, &st, fs.attribute_seconds(node));
}

void op_getattr(fuse_req_t request, fuse_ino_t id, fuse_file_info*) {
  Filesystem& fs = filesystem_of(request);
  auto node = fs.nodes().find(id);
  if (!node) return void(fuse_reply_err(request, ESTALE));
  reply_attributes(request, fs, *node);
}

int set_times(const Node& node, const struct stat& wanted, int valid) {
  timespec times[2] = {{0, UTIME_OMIT}, {0, UTIME_OMIT}};
  if (valid & FUSE_SET_ATTR_ATIME_NOW)
    times[0].tv_nsec = UTIME_NOW;
  else if (valid & FUSE_SET_ATTR_ATIME)
    times[0] = wanted.st_atim;
  if (valid & FUSE_SET_ATTR_MTIME_NOW)
    times[1].tv_nsec = UTIME_NOW;
  else if (valid & FUSE_SET_ATTR_MTIME)
    times[1] = wanted.st_mtim;
  int status = utimensat(node.path.get(), "", times, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW);
  if (status < 0 && errno == EINVAL)  // kernels before 5.8 take no AT_EMPTY_PATH here
    status = utimensat(AT_FDCWD, posix::proc_path(node.path.get()).c_str(), times, 0);
  return status;
}

int set_attributes(fuse_req_t request, const Node& node, const OpenFile* file, const struct stat& wanted,
                   int valid) {
  const std::string path = posix::proc_path(node.path.get());
  if (valid & FUSE_SET_ATTR_MODE && chmod(path.c_str(), wanted.st_mode) < 0) return errno;
  if (valid & (FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID)) {
    uid_t uid = valid & FUSE_SET_ATTR_UID ? wanted.st_uid : static_cast<uid_t>(-1);
    gid_t gid = valid & FUSE_SET_ATTR_GID ? wanted.st_gid : static_cast<gid_t>(-1);
    if (fchownat(node.path.get(), "", uid, gid, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) < 0) return errno;
  }
  if (valid & FUSE_SET_ATTR_SIZE) {
    AsWriter as(caller_of(request));
    if (file ? ftruncate(file->fd.get(), wanted.st_size) < 0 : truncate(path.c_str(), wanted.st_size) < 0)
      return errno;
  }
  constexpr int kTimes =
      FUSE_SET_ATTR_ATIME | FUSE_SET_ATTR_MTIME | FUSE_SET_ATTR_ATIME_NOW | FUSE_SET_ATTR_MTIME_NOW;
  if (valid & kTimes && set_times(node, wanted, valid) < 0) return errno;
  return 0;
}

void op_setattr(fuse_req_t request, fuse_ino_t id, struct stat* wanted, int valid, fuse_file_info* fi) {
  Filesystem& fs = filesystem_of(request);
  auto node = fs.nodes().find(id);
  if (!node) return void(fuse_reply_err(request, ESTALE));
  const OpenFile* file = fi ? &file_of(fi) : nullptr;  // the kernel sends it for ftruncate only
  if (int error = set_attributes(request, *node, file, *wanted, valid))
    fuse_reply_err(request, error);
  else
    reply_attributes(request, fs, *node);
}

void op_readlink(fuse_req_t request, fuse_ino_t id) {
  auto node = filesystem_of(request).nodes().find(id);
  if (!node) return void(fuse_reply_err(request, ESTALE));
  char target[PATH_MAX + 1];
  ssize_t n = readlinkat(node->path.get(), "", target, sizeof target - 1);
  if (n < 0) return void(fuse_reply_err(request, errno));
  target[n] = '\0';
  fuse_reply_readlink(request, target);
}

void op_statfs(fuse_req_t request, fuse_ino_t id) {
  auto node = filesystem_of(request).nodes().find(id);
  struct statvfs st;
  if (!node)
    fuse_reply_err(request, ESTALE);
  else if (fstatvfs(node->path.get(), &st) < 0)
    fuse_reply_err(request, errno);
  else
    fuse_reply_statfs(request, &st);
}

// ------------------------------------------------------------------------------------------- extended
// attributes

// Both calls ask for the size first (size 0) or for the value.
template <typename Get>
void reply_xattr(fuse_req_t request, size_t size, Get get) {
  std::vector<char> value(size);
  ssize_t n = get(size ? value.data() : nullptr, size);
  if (n < 0)
    fuse_reply_err(request, errno);
  else if (size == 0)
    fuse_reply_xattr(request, static_cast<size_t>(n));
  else
    fuse_reply_buf(request, value.data(), static_cast<size_t>(n));
}

void op_getxattr(fuse_req_t request, fuse_ino_t id, const char* name, size_t size) {
  auto node = filesystem_of(request).nodes().find(id);
  if (!node) return void(fuse_reply_err(request, ESTALE));
  reply_xattr(request, size, [&](char* value, size_t bytes) {
    return getxattr(posix::proc_path(node->path.get()).c_str(), name, value, bytes);
  });
}

void op_listxattr(fuse_req_t request, fuse_ino_t id, size_t size) {
  auto node = filesystem_of(request).nodes().find(id);
  if (!node) return void(fuse_reply_err(request, ESTALE));
  reply_xattr(request, size, [&](char* value, size_t bytes) {
    return listxattr(posix::proc_path(node->path.get()).c_str(), value, bytes);
  });
}

void op_setxattr(fuse_req_t request, fuse_ino_t id, const char* name, const char* value, size_t size,
                 int flags) {
  auto node = filesystem_of(request).nodes().find(id);
  if (!node) return void(fuse_reply_err(request, ESTALE));
  int status = setxattr(posix::proc_path(node->path.get()).c_str(), name, value, size, flags);
  fuse_reply_err(request, status < 0 ? errno : 0);
}

void op_removexattr(fuse_req_t request, fuse_ino_t id, const char* name) {
  auto node = filesystem_of(request).nodes().find(id);
  if (!node) return void(fuse_reply_err(request, ESTALE));
  int status = removexattr(posix::proc_path(node->path.get()).c_str(), name);
  fuse_reply_err(request, status < 0 ? errno : 0);
}

}  // namespace

void add_attribute_operations(fuse_lowlevel_ops& ops) {
  ops.getattr = guard<op_getattr>;
  ops.setattr = guard<op_setattr>;
  ops.readlink = guard<op_readlink>;
  ops.statfs = guard<op_statfs>;
  ops.getxattr = guard<op_getxattr>;
  ops.listxattr = guard<op_listxattr>;
  ops.setxattr = guard<op_setxattr>;
  ops.removexattr = guard<op_removexattr>;
}

}  // namespace fs
