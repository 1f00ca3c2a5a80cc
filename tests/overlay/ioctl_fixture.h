// A mount with one file, and clients of the ioctl ABI.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
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

/// A BATCH request and its answers.
struct BatchOf {
  explicit BatchOf(uint32_t n) : header{}, entries(n) {
    header.version = HIPFILE_FUSE_ABI_VERSION;
    header.count = n;
  }
  /// 0 or the errno of the ioctl, for a structure with room for `room` entries.
  int submit(int fd, size_t room) {
    std::vector<char> bytes(HIPFILE_FUSE_BATCH_BYTES(room));
    memcpy(bytes.data(), &header, sizeof header);
    memcpy(bytes.data() + sizeof header, entries.data(), std::min(room, entries.size()) * sizeof entries[0]);
    if (ioctl(fd, HIPFILE_FUSE_IOC_BATCH(room), bytes.data()) < 0) return errno;
    memcpy(entries.data(), bytes.data() + sizeof header, std::min(room, entries.size()) * sizeof entries[0]);
    return 0;
  }
  hipfile_fuse_batch header;
  std::vector<hipfile_fuse_batch_entry> entries;
};

}  // namespace overlay
