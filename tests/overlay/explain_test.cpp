// user.hipfile.explain: an extended attribute of every file that says which way its data would go, and why.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <thread>
#include <tuple>

#include "mounted.h"

namespace {

constexpr char kName[] = "user.hipfile.explain";

class Explain : public overlay::Mounted {
 protected:
  void SetUp() override {
    Mounted::SetUp();
    if (!IsSkipped()) mount();
  }
  static std::string attribute(const std::string& path, const char* name = kName) {
    char value[8192];
    const ssize_t n = getxattr(path.c_str(), name, value, sizeof value);
    return n < 0 ? std::string("errno ") + strerrorname_np(errno)
                 : std::string(value, static_cast<size_t>(n));
  }
  static std::string listed(const std::string& path) {
    char names[1024];
    const ssize_t n = listxattr(path.c_str(), names, sizeof names);
    return n < 0 ? "error" : std::string(names, static_cast<size_t>(n));
  }
  static std::string file_system() {
    const char* kind = getenv("HIPFILE_TEST_FS");
    return kind ? kind : "ext4";
  }
};

TEST_F(Explain, NamesTheRouteTheVolumeAndTheRuntime) {
  make_file("a", pattern(1 << 20));
  const std::string text = attribute(mounted("a"));
  EXPECT_EQ(text.rfind("route: ", 0), 0u) << text;
  EXPECT_NE(text.find(": taken\n"), std::string::npos) << text;
  EXPECT_NE(text.find("peer: "), std::string::npos) << text;
  EXPECT_NE(text.find("volume: regular file, direct I/O in blocks of "), std::string::npos) << text;
  EXPECT_NE(text.find("; " + file_system()), std::string::npos) << text;
  EXPECT_NE(text.find("(loop "), std::string::npos) << text;  // the tests' volume
  EXPECT_NE(text.find("runtime: "), std::string::npos) << text;
}

TEST_F(Explain, IsWhatAisCheckSaysOfTheFileBehind) {
  make_file("a", pattern(1 << 20));
  auto [status, text] = shell(program("ais-check") + " " + mounted("a"));
  EXPECT_NE(status, 2) << text;
  EXPECT_NE(text.find(mounted("a") + "\nroute: "), std::string::npos) << text;
  EXPECT_NE(text.find("; " + file_system()), std::string::npos) << text;
  // Where the path behind is not to be had, the mount is asked.
  if (!has_mount_namespaces()) return;
  const std::string hidden = "unshare -m sh -c 'mount -t tmpfs none " + overlay::Volume::instance().path() +
                             " && " + program("ais-check") + " " + mounted("a") + "'";
  std::tie(status, text) = shell(hidden);
  EXPECT_NE(text.find("runtime: "), std::string::npos) << text;
  EXPECT_NE(text.find("; " + file_system()), std::string::npos) << text;
}

TEST_F(Explain, SaysOnlyItsSizeWhenAskedForThat) {
  make_file("a", pattern(100));
  EXPECT_EQ(getxattr(mounted("a").c_str(), kName, nullptr, 0),
            static_cast<ssize_t>(attribute(mounted("a")).size()));
  char little[4];
  EXPECT_EQ(getxattr(mounted("a").c_str(), kName, little, sizeof little), -1);
  EXPECT_EQ(errno, ERANGE);
}

TEST_F(Explain, StandsForAFileInADirectory) {
  EXPECT_EQ(attribute(mount_).rfind("route: ", 0), 0u) << attribute(mount_);
  ASSERT_EQ(mkdir(mounted("d").c_str(), 0755), 0);
  EXPECT_NE(attribute(mounted("d")).find("volume: regular file"), std::string::npos);
}

TEST_F(Explain, IsNotListedSoThatNobodyCopiesIt) {
  make_file("a", pattern(100));
  ASSERT_EQ(setxattr(mounted("a").c_str(), "user.other", "value", 5, 0), 0);
  EXPECT_EQ(listed(mounted("a")), std::string("user.other\0", 11));
  ASSERT_EQ(shell("cp -a " + mounted("a") + " " + mounted("b")).first, 0);
  EXPECT_EQ(listed(source("b")), std::string("user.other\0", 11));
  EXPECT_EQ(attribute(mounted("b"), "user.other"), "value");
}

TEST_F(Explain, CannotBeSetAndIsNowhereStored) {
  make_file("a", pattern(100));
  EXPECT_EQ(setxattr(mounted("a").c_str(), kName, "x", 1, 0), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(removexattr(mounted("a").c_str(), kName), -1);
  EXPECT_EQ(errno, ENODATA);
  EXPECT_EQ(attribute(source("a")), "errno ENODATA");
  EXPECT_EQ(attribute(mounted("a"), "user.hipfile.explai"), "errno ENODATA");
  EXPECT_EQ(attribute(mounted("a"), "user.hipfile.explained"), "errno ENODATA");
}

TEST_F(Explain, TellsHolesOfTheFile) {
  posix::Fd fd(open(mounted("sparse").c_str(), O_CREAT | O_RDWR, 0644));
  ASSERT_EQ(pwrite(fd.get(), "x", 1, 8 << 20), 1);
  ASSERT_EQ(fsync(fd.get()), 0);
  EXPECT_NE(attribute(mounted("sparse")).find("extents: 8388608 bytes holes"), std::string::npos)
      << attribute(mounted("sparse"));
}

TEST_F(Explain, NeedsTheRightToReadTheFile) {
  make_file("secret", pattern(100));
  ASSERT_EQ(chmod(mounted("secret").c_str(), 0600), 0);
  const std::string path = mounted("secret");
  EXPECT_EQ(in_child([path] {
              if (setgid(12345) < 0 || setuid(12345) < 0) return 2;
              return getxattr(path.c_str(), kName, nullptr, 0) < 0 && errno == EACCES ? 0 : 1;
            }),
            0);
}

TEST_F(Explain, DoesNotWaitForWhoeverHoldsALease) {
  make_file("leased", pattern(100));
  posix::Fd fd(open(source("leased").c_str(), O_RDWR));
  signal(SIGIO, SIG_IGN);  // that the lease is to be given up
  if (fcntl(fd.get(), F_SETLEASE, F_WRLCK) < 0) GTEST_SKIP() << "no lease here";
  EXPECT_EQ(attribute(mounted("leased")).rfind("route: ", 0), 0u);
}

TEST_F(Explain, ServesManyAtOnce) {
  make_file("a", pattern(1 << 20));
  const std::string expected = attribute(mounted("a"));
  std::vector<std::thread> threads;
  std::atomic<int> same{0};
  for (int t = 0; t < 4; t++)
    threads.emplace_back([&] {
      for (int i = 0; i < 50; i++) same += attribute(mounted("a")) == expected;
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(same, 200);
}

TEST_F(Explain, WorksWhereRequestsComeOverIoUring) {
  unmount();
  mount("uring=on");
  if (IsSkipped()) return;
  make_file("a", pattern(100));
  EXPECT_EQ(attribute(mounted("a")).rfind("route: ", 0), 0u) << attribute(mounted("a"));
}

}  // namespace
