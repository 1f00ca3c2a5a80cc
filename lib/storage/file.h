// An open file as the engine needs it: one descriptor through the page cache, one around it, and what is
// known.
#pragma once

#include <sys/types.h>

#include <compare>
#include <memory>
#include <mutex>
#include <string>

#include "posix/fd.h"
#include "storage/mount_table.h"

namespace storage {

enum class FileKind { regular, block, other };

/// What tells a file from every other, also from an earlier one with the same inode number.
struct FileId {
  dev_t device = 0;
  ino_t inode = 0;
  int64_t birth_nanoseconds = 0;  ///< 0 if not known
  auto operator<=>(const FileId&) const = default;
};

struct FileFacts {
  FileKind kind = FileKind::other;
  FileId id;
  std::string file_system;               ///< empty if the mount table does not have it
  std::shared_ptr<const Volume> volume;  ///< as it was when the file was examined; null if not known
  uint32_t offset_align = 0;             ///< of file offsets and lengths for direct I/O; 0: no direct I/O
  uint32_t read_offset_align = 0;        ///< the same where only reads are concerned; not larger
  uint32_t memory_align = 0;             ///< of memory addresses for direct I/O
  bool align_assumed = false;            ///< the alignments are not the kernel's word
  bool encrypted = false;                ///< by the file system (fscrypt)
  bool verity = false;                   ///< fs-verity: the CPU checks what is read
  bool compressed = false;
  bool inline_data = false;  ///< small enough to lie in the inode
  bool journaled = false;    ///< its data goes through the journal (chattr +j)
};

/// What is known of an open file; O_PATH is enough for all but inline_data and journaled. A file without direct I/O is
/// not an error: offset_align is 0 then. Where the kernel does not report alignments (before 6.1), 4096 is assumed for
/// regular files and block devices.
posix::Result<FileFacts> examine(int fd, MountTable& mounts);
/// What a regular file in this directory would be: as the first one in there is, otherwise as its file system lets expect.
posix::Result<FileFacts> examine_directory(int fd, MountTable& mounts);

/// Usable from any thread.
class File {
 public:
  /// Takes over `fd`, which may be open with or without O_DIRECT. A file without direct I/O is not an error:
  /// facts().offset_align is 0 then. O_APPEND is not carried over to descriptors that write at offsets.
  static posix::Result<std::shared_ptr<const File>> open(posix::Fd fd, MountTable& mounts);

  /// The descriptor that was taken over (for O_APPEND: a fresh one of the same file).
  int own() const { return own_.get(); }
  /// The descriptor through the page cache, and the one around it; -1 if the file has no direct I/O. The one that is not
  /// own() is opened when first asked for, and -1 if no descriptor is left then.
  int buffered() const { return direct_is_own_ ? twin() : own_.get(); }
  int direct() const { return direct_is_own_ ? own_.get() : facts_.offset_align ? twin() : -1; }
  const FileFacts& facts() const { return facts_; }
  /// Whether the file goes on to `end` now. A block device does: nothing is written behind its end.
  bool reaches(uint64_t end) const;
  bool readable() const { return access_mode_ != O_WRONLY; }
  bool writable() const { return access_mode_ != O_RDONLY; }

 private:
  File() = default;
  int twin() const;
  posix::Fd own_;
  int twin_flags_ = 0;
  mutable std::once_flag twin_once_;
  mutable posix::Fd twin_;
  bool direct_is_own_ = false;
  int access_mode_ = O_RDONLY;
  FileFacts facts_;
};

}  // namespace storage
