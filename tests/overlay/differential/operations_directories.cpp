// Directories listed by path and by descriptor; observing the whole tree.
#include <dirent.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <vector>

#include "tree.h"

namespace differential {
namespace {

std::string entry_text(const char* name, uint64_t inode, unsigned type) {
  // ".." of the top is another directory in each tree.
  std::string number = strcmp(name, "..") ? "<" + std::to_string(inode) + ">" : "";
  return std::string(name) + " " + number + " type " + std::to_string(type) + "\n";
}

struct CloseStream {
  void operator()(DIR* d) const { closedir(d); }
};
using Stream = std::unique_ptr<DIR, CloseStream>;

std::string rest_of(DIR* stream) {
  std::string text;
  while (dirent* e = readdir(stream)) text += entry_text(e->d_name, e->d_ino, e->d_type);
  return text;
}

// The same rest comes again after going back to where it began.
std::string run_list(Tree&, const Step& s) {
  Stream stream(opendir(s.path.c_str()));
  if (!stream) return result_text(-1);
  std::string text;
  for (off_t i = 0; i < s.offset % 8; i++)
    if (dirent* e = readdir(stream.get())) text += entry_text(e->d_name, e->d_ino, e->d_type);
  long middle = telldir(stream.get());
  std::string rest = rest_of(stream.get());
  seekdir(stream.get(), middle);
  std::string again = rest_of(stream.get());
  if (rest != again) return text + "--- then\n" + rest + "--- but after seekdir\n" + again;
  return text + rest;
}

// Through the descriptor itself, with little room at a time. An open directory must show what became of it since.
std::string run_getdents(Tree& t, const Step& s) {
  if (lseek(t.fd(s.slot), 0, SEEK_SET) < 0) return result_text(-1);
  return listing(t.fd(s.slot));
}

const Operation kOperations[] = {
    {"list", 6, kDirectoryPath | kOffset, {}, run_list},
    {"getdents", 3, kSlot | kDirectorySlot, {}, run_getdents},
    {"observe", 14, 0, {}, observe},
};

}  // namespace

std::string listing(int fd) {
  alignas(8) char room[600];
  std::string text;
  for (;;) {
    long n = syscall(SYS_getdents64, fd, room, sizeof room);
    if (n < 0) return text + result_text(n);
    if (n == 0) return text;
    for (long at = 0; at < n;) {
      auto* e = reinterpret_cast<dirent64*>(room + at);
      text += entry_text(e->d_name, e->d_ino, e->d_type);
      at += e->d_reclen;
    }
  }
}

std::span<const Operation> directory_operations() { return kOperations; }

}  // namespace differential
