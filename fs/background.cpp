#include "background.h"

#include <sys/wait.h>
#include <unistd.h>

namespace fs {

void open_standard_descriptors() {
  posix::Fd next;
  do next = posix::Fd(open("/dev/null", O_RDWR));
  while (next && next.get() <= STDERR_FILENO && next.release() >= 0);
}

posix::Result<Background> Background::start() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) < 0) return posix::last_failure("make pipe");
  posix::Fd read_end(ends[0]), write_end(ends[1]);
  pid_t child = fork();
  if (child < 0) return posix::last_failure("fork");
  if (child > 0) {
    write_end.reset();
    char byte;
    ssize_t n;
    do n = read(read_end.get(), &byte, 1);
    while (n < 0 && errno == EINTR);
    _exit(n == 1 ? 0 : 1);
  }
  return Background(std::move(write_end));
}

void Background::ready() {
  setsid();
  posix::Fd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  if (null)
    for (int fd : {0, 1, 2}) dup2(null.get(), fd);
  if (chdir("/") < 0) return;
  [[maybe_unused]] ssize_t n = write(report_.get(), "", 1);
  report_.reset();
}

}  // namespace fs
