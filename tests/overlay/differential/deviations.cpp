#include "deviations.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>

#include "posix/fd.h"

namespace differential {
namespace {

constexpr off_t kPossible = off_t{1} << 40;  // every file system here takes such files

// Not in the list because no step does it:
//  - fcntl(F_SETFL) that takes O_APPEND away or changes O_DIRECT: the backing file keeps the flags that it was opened
//    with. Setting O_APPEND works and is done.
//  - fallocate with COLLAPSE_RANGE or INSERT_RANGE: FUSE refuses them (EOPNOTSUPP).
//  - O_DIRECT with offsets or lengths that are not aligned: the daemon serves what the file system below would refuse.
//  - mmap of a file that had set-id bits when somebody opened it who still has it open: the daemon serves such files, and
//    the kernel maps them without a request, so that the access time stays. A sequence either maps files or gives them
//    such bits.
//  - FICLONE, FIDEDUPERANGE, FIEMAP: these never reach a FUSE file system.
//  - preadv2(RWF_NOWAIT), readahead, posix_fadvise: no effect, or EOPNOTSUPP.
//  - name_to_handle_at: the mount hands out no handles.
//  - st_dev, statx attributes and ctime: the first two are the kernel's, the third cannot be set.
struct Ignored {
  const char* what;  ///< followed by a value in the texts of attributes
  bool (*applies)(const Conditions&);
};

const Ignored kIgnored[] = {
    // The kernel answers reads from its own cache, and behind what it takes for the end of the file.
    {" atime ", [](const Conditions& c) { return !c.passthrough; }},
    // The kernel keeps what it has read from a link, until the link is forgotten.
    {" link-atime ", [](const Conditions&) { return true; }},
    // What goes through a pipe does not pass the file system, and a FUSE inode's times are the daemon's.
    {" pipe-atime ", [](const Conditions&) { return true; }},
    {" pipe-mtime ", [](const Conditions&) { return true; }},
    // xfs allocates more behind the end of a file than asked for, by its size and by how often it was opened.
    {" blocks ", [](const Conditions& c) { return c.xfs; }},
};

std::string without(std::string text, const std::string& what) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos;)
    text.erase(at, text.find_first_of(" \n", at + what.size()) - at);
  return text;
}

bool has_capabilities(const std::string& path) {
  return getxattr(path.c_str(), "security.capability", nullptr, 0) >= 0;
}

}  // namespace

bool loses_set_id_bits_to_nobody(int fd) {
  struct stat st;
  if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) return false;
  if (geteuid() == 0) return st.st_mode & (S_ISUID | S_ISGID);
  return st.st_mode & S_ISGID && !(st.st_mode & S_IXGRP);
}

bool loses_privileges_beyond_files(const std::string& path, off_t offset) {
  struct stat st;
  if (offset <= kPossible || stat(path.c_str(), &st) < 0) return false;
  return st.st_mode & (S_ISUID | S_ISGID) || has_capabilities(path);
}

bool loses_privileges_beyond_files(int fd, off_t offset) {
  return loses_privileges_beyond_files(posix::proc_path(fd), offset);
}

bool loses_bit_of_further_group(const std::string& path) {
  struct stat st;
  if (stat(path.c_str(), &st) < 0 || !S_ISREG(st.st_mode)) return false;
  return st.st_mode & S_ISGID && !(st.st_mode & S_IXGRP) && geteuid() != 0 && getegid() != st.st_gid &&
         group_member(st.st_gid);
}

bool keeps_bits_with_nobody_new(const std::string& path, int flags) {
  struct stat st;
  if (fstatat(AT_FDCWD, path.c_str(), &st, flags) < 0 || S_ISDIR(st.st_mode)) return false;
  if (!(st.st_mode & (S_ISUID | S_ISGID))) return false;
  if (geteuid() == 0) return has_capabilities(path);
  return geteuid() != st.st_uid;
}

bool seeks_alike(int fd, int whence, bool passthrough) {
  struct stat st;
  if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode)) return false;
  return passthrough || (whence != SEEK_DATA && whence != SEEK_HOLE);
}

void avoid_known(Step& step) {
  // The kernel checks some offsets against the largest file that a FUSE file system may have, not the one below.
  const std::string name = step.operation->name;
  if (name == "lseek" || name == "copy_file_range" || name == "sendfile") {
    step.offset = std::min(step.offset, kPossible);
    step.offset2 = std::min(step.offset2, kPossible);
  }
  // Nothing to be sent touches the access time of an empty file, through the mount only if there is something to read.
  if (name == "sendfile") step.length = std::max<size_t>(step.length, 1);
}

std::string comparable(const std::string& outcome, const Conditions& conditions) {
  std::string text = outcome;
  for (const Ignored& i : kIgnored)
    if (i.applies(conditions)) text = without(std::move(text), i.what);
  return text;
}

}  // namespace differential
