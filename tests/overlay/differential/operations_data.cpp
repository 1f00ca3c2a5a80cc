// What is in files: read, written, cut, allocated, copied.
#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "deviations.h"
#include "tree.h"

namespace differential {
namespace {

constexpr size_t kAlignment = 4096;  // good for O_DIRECT everywhere
constexpr size_t kBufferSize = 256 << 10;
alignas(kAlignment) char buffer[kBufferSize];

constexpr Choice kWhence[] = {{SEEK_SET, "SEEK_SET"},
                              {SEEK_CUR, "SEEK_CUR"},
                              {SEEK_END, "SEEK_END"},
                              {SEEK_DATA, "SEEK_DATA"},
                              {SEEK_HOLE, "SEEK_HOLE"}};
// Without FALLOC_FL_COLLAPSE_RANGE and FALLOC_FL_INSERT_RANGE, see deviations.h.
constexpr Choice kAllocate[] = {{0, "0"},
                                {FALLOC_FL_KEEP_SIZE, "KEEP_SIZE"},
                                {FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, "PUNCH_HOLE"},
                                {FALLOC_FL_ZERO_RANGE, "ZERO_RANGE"},
                                {FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE, "ZERO_RANGE|KEEP_SIZE"}};

bool is_direct(int fd) {
  int flags = fcntl(fd, F_GETFL);
  return flags >= 0 && flags & O_DIRECT;
}

off_t aligned(off_t offset) { return offset / off_t{kAlignment} * off_t{kAlignment}; }

// Where a transfer goes. On O_DIRECT descriptors it is cut to what every file system takes.
struct Window {
  Window(int fd, const Step& s) : offset(s.offset), length(std::min(s.length, kBufferSize)) { fit(fd); }
  void fit(int fd) {
    if (!is_direct(fd)) return;
    offset = aligned(offset);
    length = length / kAlignment * kAlignment;
    lseek(fd, aligned(lseek(fd, 0, SEEK_CUR)), SEEK_SET);
  }
  off_t offset;
  size_t length;
};

// Which is what O_APPEND may do: the offset is then the size.
bool appends_unaligned(int fd) {
  struct stat st;
  return is_direct(fd) && fcntl(fd, F_GETFL) & O_APPEND && fstat(fd, &st) == 0 &&
         st.st_size % off_t{kAlignment};
}

std::string read_text(ssize_t n) {
  if (n < 0) return result_text(n);
  return result_text(n) + ": " + describe_bytes({buffer, static_cast<size_t>(n)});
}

// Two parts, the first of them aligned as well as the whole.
struct Parts {
  explicit Parts(size_t length) {
    const size_t first = length / 2 / kAlignment * kAlignment;
    part[0] = {buffer, first};
    part[1] = {buffer + first, length - first};
  }
  iovec part[2];
};

std::string run_read(Tree& t, const Step& s) {
  Window w(t.fd(s.slot), s);
  return read_text(read(t.fd(s.slot), buffer, w.length));
}
std::string run_pread(Tree& t, const Step& s) {
  Window w(t.fd(s.slot), s);
  return read_text(pread(t.fd(s.slot), buffer, w.length, w.offset));
}
std::string run_readv(Tree& t, const Step& s) {
  Window w(t.fd(s.slot), s);
  return read_text(readv(t.fd(s.slot), Parts(w.length).part, 2));
}

// Changes of data that would only show a known deviation.
bool differs_anyway(const std::string& path, off_t offset) {
  return loses_privileges_beyond_files(path, offset) || loses_bit_of_further_group(path);
}
bool differs_anyway(int fd, off_t offset) { return differs_anyway(posix::proc_path(fd), offset); }

template <typename Write>
std::string write_with(Tree& t, const Step& s, Write write_window) {
  if (appends_unaligned(t.fd(s.slot))) return "not written";
  if (t.passthrough && loses_set_id_bits_to_nobody(t.fd(s.slot))) return "not written";
  if (differs_anyway(t.fd(s.slot), s.offset)) return "not written";
  Window w(t.fd(s.slot), s);
  memset(buffer, s.fill, w.length);
  return result_text(write_window(w));
}

std::string run_write(Tree& t, const Step& s) {
  return write_with(t, s, [&](const Window& w) { return write(t.fd(s.slot), buffer, w.length); });
}
std::string run_pwrite(Tree& t, const Step& s) {
  return write_with(t, s, [&](const Window& w) { return pwrite(t.fd(s.slot), buffer, w.length, w.offset); });
}
std::string run_writev(Tree& t, const Step& s) {
  return write_with(t, s, [&](const Window& w) { return writev(t.fd(s.slot), Parts(w.length).part, 2); });
}

// What is left of a file to be sent need not be what O_DIRECT takes, and a file sent to itself may be read before or after
// it is written to.
bool sends_by_chance(int to, int from, const Step& s) {
  struct stat target, st;
  if (fstat(to, &target) < 0 || fstat(from, &st) < 0) return false;
  if (target.st_ino == st.st_ino) return true;
  return is_direct(to) && st.st_size % off_t{kAlignment} &&
         st.st_size - s.offset < static_cast<off_t>(s.length) + off_t{kAlignment};
}

std::string run_sendfile(Tree& t, const Step& s) {
  if (sends_by_chance(t.fd(s.slot), t.fd(s.slot2), s)) return "not written";
  return write_with(t, s, [&](Window w) {
    w.fit(t.fd(s.slot2));
    return sendfile(t.fd(s.slot), t.fd(s.slot2), &w.offset, w.length);
  });
}

std::string run_lseek(Tree& t, const Step& s) {
  if (!seeks_alike(t.fd(s.slot), s.flags, t.passthrough)) return "not asked";
  return result_text(lseek(t.fd(s.slot), s.offset, s.flags));
}
std::string run_ftruncate(Tree& t, const Step& s) {
  if (differs_anyway(t.fd(s.slot), s.offset)) return "not written";
  return result_text(ftruncate(t.fd(s.slot), s.offset));
}
std::string run_truncate(Tree&, const Step& s) {
  if (differs_anyway(s.path, s.offset)) return "not written";
  return result_text(truncate(s.path.c_str(), s.offset));
}

std::string run_fallocate(Tree& t, const Step& s) {
  if (differs_anyway(t.fd(s.slot), s.offset)) return "not written";
  return result_text(fallocate(t.fd(s.slot), s.flags, s.offset, static_cast<off_t>(s.length)));
}

std::string run_copy_file_range(Tree& t, const Step& s) {
  if (differs_anyway(t.fd(s.slot2), 0)) return "not written";
  off_t from = s.offset, to = s.offset2;
  ssize_t n = copy_file_range(t.fd(s.slot), &from, t.fd(s.slot2), &to, s.length, 0);
  return result_text(n) + ", offsets " + std::to_string(from) + " " + std::to_string(to);
}

const Operation kOperations[] = {
    {"read", 6, kSlot | kLength, {}, run_read},
    {"pread", 6, kSlot | kOffset | kLength, {}, run_pread},
    {"readv", 3, kSlot | kLength, {}, run_readv},
    {"write", 8, kSlot | kFill | kLength, {}, run_write},
    {"pwrite", 8, kSlot | kFill | kOffset | kLength, {}, run_pwrite},
    {"writev", 4, kSlot | kFill | kLength, {}, run_writev},
    {"sendfile", 2, kSlot | kSlot2 | kOffset | kLength, {}, run_sendfile},
    {"lseek", 6, kSlot | kOffset | kFlags, kWhence, run_lseek},
    {"ftruncate", 4, kSlot | kOffset, {}, run_ftruncate},
    {"truncate", 4, kFilePath | kOffset, {}, run_truncate},
    {"fallocate", 5, kSlot | kFlags | kOffset | kLength, kAllocate, run_fallocate},
    {"copy_file_range", 5, kSlot | kSlot2 | kOffset | kOffset2 | kLength, {}, run_copy_file_range},
};

}  // namespace

std::span<const Operation> data_operations() { return kOperations; }

}  // namespace differential
