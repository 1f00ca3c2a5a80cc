// Modes, owners, times.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "deviations.h"
#include "posix/fd.h"
#include "tree.h"

namespace differential {
namespace {

constexpr Choice kFollow[] = {{0, "0"}, {AT_SYMLINK_NOFOLLOW, "AT_SYMLINK_NOFOLLOW"}};
constexpr Choice kAccess[] = {{F_OK, "F_OK"},
                              {R_OK, "R_OK"},
                              {W_OK, "W_OK"},
                              {X_OK, "X_OK"},
                              {R_OK | W_OK, "R_OK|W_OK"},
                              {R_OK | X_OK, "R_OK|X_OK"}};

struct Times {
  explicit Times(const Step& s) : value{one(s.atime), one(s.mtime)} {}
  static timespec one(int64_t seconds) {
    if (seconds == kTimeNow) return {0, UTIME_NOW};
    if (seconds == kTimeOmitted) return {0, UTIME_OMIT};
    return {seconds, seconds % 1000};
  }
  timespec value[2];
};

std::string run_chmod(Tree&, const Step& s) { return result_text(chmod(s.path.c_str(), s.mode)); }
std::string run_fchmod(Tree& t, const Step& s) { return result_text(fchmod(t.fd(s.slot), s.mode)); }

bool names_nobody(const Step& s) { return s.uid == uid_t(-1) && s.gid == gid_t(-1); }

std::string run_chown(Tree&, const Step& s) {
  if (names_nobody(s) && keeps_bits_with_nobody_new(s.path, s.flags)) return "not changed";
  return result_text(fchownat(AT_FDCWD, s.path.c_str(), s.uid, s.gid, s.flags));
}
std::string run_fchown(Tree& t, const Step& s) {
  const int fd = t.fd(s.slot);
  if (names_nobody(s) && keeps_bits_with_nobody_new(posix::proc_path(fd), 0)) return "not changed";
  return result_text(fchown(fd, s.uid, s.gid));
}

std::string run_utimensat(Tree&, const Step& s) {
  return result_text(utimensat(AT_FDCWD, s.path.c_str(), Times(s).value, s.flags));
}
std::string run_futimens(Tree& t, const Step& s) {
  return result_text(futimens(t.fd(s.slot), Times(s).value));
}

std::string run_access(Tree&, const Step& s) {
  return result_text(faccessat(AT_FDCWD, s.path.c_str(), s.flags, AT_EACCESS));
}

std::string run_stat(Tree&, const Step& s) { return path_status(s.path.c_str(), true); }
std::string run_fstat(Tree& t, const Step& s) { return fd_status(t.fd(s.slot)); }

const Operation kOperations[] = {
    {"chmod", 8, kFilePath | kMode, {}, run_chmod},
    {"chmod", 3, kDirectoryPath | kMode, {}, run_chmod},
    {"fchmod", 2, kSlot | kMode, {}, run_fchmod},
    {"chown", 5, kFilePath | kOwner | kFlags, kFollow, run_chown},
    {"chown", 2, kDirectoryPath | kOwner | kFlags, kFollow, run_chown},
    {"fchown", 2, kSlot | kOwner, {}, run_fchown},
    {"utimensat", 4, kFilePath | kTimes | kFlags, kFollow, run_utimensat},
    {"futimens", 2, kSlot | kTimes, {}, run_futimens},
    {"access", 3, kFilePath | kFlags, kAccess, run_access},
    {"access", 1, kDirectoryPath | kFlags, kAccess, run_access},
    {"stat", 4, kFilePath, {}, run_stat},
    {"stat", 2, kDirectoryPath, {}, run_stat},
    {"fstat", 3, kSlot, {}, run_fstat},
};

}  // namespace

std::span<const Operation> attribute_operations() { return kOperations; }

}  // namespace differential
