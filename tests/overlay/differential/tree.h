// One of the two trees, as one worker has it, and what the operations share.
#pragma once

#include <sys/stat.h>

#include <array>
#include <string>

#include "posix/fd.h"
#include "step.h"

namespace differential {

/// A shared mapping; it outlives the descriptor that it was made from.
class Mapping {
 public:
  Mapping() = default;
  ~Mapping() { reset(); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  /// 0, or -1 with errno set.
  int map(int fd, size_t size, int protection);
  int reset();
  char* data() const { return data_; }
  size_t size() const { return size_; }
  bool writable() const { return writable_; }

 private:
  char* data_ = nullptr;
  size_t size_ = 0;
  bool writable_ = false;
};

struct Tree {
  posix::Fd root;
  bool passthrough = true;  ///< of the mount: decides what is known to differ, see deviations.h
  std::array<posix::Fd, kSlots> slots;
  Mapping mapping;

  int fd(int slot) const { return slots[static_cast<size_t>(slot)].get(); }
};

/// "3", or "-1 ENOENT" by errno.
std::string result_text(int64_t result);

/// Attributes as far as they must be the same in both trees; inode numbers in angle brackets, see `with_inode_names`.
std::string status_text(const struct stat& st);
std::string path_status(const char* path, bool follow);
std::string fd_status(int fd);

/// Inode numbers mean nothing, but which of them are the same does: <123> ... <77> ... <123> becomes #0 ... #1 ... #0.
std::string with_inode_names(const std::string& text);

/// Names, types and inodes in a directory, in its order.
std::string listing(int fd);

/// Everything below the current directory, and all descriptors.
std::string observe(Tree& tree, const Step& step);

/// Carries a step out, from the right directory.
std::string perform(Tree& tree, const Step& step);

// The operations, by room.
std::span<const Operation> name_operations();
std::span<const Operation> attribute_operations();
std::span<const Operation> xattr_operations();
std::span<const Operation> file_operations();
std::span<const Operation> data_operations();
std::span<const Operation> mapping_operations();
std::span<const Operation> directory_operations();

/// All of them.
const std::vector<const Operation*>& operations();

}  // namespace differential
