#include "source.h"

#include <fcntl.h>
#include <sys/mount.h>

namespace fs {
namespace {

mount_attr wanted_attributes(const Options& options) {
  mount_attr wanted{};
  if (options.access_times != AccessTimes::as_source) {
    wanted.attr_clr = MOUNT_ATTR__ATIME;
    wanted.attr_set = options.access_times == AccessTimes::never      ? MOUNT_ATTR_NOATIME
                      : options.access_times == AccessTimes::relative ? MOUNT_ATTR_RELATIME
                                                                      : MOUNT_ATTR_STRICTATIME;
  }
  if (!options.directory_access_times) wanted.attr_set |= MOUNT_ATTR_NODIRATIME;
  if (options.read_only) wanted.attr_set |= MOUNT_ATTR_RDONLY;
  return wanted;
}

posix::Fd clone_mount(const Options& options) {
  const unsigned flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | (options.submounts ? AT_RECURSIVE : 0u);
  posix::Fd tree(open_tree(AT_FDCWD, options.source.c_str(), flags));
  if (!tree) return tree;
  mount_attr wanted = wanted_attributes(options);
  wanted.propagation = MS_PRIVATE;  // what is mounted elsewhere later shall not come here
  if (mount_setattr(tree.get(), "", AT_EMPTY_PATH | AT_RECURSIVE, &wanted, sizeof wanted) < 0)
    return posix::Fd();
  return tree;
}

}  // namespace

posix::Result<Source> open_source(const Options& options) {
  Source source;
  source.root = posix::Fd(open(options.source.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!source.root) return posix::last_failure("source " + options.source);
  if (posix::Fd clone = clone_mount(options)) {
    source.root = std::move(clone);
    source.own_mount = true;
  }
  if (fstat(source.root.get(), &source.status) < 0) return posix::last_failure("source " + options.source);
  return source;
}

posix::Result<SourceCover> SourceCover::put(const std::string& source) {
  if (::mount("hipfile-fuse", source.c_str(), "tmpfs", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC,
              "size=4k,mode=0555") < 0)
    return posix::last_failure("cover " + source);
  SourceCover cover;
  cover.path_ = source;
  return cover;
}

SourceCover::~SourceCover() {
  if (!path_.empty()) umount2(path_.c_str(), MNT_DETACH);
}

}  // namespace fs
