#include "process.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <future>
#include <thread>

namespace {

TEST(Process, OfAnyThreadIsTheWholeProcess) {
  auto main = fs::process_of_thread(static_cast<pid_t>(syscall(SYS_gettid)));
  ASSERT_TRUE(main);
  EXPECT_EQ(main->pid, getpid());
  std::thread([&] {
    auto other = fs::process_of_thread(static_cast<pid_t>(syscall(SYS_gettid)));
    EXPECT_EQ(other, main);
  }).join();
}

TEST(Process, IsNothingWhereThereIsNone) {
  EXPECT_FALSE(fs::process_of_thread(0));
  EXPECT_FALSE(fs::process_of_thread(-1));
  EXPECT_FALSE(fs::process_of_thread(0x3ffffff));
}

TEST(Process, DescriptorsAreFetchedByNumber) {
  posix::Fd memory(memfd_create("process_test", MFD_CLOEXEC));
  ASSERT_EQ(write(memory.get(), "x", 1), 1);
  pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  auto process = fs::process_of_thread(child);
  ASSERT_TRUE(process);
  auto fetched = fs::fetch_descriptor(*process, memory.get());
  if (!fetched && fetched.error().code == EPERM) {
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    GTEST_SKIP() << "not allowed to fetch descriptors of other processes";
  }
  ASSERT_TRUE(fetched) << fetched.error().text();
  char byte = 0;
  EXPECT_EQ(pread(fetched->get(), &byte, 1, 0), 1);
  EXPECT_EQ(byte, 'x');
  EXPECT_EQ(fs::fetch_descriptor(*process, 987).error().code, EBADF);
  fs::ProcessKey another = *process;
  another.start_time++;
  EXPECT_EQ(fs::fetch_descriptor(another, memory.get()).error().code, ESRCH);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_EQ(fs::fetch_descriptor(*process, memory.get()).error().code, ESRCH);
}

TEST(ProcessWatcher, TellsWhenAProcessEnds) {
  std::promise<fs::ProcessKey> ended;
  fs::ProcessWatcher watcher([&](const fs::ProcessKey& p) { ended.set_value(p); });
  pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  auto process = fs::process_of_thread(child);
  ASSERT_TRUE(process);
  EXPECT_TRUE(watcher.watch(*process));
  EXPECT_TRUE(watcher.watch(*process));
  kill(child, SIGKILL);
  EXPECT_EQ(ended.get_future().get(), *process);
  waitpid(child, nullptr, 0);
  EXPECT_FALSE(watcher.watch(*process));
}

}  // namespace
