#include "storage/file.h"

#include <dirent.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cstring>

namespace storage {
namespace {

constexpr uint32_t kUsualAlign = 4096;  // for kernels that do not report it (before 6.1)

// Of struct statx where headers are older than Linux 6.15.
constexpr uint32_t kStatxDioReadAlign = 0x20000;
constexpr size_t kDioReadOffsetAlignAt = 0xb4;

FileKind kind_of(mode_t mode) {
  if (S_ISREG(mode)) return FileKind::regular;
  if (S_ISBLK(mode)) return FileKind::block;
  return FileKind::other;
}

// What the file system says in attributes, and ext4 only by an ioctl.
void read_attributes(int fd, const struct statx& sx, FileFacts& facts) {
  facts.encrypted = sx.stx_attributes & STATX_ATTR_ENCRYPTED;
  facts.verity = sx.stx_attributes & STATX_ATTR_VERITY;
  facts.compressed = sx.stx_attributes & STATX_ATTR_COMPRESSED;
  int flags = 0;
  if (facts.kind != FileKind::regular || facts.file_system != "ext4" ||
      ioctl(fd, FS_IOC_GETFLAGS, &flags) < 0)
    return;
  facts.inline_data = flags & FS_INLINE_DATA_FL;
  facts.journaled = flags & FS_JOURNAL_DATA_FL;
}

// O_DIRECT may be accepted there, and is the page cache all the same.
bool is_page_cache(const std::string& file_system) {
  return file_system == "tmpfs" || file_system == "ramfs";
}

void read_alignments(const struct statx& sx, FileFacts& facts) {
  if (is_page_cache(facts.file_system)) return;
  facts.offset_align = facts.memory_align = kUsualAlign;
  facts.align_assumed = !(sx.stx_mask & STATX_DIOALIGN);
  if (!facts.align_assumed) {
    facts.offset_align = sx.stx_dio_offset_align;  // 0: no direct I/O
    facts.memory_align = sx.stx_dio_mem_align;
  }
  facts.read_offset_align = facts.offset_align;
  uint32_t for_reads = 0;
  if (sx.stx_mask & kStatxDioReadAlign)
    memcpy(&for_reads, reinterpret_cast<const char*>(&sx) + kDioReadOffsetAlignAt, sizeof for_reads);
  if (for_reads) facts.read_offset_align = std::min(for_reads, facts.offset_align);
}

posix::Result<struct statx> read_status(int fd, const char* name = "") {
  constexpr unsigned kWanted =
      STATX_TYPE | STATX_MODE | STATX_INO | STATX_BTIME | STATX_MNT_ID | STATX_DIOALIGN;
  struct statx sx;
  if (statx(fd, name, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW, kWanted | kStatxDioReadAlign, &sx) < 0)
    return posix::last_failure("examine descriptor " + std::to_string(fd));
  return sx;
}

FileFacts facts_from(int fd, const struct statx& sx, MountTable& mounts) {
  FileFacts facts;
  facts.kind = kind_of(sx.stx_mode);
  facts.id.device = makedev(sx.stx_dev_major, sx.stx_dev_minor);
  facts.id.inode = sx.stx_ino;
  if (sx.stx_mask & STATX_BTIME)
    facts.id.birth_nanoseconds = sx.stx_btime.tv_sec * 1'000'000'000 + sx.stx_btime.tv_nsec;
  if (facts.kind == FileKind::block) {
    facts.volume = mounts.block_volume(makedev(sx.stx_rdev_major, sx.stx_rdev_minor));
  } else {
    facts.volume = mounts.volume(sx.stx_mask & STATX_MNT_ID ? sx.stx_mnt_id : 0, facts.id.device);
    if (facts.volume) facts.file_system = facts.volume->mount.type;
  }
  if (facts.kind == FileKind::other) return facts;
  read_alignments(sx, facts);
  read_attributes(fd, sx, facts);
  return facts;
}

}  // namespace

posix::Result<FileFacts> examine(int fd, MountTable& mounts) {
  auto sx = read_status(fd);
  if (!sx) return tl::unexpected(sx.error());
  return facts_from(fd, *sx, mounts);
}

posix::Result<FileFacts> examine_directory(int fd, MountTable& mounts) {
  constexpr int kMostNames = 256;
  auto facts = examine(fd, mounts);
  if (!facts) return facts;
  facts->kind = FileKind::regular;
  facts->encrypted = facts->verity = facts->compressed = facts->inline_data = facts->journaled = false;
  const uint32_t align = is_page_cache(facts->file_system) ? 0 : kUsualAlign;
  facts->offset_align = facts->read_offset_align = facts->memory_align = align;
  facts->align_assumed = true;
  auto again = posix::reopen(fd, O_RDONLY | O_DIRECTORY);
  if (!again) return facts;
  std::unique_ptr<DIR, int (*)(DIR*)> entries(fdopendir(again->get()), closedir);
  if (!entries) return facts;
  again->release();
  int seen = 0;
  while (dirent* entry = seen++ < kMostNames ? readdir(entries.get()) : nullptr) {
    if (entry->d_type != DT_REG && entry->d_type != DT_UNKNOWN) continue;
    auto sx = read_status(fd, entry->d_name);
    if (!sx || !S_ISREG(sx->stx_mode) || !(sx->stx_mask & STATX_DIOALIGN)) continue;
    read_alignments(*sx, *facts);
    break;
  }
  return facts;
}

posix::Result<std::shared_ptr<const File>> File::open(posix::Fd fd, MountTable& mounts) {
  auto sx = read_status(fd.get());
  if (!sx) return tl::unexpected(sx.error());
  int flags = fcntl(fd.get(), F_GETFL);
  if (flags < 0) return posix::last_failure("flags of descriptor " + std::to_string(fd.get()));
  if (flags & O_PATH) return posix::failure(EBADF, "descriptor opened with O_PATH");

  std::shared_ptr<File> file(new File);
  file->access_mode_ = flags & O_ACCMODE;
  file->facts_ = facts_from(fd.get(), *sx, mounts);
  if (file->facts_.kind == FileKind::other) {
    file->own_ = std::move(fd);
    return file;
  }

  const int kept = flags & (O_ACCMODE | O_SYNC | O_DSYNC);
  file->direct_is_own_ = flags & O_DIRECT;
  file->twin_flags_ = kept | (file->direct_is_own_ ? 0 : O_DIRECT);
  if (flags & O_APPEND) {
    auto plain = posix::reopen(fd.get(), kept | (flags & O_DIRECT));
    if (!plain) return tl::unexpected(plain.error());
    fd = std::move(*plain);
  }
  file->own_ = std::move(fd);
  // Older kernels say whether there is direct I/O only when asked to open.
  if (!(sx->stx_mask & STATX_DIOALIGN) && !file->direct_is_own_ && file->twin() < 0)
    file->facts_.offset_align = file->facts_.read_offset_align = file->facts_.memory_align = 0;
  return file;
}

bool File::reaches(uint64_t end) const {
  struct stat st;
  return facts_.kind == FileKind::block ||
         (fstat(own(), &st) == 0 && static_cast<uint64_t>(st.st_size) >= end);
}

int File::twin() const {
  std::call_once(twin_once_, [this] {
    if (auto opened = posix::reopen(own_.get(), twin_flags_)) twin_ = std::move(*opened);
  });
  return twin_.get();
}

}  // namespace storage
