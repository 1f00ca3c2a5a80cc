// Attributes of files, symbolic links, extended attributes, file system statistics.
#include <fcntl.h>
#include <linux/limits.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <climits>
#include <cstring>
#include <vector>

#include "explain.h"
#include "filesystem.h"

namespace fs {
namespace {

constexpr char kCapability[] = "security.capability";

void reply_attributes(fuse_req_t request, const Place& place) {
  struct stat st;
  if (fstatat(place.fd(), "", &st, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) < 0)
    return void(fuse_reply_err(request, errno));
  Filesystem& fs = filesystem_of(request);
  st.st_ino = fs.shown_inode(st.st_dev, st.st_ino);
  fuse_reply_attr(request, &st, fs.attribute_seconds(*place.node));
}

void op_getattr(fuse_req_t request, fuse_ino_t id, fuse_file_info*) {
  if (auto place = place_of(request, id)) reply_attributes(request, *place);
}

// `data`: what the file has open anyhow, or null. The kernel finds it faster than by a path in /proc.
int set_times(const Place& place, const DataFd& data, const struct stat& wanted, int valid) {
  timespec times[2] = {{0, UTIME_OMIT}, {0, UTIME_OMIT}};
  if (valid & FUSE_SET_ATTR_ATIME_NOW)
    times[0].tv_nsec = UTIME_NOW;
  else if (valid & FUSE_SET_ATTR_ATIME)
    times[0] = wanted.st_atim;
  if (valid & FUSE_SET_ATTR_MTIME_NOW)
    times[1].tv_nsec = UTIME_NOW;
  else if (valid & FUSE_SET_ATTR_MTIME)
    times[1] = wanted.st_mtim;
  if (data) return futimens(data->get(), times);
  int status = utimensat(place.fd(), "", times, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW);
  if (status < 0 && errno == EINVAL)  // kernels before 5.8 take no AT_EMPTY_PATH here
    status = utimensat(AT_FDCWD, place.name().c_str(), times, 0);
  return status;
}

// What a request without attributes asks for: chown(2) to nobody new, or that set-id bits go before a write. Which of them
// the kernel does not say. Where there are such bits, the first is the owner's alone and the second happens with a
// stranger's write. Root's write keeps them, and makes the request only after capabilities have been removed; chown of a
// file that has both is taken for it. 0 or an errno.
int mark_changed(fuse_req_t request, const Place& place) {
  struct stat st;
  if (fstatat(place.fd(), "", &st, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) < 0) return errno;
  const Caller caller = caller_of(request);
  if (!S_ISDIR(st.st_mode) && st.st_mode & (S_ISUID | S_ISGID)) {
    const bool writes = caller.uid == 0 ? filesystem_of(request).capability_removal().came_before(
                                              place.node->id, fuse_req_ctx(request)->pid)
                                        : caller.uid != st.st_uid;
    if (writes) return 0;
  }
  constexpr auto kUnchanged = static_cast<uid_t>(-1);
  AsWriter as(caller);
  return fchownat(place.fd(), "", kUnchanged, kUnchanged, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) < 0 ? errno
                                                                                                   : 0;
}

int set_mode(const Place& place, const DataFd& data, mode_t mode) {
  if (data) return fchmod(data->get(), mode);
  constexpr long kFchmodat2 = 452;  // Linux 6.6
  if (syscall(kFchmodat2, place.fd(), "", mode, AT_EMPTY_PATH) == 0) return 0;
  return chmod(place.name().c_str(), mode);
}

int set_owner(const Place& place, const DataFd& data, uid_t uid, gid_t gid) {
  if (data) return fchown(data->get(), uid, gid);
  return fchownat(place.fd(), "", uid, gid, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW);
}

int set_size(const Place& place, OpenFile* file, off_t size) {
  return file ? ftruncate(file->descriptor(), size) : truncate(place.name().c_str(), size);
}

int set_attributes(fuse_req_t request, const Place& place, OpenFile* file, const struct stat& wanted,
                   int valid) {
  const DataFd data = place.node->data();
  if (valid & FUSE_SET_ATTR_MODE && set_mode(place, data, wanted.st_mode) < 0) return errno;
  if (valid & (FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID)) {
    uid_t uid = valid & FUSE_SET_ATTR_UID ? wanted.st_uid : static_cast<uid_t>(-1);
    gid_t gid = valid & FUSE_SET_ATTR_GID ? wanted.st_gid : static_cast<gid_t>(-1);
    if (set_owner(place, data, uid, gid) < 0) return errno;
  }
  if (valid == 0) return mark_changed(request, place);
  if (valid & FUSE_SET_ATTR_SIZE) {
    AsWriter as(caller_of(request));
    if (set_size(place, file, wanted.st_size) < 0) return errno;
  }
  constexpr int kTimes =
      FUSE_SET_ATTR_ATIME | FUSE_SET_ATTR_MTIME | FUSE_SET_ATTR_ATIME_NOW | FUSE_SET_ATTR_MTIME_NOW;
  if (valid & kTimes && set_times(place, data, wanted, valid) < 0) return errno;
  return 0;
}

void op_setattr(fuse_req_t request, fuse_ino_t id, struct stat* wanted, int valid, fuse_file_info* fi) {
  auto place = place_of(request, id);
  if (!place) return;
  OpenFile* file = fi ? &file_of(fi) : nullptr;  // the kernel sends it for ftruncate only
  if (int error = set_attributes(request, *place, file, *wanted, valid))
    fuse_reply_err(request, error);
  else
    reply_attributes(request, *place);
}

void op_readlink(fuse_req_t request, fuse_ino_t id) {
  auto place = place_of(request, id);
  if (!place) return;
  char target[PATH_MAX + 1];
  ssize_t n = readlinkat(place->fd(), "", target, sizeof target - 1);
  if (n < 0) return void(fuse_reply_err(request, errno));
  target[n] = '\0';
  fuse_reply_readlink(request, target);
}

void op_statfs(fuse_req_t request, fuse_ino_t id) {
  auto place = place_of(request, id);
  struct statvfs st;
  if (!place) return;
  if (fstatvfs(place->fd(), &st) < 0)
    fuse_reply_err(request, errno);
  else
    fuse_reply_statfs(request, &st);
}

// Size 0 asks for the size.
void reply_value(fuse_req_t request, const std::string& value, size_t size) {
  if (size == 0)
    fuse_reply_xattr(request, value.size());
  else if (value.size() > size)
    fuse_reply_err(request, ERANGE);
  else
    fuse_reply_buf(request, value.data(), value.size());
}

void op_getxattr(fuse_req_t request, fuse_ino_t id, const char* name, size_t size) {
  auto place = place_of(request, id);
  if (!place) return;
  if (is_explanation(name)) {
    Filesystem& fs = filesystem_of(request);
    return fs.may_block(request, [request, size, &fs, place = std::move(*place)] {
      auto text = explain(fs, place);
      if (text)
        reply_value(request, *text, size);
      else
        fuse_reply_err(request, text.error().code);
    });
  }
  if (strcmp(name, kCapability) == 0)
    filesystem_of(request).capability_removal().asked(place->node->id, fuse_req_ctx(request)->pid);
  std::vector<char> value(size);
  char* const room = size ? value.data() : nullptr;
  const DataFd data = place->node->data();
  const ssize_t n =
      data ? fgetxattr(data->get(), name, room, size) : getxattr(place->name().c_str(), name, room, size);
  if (n < 0)
    fuse_reply_err(request, errno);
  else if (size == 0)
    fuse_reply_xattr(request, static_cast<size_t>(n));
  else
    fuse_reply_buf(request, value.data(), static_cast<size_t>(n));
}

// Names that only an administrator may know of; the daemon is one, its caller need not be.
std::string visible_names(const std::string& names, const Caller& caller) {
  if (caller.uid == 0) return names;
  std::string visible;
  for (size_t at = 0; at < names.size();) {
    const size_t end = names.find('\0', at) + 1;
    if (names.compare(at, 8, "trusted.") != 0) visible.append(names, at, end - at);
    at = end;
  }
  return visible;
}

void op_listxattr(fuse_req_t request, fuse_ino_t id, size_t size) {
  auto place = place_of(request, id);
  if (!place) return;
  std::string names(XATTR_LIST_MAX, '\0');
  const ssize_t n = listxattr(place->name().c_str(), names.data(), names.size());
  if (n < 0) return void(fuse_reply_err(request, errno));
  names.resize(static_cast<size_t>(n));
  reply_value(request, visible_names(names, caller_of(request)), size);
}

// Where the kernel does not say what to do with the set-group-id bit, or it does not come through: the file system
// underneath decides as if for the caller, whose further groups it does not know.
void op_setxattr(fuse_req_t request, fuse_ino_t id, const char* name, const char* value, size_t size,
                 int flags) {
  auto place = place_of(request, id);
  if (!place) return;
  if (is_explanation(name)) return void(fuse_reply_err(request, EPERM));
  int status, error;
  {
    std::optional<AsWriter> as;
    if (strcmp(name, "system.posix_acl_access") == 0) as.emplace(caller_of(request));
    status = setxattr(place->name().c_str(), name, value, size, flags);
    error = errno;
  }
  fuse_reply_err(request, status < 0 ? error : 0);
}

void op_removexattr(fuse_req_t request, fuse_ino_t id, const char* name) {
  auto place = place_of(request, id);
  if (!place) return;
  const int status = removexattr(place->name().c_str(), name);
  if (status == 0 && strcmp(name, kCapability) == 0)
    filesystem_of(request).capability_removal().happened(place->node->id, fuse_req_ctx(request)->pid);
  reply_status(request, status);
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
