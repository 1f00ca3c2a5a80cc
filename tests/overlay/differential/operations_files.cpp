// Descriptors: opened, closed, copied, locked.
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "deviations.h"
#include "tree.h"

namespace differential {
namespace {

// Read-only is none of these. O_NONBLOCK is always there: a pipe must not make a worker wait for another one.
constexpr Choice kOpen[] = {
    {O_RDWR, "O_RDWR"},           {O_WRONLY, "O_WRONLY"},     {O_CREAT, "O_CREAT"},
    {O_EXCL, "O_EXCL"},           {O_TRUNC, "O_TRUNC"},       {O_APPEND, "O_APPEND"},
    {O_DIRECT, "O_DIRECT"},       {O_NOFOLLOW, "O_NOFOLLOW"}, {O_TMPFILE, "O_TMPFILE"},
    {O_DIRECTORY, "O_DIRECTORY"}, {O_PATH, "O_PATH"}};
constexpr Choice kFlock[] = {{LOCK_SH, "LOCK_SH"}, {LOCK_EX, "LOCK_EX"}, {LOCK_UN, "LOCK_UN"}};
constexpr Choice kLock[] = {{F_RDLCK, "F_RDLCK"}, {F_WRLCK, "F_WRLCK"}, {F_UNLCK, "F_UNLCK"}};
constexpr Choice kSync[] = {{0, "all"}, {1, "data only"}};

std::string run_open(Tree& tree, const Step& s) {
  posix::Fd& slot = tree.slots[static_cast<size_t>(s.slot)];
  slot.reset();
  slot = posix::Fd(open(s.path.c_str(), s.flags | O_NONBLOCK | O_CLOEXEC, s.mode));
  if (!slot) return result_text(-1);
  return result_text(0);
}

std::string run_close(Tree& tree, const Step& s) {
  return result_text(close(tree.slots[static_cast<size_t>(s.slot)].release()));
}

std::string run_dup(Tree& tree, const Step& s) {
  int copy = fcntl(tree.fd(s.slot), F_DUPFD_CLOEXEC, 0);
  if (copy < 0) return result_text(-1);
  tree.slots[static_cast<size_t>(s.slot2)] = posix::Fd(copy);
  return result_text(0);
}

std::string run_set_append(Tree& tree, const Step& s) {
  int flags = fcntl(tree.fd(s.slot), F_GETFL);
  return result_text(flags < 0 ? -1 : fcntl(tree.fd(s.slot), F_SETFL, flags | O_APPEND));
}

std::string run_flock(Tree& tree, const Step& s) {
  return result_text(flock(tree.fd(s.slot), s.flags | LOCK_NB));
}

struct flock lock_of(const Step& s) {
  struct flock lock {};
  lock.l_type = static_cast<short>(s.flags);
  lock.l_whence = SEEK_SET;
  lock.l_start = s.offset;
  lock.l_len = static_cast<off_t>(s.length);
  return lock;
}

std::string run_lock(Tree& tree, const Step& s) {
  struct flock lock = lock_of(s);
  return result_text(fcntl(tree.fd(s.slot), F_SETLK, &lock));
}
std::string run_ofd_lock(Tree& tree, const Step& s) {
  struct flock lock = lock_of(s);
  return result_text(fcntl(tree.fd(s.slot), F_OFD_SETLK, &lock));
}
// A worker has both trees, so that even the owner's process id is the same.
std::string run_get_lock(Tree& tree, const Step& s) {
  struct flock lock = lock_of(s);
  if (fcntl(tree.fd(s.slot), F_GETLK, &lock) < 0) return result_text(-1);
  std::string text = "type " + std::to_string(lock.l_type);
  if (lock.l_type == F_UNLCK) return text;
  return text + " from " + std::to_string(lock.l_start) + " length " + std::to_string(lock.l_len) + " of " +
         std::to_string(lock.l_pid);
}

std::string run_sync(Tree& tree, const Step& s) {
  return result_text(s.flags ? fdatasync(tree.fd(s.slot)) : fsync(tree.fd(s.slot)));
}

const Operation kOperations[] = {
    {"open", 40, kSlot | kFilePath | kOpenFlags | kMode, kOpen, run_open},
    {"open", 8, kSlot | kDirectoryPath | kOpenFlags | kMode, kOpen, run_open},
    {"close", 4, kSlot, {}, run_close},
    {"dup", 2, kSlot | kSlot2, {}, run_dup},
    {"set_append", 2, kSlot, {}, run_set_append},
    {"flock", 4, kSlot | kFlags, kFlock, run_flock},
    {"lock", 4, kSlot | kFlags | kOffset | kLength, kLock, run_lock},
    {"ofd_lock", 3, kSlot | kFlags | kOffset | kLength, kLock, run_ofd_lock},
    {"get_lock", 2, kSlot | kFlags | kOffset | kLength, kLock, run_get_lock},
    {"sync", 1, kSlot | kFlags, kSync, run_sync},
};

}  // namespace

std::span<const Operation> file_operations() { return kOperations; }

}  // namespace differential
