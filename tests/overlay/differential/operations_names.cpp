// Names: made, moved, removed.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <climits>

#include "tree.h"

namespace differential {
namespace {

// A large minor number, to see that none of its bits are lost. There is no such device.
const dev_t kNoDevice = makedev(0xabc, 0x12345);
const dev_t kNullDevice = makedev(1, 3);

constexpr Choice kNodes[] = {{S_IFIFO, "fifo"},
                             {S_IFSOCK, "socket"},
                             {S_IFREG, "file"},
                             {S_IFCHR, "null"},
                             {S_IFCHR | 1, "no device"}};
constexpr Choice kRenames[] = {
    {0, "0"}, {RENAME_NOREPLACE, "RENAME_NOREPLACE"}, {RENAME_EXCHANGE, "RENAME_EXCHANGE"}};
constexpr Choice kLinks[] = {{0, "0"}, {AT_SYMLINK_FOLLOW, "AT_SYMLINK_FOLLOW"}};

std::string run_mkdir(Tree&, const Step& s) { return result_text(mkdir(s.path.c_str(), s.mode)); }
std::string run_rmdir(Tree&, const Step& s) { return result_text(rmdir(s.path.c_str())); }
std::string run_unlink(Tree&, const Step& s) { return result_text(unlink(s.path.c_str())); }

std::string run_rename(Tree&, const Step& s) {
  return result_text(renameat2(AT_FDCWD, s.path.c_str(), AT_FDCWD, s.path2.c_str(), unsigned(s.flags)));
}

std::string run_link(Tree&, const Step& s) {
  return result_text(linkat(AT_FDCWD, s.path.c_str(), AT_FDCWD, s.path2.c_str(), s.flags));
}

// The only way to a name for an O_TMPFILE, and a way back for other files while they have one left.
std::string run_link_fd(Tree& tree, const Step& s) {
  return result_text(linkat(AT_FDCWD, posix::proc_path(tree.fd(s.slot)).c_str(), AT_FDCWD, s.path.c_str(),
                            AT_SYMLINK_FOLLOW));
}

std::string run_symlink(Tree&, const Step& s) {
  return result_text(symlink(s.path2.c_str(), s.path.c_str()));
}

std::string run_readlink(Tree&, const Step& s) {
  char target[PATH_MAX];
  ssize_t n = readlink(s.path.c_str(), target, sizeof target);
  if (n < 0) return result_text(n);
  return result_text(n) + " " + std::string(target, static_cast<size_t>(n));
}

std::string run_mknod(Tree&, const Step& s) {
  const dev_t device = s.flags == S_IFCHR ? kNullDevice : kNoDevice;
  return result_text(mknod(s.path.c_str(), (s.mode & 07777) | unsigned(s.flags & S_IFMT), device));
}

// One umask for both trees: setting it twice does no harm, but the old one would not be the same.
std::string run_umask(Tree&, const Step& s) {
  umask(s.mode & 0777);
  return result_text(0);
}

const Operation kOperations[] = {
    {"mkdir", 10, kDirectoryPath | kMode, {}, run_mkdir},
    {"rmdir", 3, kDirectoryPath, {}, run_rmdir},
    {"unlink", 6, kFilePath, {}, run_unlink},
    {"rename", 10, kFilePath | kPath2 | kFlags, kRenames, run_rename},
    {"rename", 2, kDirectoryPath | kPath2 | kFlags, kRenames, run_rename},
    {"link", 6, kFilePath | kPath2 | kFlags, kLinks, run_link},
    {"link_fd", 3, kSlot | kFilePath, {}, run_link_fd},
    {"symlink", 5, kLinkPath | kPath2, {}, run_symlink},
    {"readlink", 2, kLinkPath, {}, run_readlink},
    {"mknod", 4, kFilePath | kFlags | kMode, kNodes, run_mknod},
    {"umask", 1, kMode, {}, run_umask},
};

}  // namespace

std::span<const Operation> name_operations() { return kOperations; }

}  // namespace differential
