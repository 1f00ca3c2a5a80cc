// Mounting where autofs waits for it, as systemd and automount(8) have it done.
#include <fcntl.h>
#include <linux/auto_fs.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "mounted.h"

namespace {

using namespace overlay;

/// Makes whoever enters a directory wait for something to be mounted there. Processes of our group do not wait.
class Trigger {
 public:
  explicit Trigger(std::string directory) : directory_(std::move(directory)) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0) return;
    requests_ = posix::Fd(ends[0]);
    posix::Fd kernels_end(ends[1]);
    const std::string options = "fd=" + std::to_string(kernels_end.get()) +
                                ",pgrp=" + std::to_string(getpgrp()) + ",minproto=5,maxproto=5,direct";
    if (::mount("hipfile-test", directory_.c_str(), "autofs", 0, options.c_str()) < 0) return;
    root_ = posix::Fd(open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  }
  ~Trigger() {
    if (!root_) return;
    ioctl(root_.get(), AUTOFS_IOC_CATATONIC, 0);
    root_.reset();
    umount2(directory_.c_str(), MNT_DETACH);
  }
  Trigger(const Trigger&) = delete;
  Trigger& operator=(const Trigger&) = delete;

  bool is_there() const { return static_cast<bool>(root_); }
  /// Waits until somebody waits; the token names him.
  autofs_wqt_t await_request() const {
    autofs_v5_packet packet{};
    const ssize_t n = read(requests_.get(), &packet, sizeof packet);
    return n == sizeof packet ? packet.wait_queue_token : 0;
  }
  void let_in(autofs_wqt_t token) const { ioctl(root_.get(), AUTOFS_IOC_READY, token); }
  void turn_away(autofs_wqt_t token) const { ioctl(root_.get(), AUTOFS_IOC_FAIL, token); }

 private:
  const std::string directory_;
  posix::Fd requests_, root_;
};

class Automount : public Mounted {};

TEST_F(Automount, IsMountedForTheOneWhoWaits) {
  make_file("a", {'a'});
  Trigger trigger(mount_);
  if (!trigger.is_there()) GTEST_SKIP() << "no autofs here: " << strerror(errno);
  const pid_t visitor = fork();
  if (visitor == 0) {
    setpgid(0, 0);
    _exit(access(mounted("a").c_str(), F_OK) == 0 ? 0 : 1);
  }
  const autofs_wqt_t token = trigger.await_request();
  ASSERT_NE(token, 0u);
  // In the foreground: of our process group. Nothing keeps us waiting for a daemon that waits itself.
  const int status = shell("timeout --foreground 20 " + program("hipfile-fuse") + " " + source_ + " " +
                           mount_ + " >/dev/null 2>&1")
                         .first;
  EXPECT_EQ(status, 0);
  if (status == 0)
    trigger.let_in(token);
  else
    trigger.turn_away(token);
  int ended = -1;
  waitpid(visitor, &ended, 0);
  EXPECT_EQ(ended, 0);
  if (status == 0) {
    EXPECT_EQ(shell("umount " + mount_).first, 0);
  }
}

}  // namespace
