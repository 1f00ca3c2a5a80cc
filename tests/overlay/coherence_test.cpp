// What is done to the source directly shows through the mount, and the reverse, within the bounds that the README gives.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <set>
#include <thread>

#include "mounted.h"

namespace {

class Coherence : public overlay::Mounted, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    Mounted::SetUp();
    if (!IsSkipped()) mount(GetParam());
  }
  // Changes show after 1 s at the latest; the rest is patience with a busy machine.
  static bool soon(const std::function<bool()>& condition) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return true;
  }
  bool exists(const std::string& name) const { return access(mounted(name).c_str(), F_OK) == 0; }
  std::set<std::string> listed() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(mount_))
      names.insert(entry.path().filename());
    return names;
  }
};

TEST_P(Coherence, ANameThatWasMissedAppears) {
  EXPECT_FALSE(exists("late"));
  EXPECT_FALSE(exists("late"));
  make_file("late", {'1'});
  EXPECT_TRUE(soon([&] { return exists("late"); }));
}

TEST_P(Coherence, ANameThatIsRemovedGoes) {
  make_file("early", {'1'});
  ASSERT_TRUE(soon([&] { return exists("early"); }));
  ASSERT_EQ(unlink(source("early").c_str()), 0);
  EXPECT_TRUE(soon([&] { return !exists("early"); }));
}

TEST_P(Coherence, ANameThatIsReplacedStandsForTheNewFile) {
  make_file("f", {'o', 'l', 'd'});
  struct stat before, after;
  ASSERT_EQ(stat(mounted("f").c_str(), &before), 0);
  make_file("new", {'n', 'e', 'w', '!'});
  ASSERT_EQ(rename(source("new").c_str(), source("f").c_str()), 0);
  EXPECT_TRUE(soon([&] { return stat(mounted("f").c_str(), &after) == 0 && after.st_ino != before.st_ino; }));
  EXPECT_EQ(after.st_size, 4);
}

TEST_P(Coherence, AListingThatWasKeptIsRenewed) {
  for (int i = 0; i < 50; i++) make_file("n" + std::to_string(i), {});
  EXPECT_EQ(listed().size(), 50u);
  EXPECT_EQ(listed().size(), 50u);
  make_file("one-more", {});
  EXPECT_TRUE(soon([&] { return listed().count("one-more") == 1; }));
  ASSERT_EQ(unlink(source("n7").c_str()), 0);
  EXPECT_TRUE(soon([&] { return listed().count("n7") == 0; }));
  // And through the mount, at once.
  ASSERT_EQ(unlink(mounted("n8").c_str()), 0);
  EXPECT_EQ(listed().count("n8"), 0u);
  posix::Fd made(open(mounted("made").c_str(), O_CREAT | O_WRONLY, 0644));
  EXPECT_EQ(listed().count("made"), 1u);
}

TEST_P(Coherence, NewRightsAndSizesShow) {
  make_file("f", {'1'});
  struct stat st;
  ASSERT_EQ(stat(mounted("f").c_str(), &st), 0);
  ASSERT_EQ(chmod(source("f").c_str(), 0711), 0);
  EXPECT_TRUE(soon([&] { return stat(mounted("f").c_str(), &st) == 0 && (st.st_mode & 0777) == 0711; }));
  make_file("f", {'1', '2', '3'});
  EXPECT_TRUE(soon([&] { return stat(mounted("f").c_str(), &st) == 0 && st.st_size == 3; }));
}

TEST_P(Coherence, DirectoriesMovedInTheSourceMove) {
  ASSERT_EQ(mkdir(source("a").c_str(), 0755), 0);
  ASSERT_EQ(mkdir(source("a/deep").c_str(), 0755), 0);
  make_file("a/deep/f", {'1'});
  ASSERT_TRUE(soon([&] { return exists("a/deep/f"); }));
  ASSERT_EQ(rename(source("a").c_str(), source("b").c_str()), 0);
  EXPECT_TRUE(soon([&] { return !exists("a/deep/f") && exists("b/deep/f"); }));
}

TEST_P(Coherence, AFileThatWasMadeIsTheOneThatItsMakerHasAlthoughItsNameIsTakenMeanwhile) {
  make_file("spare", {});
  std::atomic<bool> done{false};
  std::thread taker([&] {
    while (!done) {
      // Something else of the name, as soon as there is something.
      if (syscall(SYS_renameat2, AT_FDCWD, source("spare").c_str(), AT_FDCWD, source("f").c_str(),
                  RENAME_EXCHANGE) == 0)
        rename(source("spare").c_str(), source("taken").c_str());
      posix::Fd spare(open(source("spare").c_str(), O_CREAT | O_WRONLY, 0600));
    }
  });
  int strangers = 0;
  for (int i = 0; i < 1500; i++) {
    unlink(source("f").c_str());
    posix::Fd made(open(mounted("f").c_str(), O_CREAT | O_EXCL | O_RDWR, 0640));
    struct stat st;
    if (made && fstat(made.get(), &st) == 0) strangers += (st.st_mode & 0777) != 0640;
  }
  done = true;
  taker.join();
  EXPECT_EQ(strangers, 0);
}

TEST_P(Coherence, FilesThatAreRemovedInTheSourceGiveTheirSpaceBack) {
  const std::string name = "large";
  make_file(name, pattern(8 << 20));
  { posix::Fd fd(open(mounted(name).c_str(), O_RDONLY)); }
  auto free_bytes = [&] { return std::filesystem::space(source_).free; };
  sync();
  const auto before = free_bytes();
  ASSERT_EQ(unlink(source(name).c_str()), 0);
  EXPECT_TRUE(soon([&] {
    exists(name);
    return free_bytes() >= before + (8 << 20);
  }));
}

INSTANTIATE_TEST_SUITE_P(Mount, Coherence,
                         testing::Values("cache=auto", "cache=0.5", "cache=never", "cache=auto,fds=0"),
                         overlay::name_of_options);

}  // namespace
