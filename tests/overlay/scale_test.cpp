// Many files: the daemon's descriptors and memory stay bounded, and come back.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "mounted.h"

namespace {

class Scale : public overlay::Mounted {
 protected:
  size_t descriptors() const { return entries("fd"); }
  size_t threads() const { return entries("task"); }
  // Of what /proc lists of the daemon.
  size_t entries(const std::string& what) const {
    size_t n = 0;
    for (const auto& entry :
         std::filesystem::directory_iterator("/proc/" + std::to_string(daemon()) + "/" + what))
      n += !entry.path().empty();
    return n;
  }
  // Directories with files, some with two names.
  void make_tree(int directories, int files) {
    for (int d = 0; d < directories; d++) {
      const std::string directory = "d" + std::to_string(d);
      ASSERT_EQ(mkdir(source(directory).c_str(), 0755), 0);
      for (int f = 0; f < files; f++) make_file(directory + "/f" + std::to_string(f), {});
      ASSERT_EQ(link(source(directory + "/f0").c_str(), source(directory + "/twin").c_str()), 0);
    }
  }
  // Visits everything with its attributes, as ls -lR does.
  size_t walk() const {
    size_t n = 0;
    struct stat st;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(mount_))
      n += lstat(entry.path().c_str(), &st) == 0;
    return n;
  }
};

TEST_F(Scale, DescriptorsStayBelowTheLimitAndEveryFileStaysUsable) {
  make_tree(20, 500);
  mount("fds=100,cache=always");
  const size_t before = descriptors();
  EXPECT_EQ(walk(), 20u * 502u);
  EXPECT_LE(descriptors(),
            before + 200 + 20);  // directories may have twice as many, and threads some of their own
  for (int d = 0; d < 20; d++) {
    const std::string directory = "d" + std::to_string(d);
    posix::Fd fd(open(mounted(directory + "/f499").c_str(), O_RDWR));
    ASSERT_TRUE(fd) << strerror(errno);
    ASSERT_EQ(write(fd.get(), "x", 1), 1);
    ASSERT_EQ(unlink(mounted(directory + "/f499").c_str()), 0);
    ASSERT_EQ(write(fd.get(), "y", 1), 1) << "the file has no name any more, but is open";
    struct stat st, twin;
    ASSERT_EQ(fstat(fd.get(), &st), 0);
    EXPECT_EQ(st.st_size, 2);
    ASSERT_EQ(chmod(mounted(directory + "/f0").c_str(), 0600), 0);
    ASSERT_EQ(stat(mounted(directory + "/twin").c_str(), &twin), 0);
    EXPECT_EQ(twin.st_mode & 0777, 0600u) << "two names, one file";
  }
}

TEST_F(Scale, AFileWhoseNameGoesStaysUsableForWhoIsInIt) {
  ASSERT_EQ(mkdir(source("d").c_str(), 0755), 0);
  make_file("f", {'1'});
  mount("fds=0");
  posix::Fd handle(open(mounted("f").c_str(), O_PATH)), directory(open(mounted("d").c_str(), O_PATH));
  ASSERT_EQ(unlink(mounted("f").c_str()), 0);
  ASSERT_EQ(rmdir(mounted("d").c_str()), 0);
  struct stat st;
  ASSERT_EQ(fstat(handle.get(), &st), 0) << strerror(errno);
  EXPECT_EQ(st.st_nlink, 0u);
  ASSERT_EQ(fstat(directory.get(), &st), 0) << strerror(errno);
  posix::Fd again(open(posix::proc_path(handle.get()).c_str(), O_RDONLY));
  char byte;
  EXPECT_EQ(read(again.get(), &byte, 1), 1);
}

// What a file that is open has of attributes goes to it and no other, whatever became of its name.
TEST_F(Scale, AttributesOfAnOpenFileAreItsOwnWhateverItsNameIsByNow) {
  for (const bool through_mount : {true, false}) {
    make_file("f", {'o'});
    make_file("next", {'n'});
    mount("fds=0");
    posix::Fd old(open(mounted("f").c_str(), O_WRONLY)), kept(open(source("f").c_str(), O_RDONLY));
    ASSERT_TRUE(old) << strerror(errno);
    const auto path = [&](const char* name) { return through_mount ? mounted(name) : source(name); };
    const auto change = [&](mode_t mode, time_t seconds) {
      const timespec times[2] = {{seconds, 0}, {seconds, 0}};
      const char value = static_cast<char>(mode);
      ASSERT_EQ(fchmod(old.get(), mode), 0) << strerror(errno);
      ASSERT_EQ(fchown(old.get(), mode, mode + 1), 0) << strerror(errno);
      ASSERT_EQ(futimens(old.get(), times), 0) << strerror(errno);
      ASSERT_EQ(fsetxattr(old.get(), "user.x", &value, 1, 0), 0) << strerror(errno);
      char read = 0;
      EXPECT_EQ(fgetxattr(old.get(), "user.x", &read, 1), 1) << strerror(errno);
      EXPECT_EQ(read, value);
      struct stat st;
      ASSERT_EQ(fstat(kept.get(), &st), 0);
      EXPECT_EQ(st.st_mode & 0777, mode);
      EXPECT_EQ(st.st_uid, mode);
      EXPECT_EQ(st.st_gid, mode + 1);
      EXPECT_EQ(st.st_mtime, seconds);
    };
    change(0600, 1000);
    ASSERT_EQ(rename(path("next").c_str(), path("f").c_str()), 0);
    change(0640, 2000);
    struct stat st;
    ASSERT_EQ(stat(source("f").c_str(), &st), 0);
    EXPECT_EQ(st.st_size, 1);
    EXPECT_EQ(st.st_uid, 0u) << "the new file is as it was";
    ASSERT_EQ(unlink(path("f").c_str()), 0);
    change(0400, 3000);
    old = posix::Fd();
    unmount();
  }
}

TEST_F(Scale, AFileThatWasWrittenCanBeRunAlthoughAReaderHasItStill) {
  mount("fds=0");
  const size_t before = descriptors();
  ASSERT_EQ(shell("cp /bin/true " + source("program")).first, 0);
  posix::Fd writer(open(mounted("program").c_str(), O_WRONLY)),
      reader(open(mounted("program").c_str(), O_RDONLY));
  ASSERT_EQ(fchmod(writer.get(), 0755), 0);
  const auto run = [this] {
    return in_child([this] {
      execl(source("program").c_str(), "program", nullptr);
      return errno == ETXTBSY ? 26 : 1;
    });
  };
  EXPECT_EQ(run(), 26) << "it is being written";
  writer = posix::Fd();
  int status = 26;
  for (int i = 0; i < 200 && (status = run()) == 26; i++) usleep(10000);  // nobody waits for a release
  EXPECT_EQ(status, 0);
  reader = posix::Fd();
  size_t left = 0;
  for (int i = 0; i < 200 && (left = descriptors()) > before; i++) usleep(10000);
  EXPECT_LE(left, before);
}

TEST_F(Scale, AFileHasItsOwnAttributesAlthoughItsNameIsTakenMeanwhile) {
  make_file("f", {'1'});
  make_file("other", {'2', '2'});
  mount("fds=0,cache=0.001");
  std::atomic<bool> done{false};
  std::thread taker([&] {
    while (!done)
      syscall(SYS_renameat2, AT_FDCWD, source("f").c_str(), AT_FDCWD, source("other").c_str(),
              RENAME_EXCHANGE);
  });
  int strangers = 0;
  for (int i = 0; i < 10000; i++) {
    posix::Fd fd(open(mounted("f").c_str(), O_PATH));
    struct stat st;  // as the lookup told it, most of the time
    ASSERT_EQ(fstat(fd.get(), &st), 0);
    posix::Fd readable(open(posix::proc_path(fd.get()).c_str(), O_RDONLY));
    char bytes[3];
    strangers += read(readable.get(), bytes, sizeof bytes) != st.st_size || bytes[0] - '0' != st.st_size;
  }
  done = true;
  taker.join();
  EXPECT_EQ(strangers, 0);
}

TEST_F(Scale, ANumberThatIsGivenToANewFileIsANewFile) {
  mount("fds=0,cache=always");
  struct stat old, fresh;
  for (int i = 0; i < 50; i++) {
    make_file("old", {'o'});
    ASSERT_EQ(stat(mounted("old").c_str(), &old), 0);
    ASSERT_EQ(unlink(source("old").c_str()), 0);
    make_file("new" + std::to_string(i), {'n', 'n'});  // may get the number
    ASSERT_EQ(stat(mounted("new" + std::to_string(i)).c_str(), &fresh), 0);
    EXPECT_EQ(fresh.st_size, 2);
    unlink(mounted("old").c_str());  // makes the kernel look again
  }
}

// Each fsync keeps a thread of the daemon for as long as the disk takes.
TEST_F(Scale, ReceivingThreadsComeAndGoWithTheRequests) {
  mount("uring=off,cache=never");
  struct stat st;
  for (int i = 0; i < 20; i++) stat(mounted("absent").c_str(), &st);
  const size_t before = threads();
  size_t most = 0;
  for (int round = 0; round < 20 && most < before + 3; round++) {
    std::vector<std::thread> clients;
    std::atomic<int> busy{8};
    for (int i = 0; i < 8; i++)
      clients.emplace_back([&, i] {
        posix::Fd fd(open(mounted("f" + std::to_string(i)).c_str(), O_CREAT | O_WRONLY, 0600));
        for (int n = 0; n < 20; n++) {
          EXPECT_EQ(pwrite(fd.get(), "x", 1, n * 4096), 1);
          EXPECT_EQ(fsync(fd.get()), 0);
        }
        busy--;
      });
    for (; busy > 0; usleep(1000)) most = std::max(most, threads());
    for (auto& client : clients) client.join();
  }
  EXPECT_GE(most, before + 3);
  size_t left = most;
  for (int i = 0; i < 1500 && left > before + 1; i++, usleep(10000)) {  // it takes three seconds
    stat(mounted("absent").c_str(), &st);
    left = threads();
  }
  EXPECT_LE(left, before + 1);
}

TEST_F(Scale, WhatIsForgottenIsGivenBack) {
  make_tree(5, 200);
  mount("cache=always");
  const size_t before = descriptors();
  EXPECT_EQ(walk(), 5u * 202u);
  EXPECT_GT(descriptors(), before + 900);
  std::ofstream("/proc/sys/vm/drop_caches") << "2";
  size_t left = 0;
  for (int i = 0; i < 200 && (left = descriptors()) > before + 50; i++) usleep(20000);
  EXPECT_LE(left, before + 50);
}

}  // namespace
