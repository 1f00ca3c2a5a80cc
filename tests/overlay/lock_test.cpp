// Locks: by default among users of the mount, with locks=forward also with users of the source.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "mounted.h"

namespace {

int record_lock(int fd, short type, int command = F_SETLK) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_len = 10;
  return fcntl(fd, command, &lock) < 0 ? errno : 0;
}

class Locks : public overlay::Mounted {
 protected:
  void start(const std::string& options) {
    make_file("f", pattern(100));
    mount(options);
    through_ = posix::Fd(open(mounted("f").c_str(), O_RDWR));
    direct_ = posix::Fd(open(source("f").c_str(), O_RDWR));
    ASSERT_TRUE(through_ && direct_);
  }
  // In another process, because record locks of one never stand in its own way.
  static int other_locks(int fd, short type) {
    return in_child([=] { return record_lock(fd, type); });
  }
  posix::Fd through_, direct_;
};

TEST_F(Locks, AreLocalByDefault) {
  start("");
  ASSERT_EQ(flock(through_.get(), LOCK_EX), 0);
  EXPECT_EQ(flock(direct_.get(), LOCK_EX | LOCK_NB), 0) << "the README says so";
  posix::Fd second(open(mounted("f").c_str(), O_RDWR));
  EXPECT_EQ(flock(second.get(), LOCK_EX | LOCK_NB), -1);
  ASSERT_EQ(record_lock(through_.get(), F_WRLCK), 0);
  EXPECT_EQ(other_locks(second.get(), F_WRLCK), EAGAIN);
}

TEST_F(Locks, ForwardedOnesAreSeenOnBothSides) {
  start("locks=forward");
  ASSERT_EQ(flock(through_.get(), LOCK_EX), 0);
  EXPECT_EQ(flock(direct_.get(), LOCK_SH | LOCK_NB), -1);
  EXPECT_EQ(errno, EWOULDBLOCK);
  ASSERT_EQ(flock(through_.get(), LOCK_UN), 0);
  ASSERT_EQ(flock(direct_.get(), LOCK_SH | LOCK_NB), 0);
  EXPECT_EQ(flock(through_.get(), LOCK_EX | LOCK_NB), -1);
  EXPECT_EQ(flock(through_.get(), LOCK_SH | LOCK_NB), 0);

  ASSERT_EQ(record_lock(through_.get(), F_WRLCK), 0);
  EXPECT_EQ(other_locks(direct_.get(), F_RDLCK), EAGAIN);
  EXPECT_EQ(record_lock(direct_.get(), F_RDLCK), EAGAIN)
      << "the daemon holds it for this process, not this process";
  ASSERT_EQ(record_lock(through_.get(), F_UNLCK), 0);
  EXPECT_EQ(other_locks(direct_.get(), F_RDLCK), 0);
}

TEST_F(Locks, ForwardedRecordLocksGoWithAnyClose) {
  start("locks=forward");
  ASSERT_EQ(record_lock(through_.get(), F_WRLCK), 0);
  { posix::Fd second(open(mounted("f").c_str(), O_RDONLY)); }
  EXPECT_EQ(other_locks(direct_.get(), F_WRLCK), 0) << "as POSIX has it";
}

TEST_F(Locks, ForwardedOnesGoWithTheirProcess) {
  start("locks=forward");
  EXPECT_EQ(in_child([&] {
              posix::Fd own(open(mounted("f").c_str(), O_RDWR));
              return flock(own.get(), LOCK_EX) || record_lock(own.get(), F_WRLCK);
            }),
            0);
  int status = -1;
  for (int i = 0; i < 500 && status; i++) {  // the release is sent, not waited for
    status = flock(direct_.get(), LOCK_EX | LOCK_NB);
    if (status) usleep(10000);
  }
  EXPECT_EQ(status, 0);
  EXPECT_EQ(other_locks(direct_.get(), F_WRLCK), 0);
}

TEST_F(Locks, ForwardedOnesOfADescriptionGoWithIt) {
  start("locks=forward");
  {
    posix::Fd own(open(mounted("f").c_str(), O_RDWR));
    ASSERT_EQ(record_lock(own.get(), F_WRLCK, F_OFD_SETLK), 0);
    EXPECT_EQ(other_locks(direct_.get(), F_WRLCK), EAGAIN);
  }
  int error = -1;
  for (int i = 0; i < 500 && error; i++) {
    error = other_locks(direct_.get(), F_WRLCK);
    if (error) usleep(10000);
  }
  EXPECT_EQ(error, 0);
}

TEST_F(Locks, WhoeverWaitsGetsItsTurnAndHoldsUpNobody) {
  start("locks=forward");
  ASSERT_EQ(flock(direct_.get(), LOCK_EX), 0);
  std::vector<pid_t> waiters;
  for (int i = 0; i < 40; i++) {  // more than the daemon has threads
    waiters.push_back(fork());
    if (waiters.back() == 0) {
      posix::Fd own(open(mounted("f").c_str(), O_RDWR));
      _exit(flock(own.get(), LOCK_SH) ? 1 : 0);
    }
  }
  usleep(100000);
  EXPECT_EQ(access(mounted("f").c_str(), F_OK), 0);
  EXPECT_EQ(waitpid(waiters[0], nullptr, WNOHANG), 0);
  ASSERT_EQ(flock(direct_.get(), LOCK_UN), 0);
  for (pid_t waiter : waiters) {
    int status = 0;
    EXPECT_EQ(waitpid(waiter, &status, 0), waiter);
    EXPECT_EQ(status, 0);
  }
}

TEST_F(Locks, AWaitEndsBySignal) {
  start("locks=forward");
  ASSERT_EQ(flock(direct_.get(), LOCK_EX), 0);
  struct sigaction wake {
  }, before;
  wake.sa_handler = [](int) {};
  sigaction(SIGUSR1, &wake, &before);
  const pid_t waiter = fork();
  if (waiter == 0) _exit(flock(through_.get(), LOCK_EX) < 0 ? errno : 0);
  sigaction(SIGUSR1, &before, nullptr);
  int status = 0;
  for (int i = 0; i < 500 && waitpid(waiter, &status, WNOHANG) == 0; i++) {
    kill(waiter, SIGUSR1);
    usleep(10000);
  }
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == EINTR) << status;
}

}  // namespace
