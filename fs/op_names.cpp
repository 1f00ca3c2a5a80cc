// Names: looking up, creating, removing, renaming.
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#include "filesystem.h"

namespace fs {
namespace {

void op_lookup(fuse_req_t request, fuse_ino_t parent_id, const char* name) {
  Filesystem& fs = filesystem_of(request);
  auto parent = place_of(request, parent_id);
  if (!parent) return;
  fuse_entry_param entry{};
  const int error = look_up(fs, *parent, name, entry);
  const double absence = fs.times_in(*parent->node).absence;
  if (error == ENOENT && absence > 0) {
    entry = {};  // inode 0: the kernel remembers that there is nothing
    entry.entry_timeout = absence;
  } else if (error) {
    return void(fuse_reply_err(request, error));
  }
  fuse_reply_entry(request, &entry);
}

void op_forget(fuse_req_t request, fuse_ino_t id, uint64_t count) {
  filesystem_of(request).forget(id, count);
  fuse_reply_none(request);
}

void op_forget_multi(fuse_req_t request, size_t count, fuse_forget_data* forgets) {
  Filesystem& fs = filesystem_of(request);
  for (size_t i = 0; i < count; i++) fs.forget(forgets[i].ino, forgets[i].nlookup);
  fuse_reply_none(request);
}

// `status`: what the system call returned that made the name.
void reply_made(fuse_req_t request, const Place& parent, const char* name, int status) {
  if (status < 0) return reply_status(request, status);
  fuse_entry_param entry{};
  if (int error = look_up(filesystem_of(request), parent, name, entry))
    fuse_reply_err(request, error);
  else
    fuse_reply_entry(request, &entry);
}

// As the caller, so that the new file is his. `make` gets the directory and returns what its system call returned.
template <typename Make>
void make_name(fuse_req_t request, fuse_ino_t parent_id, const char* name, bool with_umask, Make make) {
  auto parent = place_of(request, parent_id);
  if (!parent) return;
  int status;
  {
    AsCreator as(caller_of(request), with_umask);
    status = make(parent->fd());
  }
  reply_made(request, *parent, name, status);
}

void op_mknod(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t mode, dev_t device) {
  make_name(request, parent, name, true, [&](int in) { return mknodat(in, name, mode, device); });
}
void op_mkdir(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t mode) {
  make_name(request, parent, name, true, [&](int in) { return mkdirat(in, name, mode); });
}
void op_symlink(fuse_req_t request, const char* target, fuse_ino_t parent, const char* name) {
  make_name(request, parent, name, false, [&](int in) { return symlinkat(target, in, name); });
}

void op_link(fuse_req_t request, fuse_ino_t id, fuse_ino_t parent_id, const char* name) {
  auto place = place_of(request, id);
  if (!place) return;
  auto parent = place_of(request, parent_id);
  if (!parent) return;
  int status = linkat(AT_FDCWD, place->name().c_str(), parent->fd(), name, AT_SYMLINK_FOLLOW);
  reply_made(request, *parent, name, status);
}

// A node that lives by its handle holds its file from now on: the name may be the last, and the file still be in use.
void keep_named(Filesystem& fs, const Place& parent, const char* name) {
  if (!fs.nodes().uses_handles()) return;
  posix::Fd path(openat(parent.fd(), name, O_PATH | O_NOFOLLOW | O_CLOEXEC));
  struct stat st;
  if (path && fstat(path.get(), &st) == 0) fs.nodes().hold(std::move(path), st);
}

void remove_name(fuse_req_t request, fuse_ino_t parent_id, const char* name, int flags) {
  auto parent = place_of(request, parent_id);
  if (!parent) return;
  keep_named(filesystem_of(request), *parent, name);
  reply_status(request, unlinkat(parent->fd(), name, flags));
}
void op_unlink(fuse_req_t request, fuse_ino_t parent, const char* name) {
  remove_name(request, parent, name, 0);
}
void op_rmdir(fuse_req_t request, fuse_ino_t parent, const char* name) {
  remove_name(request, parent, name, AT_REMOVEDIR);
}

void op_rename(fuse_req_t request, fuse_ino_t from_id, const char* from, fuse_ino_t to_id, const char* to,
               unsigned flags) {
  auto from_parent = place_of(request, from_id);
  if (!from_parent) return;
  auto to_parent = place_of(request, to_id);
  if (!to_parent) return;
  if (!(flags & (RENAME_NOREPLACE | RENAME_EXCHANGE))) keep_named(filesystem_of(request), *to_parent, to);
  long status = syscall(SYS_renameat2, from_parent->fd(), from, to_parent->fd(), to, flags);
  reply_status(request, static_cast<int>(status));
}

}  // namespace

int look_up(Filesystem& fs, const Place& parent, const char* name, fuse_entry_param& entry) {
  if (!fs.crosses()) {
    auto node = fs.nodes().look_up(parent.fd(), name, entry.attr);
    if (!node) return node.error().code;
    if (*node) {
      fill_entry(fs, **node, entry);
      return 0;
    }
  }
  // Without a mount of our own, not into what is mounted below the source: another file system, or even this mount,
  // where asking would be asking ourselves.
  open_how how{};
  how.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC;
  if (!fs.crosses()) how.resolve = RESOLVE_NO_XDEV;
  posix::Fd path(static_cast<int>(syscall(SYS_openat2, parent.fd(), name, &how, sizeof how)));
  if (!path) return errno;
  struct statx st;
  if (fs.crosses() && statx(path.get(), "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, 0, &st) == 0 &&
      makedev(st.stx_dev_major, st.stx_dev_minor) == fs.mount_device())
    return EXDEV;
  if (fstat(path.get(), &entry.attr) < 0) return errno;
  auto node = fs.nodes().look_up(std::make_shared<const posix::Fd>(std::move(path)), entry.attr);
  fill_entry(fs, *node, entry);
  return 0;
}

void fill_entry(Filesystem& fs, Node& node, fuse_entry_param& entry) {
  entry.attr.st_ino = fs.shown_inode(entry.attr.st_dev, entry.attr.st_ino);
  entry.ino = node.id;
  entry.entry_timeout = fs.times_in(node).names;
  entry.attr_timeout = fs.attribute_seconds(node);
}

void add_name_operations(fuse_lowlevel_ops& ops) {
  ops.lookup = guard<op_lookup>;
  ops.forget = guard<op_forget>;
  ops.forget_multi = guard<op_forget_multi>;
  ops.mknod = guard<op_mknod>;
  ops.mkdir = guard<op_mkdir>;
  ops.symlink = guard<op_symlink>;
  ops.link = guard<op_link>;
  ops.unlink = guard<op_unlink>;
  ops.rmdir = guard<op_rmdir>;
  ops.rename = guard<op_rename>;
}

}  // namespace fs
