#include "mount_bypass.h"

#include <linux/magic.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "hipfile_fuse.h"

#ifndef FUSE_SUPER_MAGIC
#define FUSE_SUPER_MAGIC 0x65735546
#endif

namespace api {

std::optional<posix::Fd> open_behind_mount(int fd) {
  struct statfs fs;
  if (fstatfs(fd, &fs) < 0 || static_cast<unsigned long>(fs.f_type) != FUSE_SUPER_MAGIC) return std::nullopt;
  hipfile_fuse_info info{};
  info.version = HIPFILE_FUSE_ABI_VERSION;
  if (ioctl(fd, HIPFILE_FUSE_IOC_INFO, &info) < 0 || info.version != HIPFILE_FUSE_ABI_VERSION)
    return std::nullopt;
  int flags = fcntl(fd, F_GETFL);
  if (flags < 0) return std::nullopt;
  info.backing_path[sizeof info.backing_path - 1] = '\0';
  posix::Fd behind(open(info.backing_path, (flags & ~(O_CREAT | O_EXCL | O_TRUNC | O_NOFOLLOW)) | O_CLOEXEC));
  struct stat st;
  // The path may lead elsewhere here: another mount namespace, or a file renamed since.
  if (!behind || fstat(behind.get(), &st) < 0 || st.st_dev != info.backing_dev ||
      st.st_ino != info.backing_ino)
    return std::nullopt;
  return behind;
}

}  // namespace api
