// A file descriptor that closes itself.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "posix/error.h"

namespace posix {

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd() { reset(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  void reset() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }

 private:
  int fd_ = -1;
};

/// A descriptor of the same open file.
inline Result<Fd> duplicate(int fd) {
  int copy = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (copy < 0 && errno == EINVAL) errno = EMFILE;  // what the kernel says when the limit is 0
  if (copy < 0) return last_failure("duplicate descriptor " + std::to_string(fd));
  return Fd(copy);
}

/// A path that names what `fd` has open, for calls that take only paths.
inline std::string proc_path(int fd) { return "/proc/self/fd/" + std::to_string(fd); }

/// A second open file description of what `fd` has open.
inline Result<Fd> reopen(int fd, int flags) {
  Fd again(::open(proc_path(fd).c_str(), flags | O_CLOEXEC));
  if (!again) return last_failure("reopen descriptor " + std::to_string(fd));
  return again;
}

}  // namespace posix
