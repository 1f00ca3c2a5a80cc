#include "storage/file.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>

namespace storage {
namespace {

constexpr uint32_t kUsualAlign = 4096;  // for kernels that do not report it (before 6.1)

FileKind kind_of(mode_t mode) {
  if (S_ISREG(mode)) return FileKind::regular;
  if (S_ISBLK(mode)) return FileKind::block;
  return FileKind::other;
}

}  // namespace

PeerSupport peer_support(const std::optional<MountFacts>& mount) {
  if (!mount) return PeerSupport::file_system;
  if (mount->type == "xfs") return PeerSupport::yes;
  if (mount->type != "ext4") return PeerSupport::file_system;
  return mount->data_mode == DataMode::ordered ? PeerSupport::yes : PeerSupport::journaled_data;
}

posix::Result<std::shared_ptr<const File>> File::open(posix::Fd fd, MountTable& mounts) {
  struct statx sx;
  if (statx(fd.get(), "", AT_EMPTY_PATH, STATX_TYPE | STATX_MODE | STATX_INO | STATX_BTIME | STATX_DIOALIGN,
            &sx) < 0)
    return posix::last_failure("examine descriptor " + std::to_string(fd.get()));
  int flags = fcntl(fd.get(), F_GETFL);
  if (flags < 0) return posix::last_failure("flags of descriptor " + std::to_string(fd.get()));
  if (flags & O_PATH) return posix::failure(EBADF, "descriptor opened with O_PATH");

  std::shared_ptr<File> file(new File);
  file->access_mode_ = flags & O_ACCMODE;
  file->facts_.kind = kind_of(sx.stx_mode);
  file->facts_.device = makedev(sx.stx_dev_major, sx.stx_dev_minor);
  file->facts_.inode = sx.stx_ino;
  if (sx.stx_mask & STATX_BTIME)
    file->facts_.birth_nanoseconds = sx.stx_btime.tv_sec * 1'000'000'000 + sx.stx_btime.tv_nsec;
  if (file->facts_.kind == FileKind::other) {
    file->own_ = std::move(fd);
    return file;
  }
  if (auto mount = mounts.find(file->facts_.device)) {
    file->facts_.file_system = mount->type;
    file->facts_.peer = peer_support(mount);
  }
  if (file->facts_.kind == FileKind::block) file->facts_.peer = PeerSupport::yes;

  const int kept = flags & (O_ACCMODE | O_SYNC | O_DSYNC);
  file->direct_is_own_ = flags & O_DIRECT;
  file->twin_flags_ = kept | (file->direct_is_own_ ? 0 : O_DIRECT);
  if (flags & O_APPEND) {
    auto plain = posix::reopen(fd.get(), kept | (flags & O_DIRECT));
    if (!plain) return tl::unexpected(plain.error());
    fd = std::move(*plain);
  }
  file->own_ = std::move(fd);
  file->facts_.offset_align = file->facts_.memory_align = kUsualAlign;
  if (sx.stx_mask & STATX_DIOALIGN) {
    file->facts_.offset_align = sx.stx_dio_offset_align;  // 0: no direct I/O
    file->facts_.memory_align = sx.stx_dio_mem_align;
  } else if (!file->direct_is_own_ && file->twin() < 0) {
    file->facts_.offset_align = file->facts_.memory_align =
        0;  // older kernels say so only when asked to open
  }
  return file;
}

int File::twin() const {
  std::call_once(twin_once_, [this] {
    if (auto opened = posix::reopen(own_.get(), twin_flags_)) twin_ = std::move(*opened);
  });
  return twin_.get();
}

}  // namespace storage
