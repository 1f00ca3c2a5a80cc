// A mount with one file, and clients of the ioctl ABI.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstring>

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

  const std::vector<char> kBytes = pattern(3 * (1 << 20) + 1234);
  posix::Fd root_;
};

}  // namespace overlay
