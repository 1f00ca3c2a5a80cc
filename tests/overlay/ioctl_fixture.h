// A mount with one file, and clients of the ioctl ABI.
#pragma once

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <functional>

#include "mounted.h"

namespace overlay {

class Ioctl : public Mounted {
 protected:
  void SetUp() override {
    Mounted::SetUp();
    if (IsSkipped()) return;
    make_file("data", kBytes);
    mount();
    root_ = posix::Fd(open(mount_.c_str(), O_RDONLY | O_DIRECTORY));
    ASSERT_TRUE(root_);
  }
  posix::Fd open_file(int flags = O_RDONLY, const std::string& name = "data") {
    posix::Fd fd(open(mounted(name).c_str(), flags | O_CLOEXEC, 0644));
    EXPECT_TRUE(fd) << strerror(errno);
    return fd;
  }
  // Runs f in a child and gives its exit status; the child must not use gtest.
  static int in_child(const std::function<int()>& f) {
    pid_t child = fork();
    if (child == 0) _exit(f());
    int status;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  const std::vector<char> kBytes = pattern(3 * (1 << 20) + 1234);
  posix::Fd root_;
};

}  // namespace overlay
