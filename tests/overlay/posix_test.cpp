// Ordinary POSIX through the mount, with and without kernel passthrough.
#include <dirent.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <set>
#include <thread>

#include "mounted.h"

namespace {

class Posix : public overlay::Mounted, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    Mounted::SetUp();
    if (!IsSkipped()) mount(GetParam());
  }
  // Rights and set-id bits, as the source has them.
  mode_t mode_of(const std::string& name) const {
    struct stat st {};
    EXPECT_EQ(stat(source(name).c_str(), &st), 0);
    return st.st_mode & 07777;
  }
};

TEST_P(Posix, FilesAreTheSameOnBothSides) {
  const auto bytes = pattern(3'000'001);
  make_file("a", bytes);
  posix::Fd fd(open(mounted("a").c_str(), O_RDONLY));
  ASSERT_TRUE(fd);
  std::vector<char> got(bytes.size() + 10);
  size_t done = 0;
  for (ssize_t n; (n = read(fd.get(), got.data() + done, got.size() - done)) > 0;)
    done += static_cast<size_t>(n);
  got.resize(done);
  EXPECT_EQ(got, bytes);
  struct stat a, b;
  ASSERT_EQ(stat(source("a").c_str(), &a), 0);
  ASSERT_EQ(stat(mounted("a").c_str(), &b), 0);
  EXPECT_EQ(a.st_ino, b.st_ino);
  EXPECT_EQ(a.st_size, b.st_size);
  EXPECT_EQ(a.st_mode, b.st_mode);
  EXPECT_EQ(a.st_blocks, b.st_blocks);
  EXPECT_EQ(a.st_mtim.tv_nsec, b.st_mtim.tv_nsec);
}

TEST_P(Posix, WritesAppendsAndTruncates) {
  {
    posix::Fd fd(open(mounted("w").c_str(), O_RDWR | O_CREAT | O_EXCL, 0640));
    ASSERT_TRUE(fd);
    ASSERT_EQ(write(fd.get(), "hello", 5), 5);
    ASSERT_EQ(pwrite(fd.get(), "J", 1, 0), 1);
    struct stat st;
    ASSERT_EQ(fstat(fd.get(), &st), 0);
    EXPECT_EQ(st.st_size, 5);
    ASSERT_EQ(fsync(fd.get()), 0);
    ASSERT_EQ(ftruncate(fd.get(), 4), 0);
    ASSERT_EQ(fstat(fd.get(), &st), 0);
    EXPECT_EQ(st.st_size, 4);
  }
  {
    posix::Fd fd(open(mounted("w").c_str(), O_WRONLY | O_APPEND));
    ASSERT_EQ(write(fd.get(), "o!", 2), 2);
  }
  EXPECT_EQ(file_bytes("w"), std::vector<char>({'J', 'e', 'l', 'l', 'o', '!'}));
  { posix::Fd fd(open(mounted("w").c_str(), O_WRONLY | O_TRUNC)); }
  EXPECT_TRUE(file_bytes("w").empty());
  EXPECT_EQ(open(mounted("w").c_str(), O_CREAT | O_EXCL | O_WRONLY, 0600), -1);
  EXPECT_EQ(errno, EEXIST);
}

TEST_P(Posix, MapsFiles) {
  make_file("m", pattern(8192));
  posix::Fd fd(open(mounted("m").c_str(), O_RDWR));
  char* p = static_cast<char*>(mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0));
  ASSERT_NE(p, MAP_FAILED);
  EXPECT_EQ(memcmp(p, pattern(8192).data(), 8192), 0);
  p[100] = 'X';
  ASSERT_EQ(msync(p, 8192, MS_SYNC), 0);
  munmap(p, 8192);
  fd.reset();
  EXPECT_EQ(file_bytes("m")[100], 'X');
}

TEST_P(Posix, DirectIoReadsAndWrites) {
  make_file("d", pattern(1 << 20));
  posix::Fd fd(open(mounted("d").c_str(), O_RDWR | O_DIRECT));
  ASSERT_TRUE(fd);
  char* p = static_cast<char*>(aligned_alloc(4096, 65536));
  ASSERT_EQ(pread(fd.get(), p, 65536, 65536), 65536);
  EXPECT_EQ(memcmp(p, pattern(1 << 20).data() + 65536, 65536), 0);
  memset(p, 'z', 65536);
  ASSERT_EQ(pwrite(fd.get(), p, 65536, 0), 65536);
  free(p);
  fd.reset();
  EXPECT_EQ(file_bytes("d")[65535], 'z');
  EXPECT_EQ(file_bytes("d")[65536], pattern(1 << 20)[65536]);
}

TEST_P(Posix, OneInodeMayBeOpenInEveryWayAtOnce) {
  make_file("f", pattern(10000));
  std::vector<posix::Fd> fds;
  for (int flags :
       {O_RDONLY, O_RDWR | O_DIRECT, O_RDWR, O_WRONLY | O_APPEND, O_RDONLY | O_DIRECT, O_RDONLY}) {
    fds.emplace_back(open(mounted("f").c_str(), flags));
    ASSERT_TRUE(fds.back()) << strerror(errno) << " for " << flags;
  }
  std::rotate(fds.begin(), fds.begin() + 2, fds.end());
  while (!fds.empty()) {
    fds.pop_back();
    posix::Fd again(open(mounted("f").c_str(), O_RDWR));
    ASSERT_TRUE(again);
    char byte;
    EXPECT_EQ(pread(again.get(), &byte, 1, 0), 1);
  }
}

TEST_P(Posix, NamesAreMadeMovedAndRemoved) {
  ASSERT_EQ(mkdir(mounted("dir").c_str(), 0750), 0);
  make_file("dir/a", {'a'});
  ASSERT_EQ(link(mounted("dir/a").c_str(), mounted("b").c_str()), 0);
  struct stat a, b;
  ASSERT_EQ(stat(mounted("dir/a").c_str(), &a), 0);
  ASSERT_EQ(stat(mounted("b").c_str(), &b), 0);
  EXPECT_EQ(a.st_ino, b.st_ino);
  EXPECT_EQ(b.st_nlink, 2u);
  ASSERT_EQ(symlink("dir/a", mounted("s").c_str()), 0);
  char target[10] = {};
  ASSERT_EQ(readlink(mounted("s").c_str(), target, sizeof target), 5);
  EXPECT_STREQ(target, "dir/a");
  ASSERT_EQ(mkfifo(mounted("p").c_str(), 0600), 0);
  ASSERT_EQ(stat(source("p").c_str(), &a), 0);
  EXPECT_TRUE(S_ISFIFO(a.st_mode));
  ASSERT_EQ(rename(mounted("b").c_str(), mounted("dir/c").c_str()), 0);
  EXPECT_EQ(access(source("dir/c").c_str(), F_OK), 0);
  EXPECT_EQ(
      renameat2(AT_FDCWD, mounted("dir/c").c_str(), AT_FDCWD, mounted("dir/a").c_str(), RENAME_NOREPLACE),
      -1);
  EXPECT_EQ(errno, EEXIST);
  EXPECT_EQ(rmdir(mounted("dir").c_str()), -1);
  EXPECT_EQ(errno, ENOTEMPTY);
  ASSERT_EQ(unlink(mounted("dir/a").c_str()), 0);
  ASSERT_EQ(unlink(mounted("dir/c").c_str()), 0);
  ASSERT_EQ(rmdir(mounted("dir").c_str()), 0);
  EXPECT_EQ(access(source("dir").c_str(), F_OK), -1);
}

TEST_P(Posix, UnlinkedFilesStayUsableWhileOpen) {
  make_file("u", pattern(100));
  posix::Fd fd(open(mounted("u").c_str(), O_RDWR));
  ASSERT_EQ(unlink(mounted("u").c_str()), 0);
  char byte;
  EXPECT_EQ(pread(fd.get(), &byte, 1, 99), 1);
  EXPECT_EQ(pwrite(fd.get(), "x", 1, 100), 1);
  struct stat st;
  ASSERT_EQ(fstat(fd.get(), &st), 0);
  EXPECT_EQ(st.st_nlink, 0u);
  EXPECT_EQ(st.st_size, 101);
}

TEST_P(Posix, ListsLargeDirectoriesCompletely) {
  std::set<std::string> expected;
  for (int i = 0; i < 3000; i++) {
    std::string name = "file-with-a-long-name-" + std::to_string(i);
    make_file(name, {});
    expected.insert(name);
  }
  std::set<std::string> listed;
  DIR* directory = opendir(mount_.c_str());
  ASSERT_NE(directory, nullptr);
  while (dirent* e = readdir(directory)) {
    if (e->d_name[0] == '.') continue;
    EXPECT_TRUE(listed.insert(e->d_name).second) << e->d_name;
  }
  closedir(directory);
  EXPECT_EQ(listed, expected);
}

TEST_P(Posix, AttributesAndExtendedAttributesPassThrough) {
  make_file("x", {'1'});
  ASSERT_EQ(chmod(mounted("x").c_str(), 0604), 0);
  ASSERT_EQ(chown(mounted("x").c_str(), 1234, 5678), 0);
  timespec times[2] = {{1000, 1}, {2000, 2}};
  ASSERT_EQ(utimensat(AT_FDCWD, mounted("x").c_str(), times, 0), 0);
  ASSERT_EQ(setxattr(mounted("x").c_str(), "user.k", "value", 5, 0), 0);
  struct stat st;
  ASSERT_EQ(stat(source("x").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 07777, 0604u);
  EXPECT_EQ(st.st_uid, 1234u);
  EXPECT_EQ(st.st_gid, 5678u);
  EXPECT_EQ(st.st_mtim.tv_sec, 2000);
  EXPECT_EQ(st.st_mtim.tv_nsec, 2);
  char value[10] = {};
  ASSERT_EQ(getxattr(source("x").c_str(), "user.k", value, sizeof value), 5);
  EXPECT_STREQ(value, "value");
  EXPECT_EQ(getxattr(mounted("x").c_str(), "user.k", value, 2), -1);
  EXPECT_EQ(errno, ERANGE);
  char list[100];
  EXPECT_GE(listxattr(mounted("x").c_str(), list, sizeof list), 7);
  ASSERT_EQ(removexattr(mounted("x").c_str(), "user.k"), 0);
  EXPECT_EQ(getxattr(mounted("x").c_str(), "user.k", value, sizeof value), -1);
  EXPECT_EQ(errno, ENODATA);
}

TEST_P(Posix, HolesAllocationAndCopies) {
  posix::Fd fd(open(mounted("h").c_str(), O_RDWR | O_CREAT, 0644));
  ASSERT_EQ(fallocate(fd.get(), 0, 0, 1 << 20), 0);
  ASSERT_EQ(pwrite(fd.get(), "x", 1, 5 << 20), 1);
  EXPECT_EQ(lseek(fd.get(), 1 << 20, SEEK_DATA), 5 << 20);
  EXPECT_EQ(lseek(fd.get(), 1 << 20, SEEK_HOLE), 1 << 20);
  ASSERT_EQ(fallocate(fd.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 65536), 0);
  posix::Fd copy(open(mounted("copy").c_str(), O_RDWR | O_CREAT, 0644));
  off_t from = 5 << 20, to = 10;
  EXPECT_EQ(copy_file_range(fd.get(), &from, copy.get(), &to, 1, 0), 1);
  char byte;
  EXPECT_EQ(pread(copy.get(), &byte, 1, 10), 1);
  EXPECT_EQ(byte, 'x');
  struct statvfs a, b;
  ASSERT_EQ(statvfs(source_.c_str(), &a), 0);
  ASSERT_EQ(statvfs(mount_.c_str(), &b), 0);
  EXPECT_EQ(a.f_blocks, b.f_blocks);
}

TEST_P(Posix, ACopyShowsInTheAccessTimeOfItsSource) {
  make_file("from", std::vector<char>(5000, 'x'));
  make_file("to", {});
  posix::Fd from(open(mounted("from").c_str(), O_RDONLY)), to(open(mounted("to").c_str(), O_WRONLY));
  const timespec long_ago[2] = {{1000, 0}, {2000, 0}};
  ASSERT_EQ(futimens(from.get(), long_ago), 0);
  off_t at = 0, target = 0;
  ASSERT_EQ(copy_file_range(from.get(), &at, to.get(), &target, 5000, 0), 5000);
  struct stat below, shown;
  ASSERT_EQ(stat(source("from").c_str(), &below), 0);
  ASSERT_EQ(fstat(from.get(), &shown), 0);
  EXPECT_EQ(shown.st_atim.tv_sec, below.st_atim.tv_sec);
  EXPECT_EQ(shown.st_atim.tv_nsec, below.st_atim.tv_nsec);
}

TEST_P(Posix, FilesBelongToWhoMakesThem) {
  ASSERT_EQ(chmod(mount_.c_str(), 01777), 0);
  make_file("secret", {'s'});
  ASSERT_EQ(chmod(source("secret").c_str(), 0600), 0);
  EXPECT_EQ(in_child([&] {
              if (setgid(1001) || setuid(1000)) return 9;
              umask(027);
              int fd = open(mounted("mine").c_str(), O_CREAT | O_RDWR, 0666);
              if (fd < 0 || write(fd, "x", 1) != 1) return 1;
              if (mkdir(mounted("mydir").c_str(), 0777) || symlink("x", mounted("mylink").c_str())) return 2;
              if (open(mounted("secret").c_str(), O_RDONLY) >= 0 || errno != EACCES) return 3;
              return 0;
            }),
            0);
  struct stat st;
  ASSERT_EQ(stat(source("mine").c_str(), &st), 0);
  EXPECT_EQ(st.st_uid, 1000u);
  EXPECT_EQ(st.st_gid, 1001u);
  EXPECT_EQ(st.st_mode & 0777, 0640u);
  ASSERT_EQ(lstat(source("mylink").c_str(), &st), 0);
  EXPECT_EQ(st.st_uid, 1000u);
  ASSERT_EQ(stat(source("mydir").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0750u);
}

TEST_P(Posix, ChangingToNoNewOwnerIsAChangeAndTakesSetIdBitsAway) {
  constexpr auto kUnchanged = static_cast<uid_t>(-1);
  make_file("f", {'1'});
  ASSERT_EQ(mkdir(source("d").c_str(), 0755), 0);
  for (const char* name : {"f", "d"}) {
    ASSERT_EQ(chmod(source(name).c_str(), 06755), 0);
    struct stat before, after, below;
    ASSERT_EQ(stat(source(name).c_str(), &before), 0);
    usleep(20000);  // longer than a tick of the file system's clock
    ASSERT_EQ(chown(mounted(name).c_str(), kUnchanged, kUnchanged), 0);
    ASSERT_EQ(stat(mounted(name).c_str(), &after), 0);
    ASSERT_EQ(stat(source(name).c_str(), &below), 0);
    EXPECT_NE(std::pair(after.st_ctim.tv_sec, after.st_ctim.tv_nsec),
              std::pair(before.st_ctim.tv_sec, before.st_ctim.tv_nsec));
    EXPECT_EQ(after.st_ctim.tv_nsec, below.st_ctim.tv_nsec);
    EXPECT_EQ(after.st_mode, below.st_mode);
  }
  EXPECT_EQ(mode_of("f"), 0755u);
  EXPECT_EQ(mode_of("d"), 06755u);
}

TEST_P(Posix, EachFileIsMadeWithItsMakersMask) {
  const mode_t before = umask(0);
  for (int i = 0; i < 40; i++) {
    const mode_t mask = i % 3 == 0 ? 077 : i % 3 == 1 ? 0 : 022;
    const std::string name = "f" + std::to_string(i);
    umask(mask);
    posix::Fd(open(mounted(name).c_str(), O_CREAT | O_WRONLY, 0666));
    symlink("target", mounted(name + "s").c_str());
    mkdir(mounted(name + "d").c_str(), 0777);
    EXPECT_EQ(mode_of(name), 0666 & ~mask);
    EXPECT_EQ(mode_of(name + "d"), 0777 & ~mask);
  }
  umask(before);
}

TEST_P(Posix, AStrangersWriteTakesSetIdBitsAway) {
  make_file("suid", {'1'});
  ASSERT_EQ(chmod(source("suid").c_str(), 06777), 0);
  EXPECT_EQ(in_child([&] {
              if (setgid(1001) || setuid(1000)) return 9;
              int fd = open(mounted("suid").c_str(), O_WRONLY);
              return fd >= 0 && write(fd, "2", 1) == 1 ? 0 : 1;
            }),
            0);
  EXPECT_EQ(mode_of("suid"), 0777u);
}

TEST_P(Posix, FilesWithoutANameGetOneLater) {
  posix::Fd fd(open(mount_.c_str(), O_TMPFILE | O_RDWR, 0640));
  ASSERT_TRUE(fd) << strerror(errno);
  ASSERT_EQ(write(fd.get(), "late", 4), 4);
  struct stat st;
  ASSERT_EQ(fstat(fd.get(), &st), 0);
  EXPECT_EQ(st.st_nlink, 0u);
  ASSERT_EQ(linkat(AT_FDCWD, posix::proc_path(fd.get()).c_str(), AT_FDCWD, mounted("named").c_str(),
                   AT_SYMLINK_FOLLOW),
            0);
  EXPECT_EQ(file_bytes("named"), std::vector<char>({'l', 'a', 't', 'e'}));
  ASSERT_EQ(fstat(fd.get(), &st), 0);
  EXPECT_EQ(st.st_nlink, 1u);
  EXPECT_EQ(st.st_mode & 0777, 0640u);
}

TEST_P(Posix, AMappingOfAFileOpenForAppendingChangesItInPlace) {
  make_file("m", pattern(8192));
  posix::Fd fd(open(mounted("m").c_str(), O_RDWR | O_APPEND));
  char* p = static_cast<char*>(mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0));
  ASSERT_NE(p, MAP_FAILED);
  p[5000] = 'X';
  ASSERT_EQ(msync(p, 8192, MS_SYNC), 0);
  munmap(p, 8192);
  const auto bytes = file_bytes("m");
  ASSERT_EQ(bytes.size(), 8192u);
  EXPECT_EQ(bytes[5000], 'X');
}

TEST_P(Posix, SetIdBitsGivenBetweenTwoOpensAreRootsToKeep) {
  make_file("tool", {'1'});
  { posix::Fd fd(open(mounted("tool").c_str(), O_RDONLY)); }
  ASSERT_EQ(chmod(mounted("tool").c_str(), 04755), 0);
  posix::Fd fd(open(mounted("tool").c_str(), O_WRONLY));
  ASSERT_EQ(write(fd.get(), "2", 1), 1);
  EXPECT_EQ(mode_of("tool"), 04755u);
}

TEST_P(Posix, StatxTellsWhenAFileWasMade) {
  make_file("x", {'1'});
  struct statx a, b;
  ASSERT_EQ(statx(AT_FDCWD, source("x").c_str(), 0, STATX_BASIC_STATS | STATX_BTIME, &a), 0);
  ASSERT_EQ(statx(AT_FDCWD, mounted("x").c_str(), 0, STATX_BASIC_STATS | STATX_BTIME, &b), 0);
  ASSERT_TRUE(b.stx_mask & STATX_BTIME);
  EXPECT_EQ(a.stx_btime.tv_sec, b.stx_btime.tv_sec);
  EXPECT_EQ(a.stx_btime.tv_nsec, b.stx_btime.tv_nsec);
  EXPECT_EQ(a.stx_ino, b.stx_ino);
}

TEST_P(Posix, AGroupsWriteKeepsItsLockingBit) {
  make_file("lockable", {'1'});
  ASSERT_EQ(chown(source("lockable").c_str(), 1000, 1001), 0);
  ASSERT_EQ(chmod(source("lockable").c_str(), 02666), 0);
  EXPECT_EQ(in_child([&] {
              if (setgid(1001) || setuid(1000)) return 9;
              int fd = open(mounted("lockable").c_str(), O_WRONLY);
              return fd >= 0 && write(fd, "2", 1) == 1 ? 0 : errno;
            }),
            0);
  EXPECT_EQ(mode_of("lockable"), 02666u);
}

TEST_P(Posix, RootsWriteKeepsSetIdBits) {
  make_file("tool", {'1'});
  ASSERT_EQ(chmod(source("tool").c_str(), 06755), 0);
  posix::Fd reader(open(mounted("tool").c_str(), O_RDONLY)), fd(open(mounted("tool").c_str(), O_WRONLY));
  ASSERT_EQ(write(fd.get(), "2", 1), 1);
  EXPECT_EQ(mode_of("tool"), 06755u);
}

TEST_P(Posix, RootsChangeOfAFileTakesItsCapabilitiesAlone) {
  vfs_cap_data capabilities{};
  capabilities.magic_etc = VFS_CAP_REVISION_2 | VFS_CAP_FLAGS_EFFECTIVE;
  capabilities.data[0].permitted = 1 << CAP_NET_RAW;
  auto with_bits_and_capabilities = [&](const std::string& name) {
    make_file(name, {'1'});
    EXPECT_EQ(chmod(source(name).c_str(), 06755), 0);
    EXPECT_EQ(setxattr(source(name).c_str(), "security.capability", &capabilities, sizeof capabilities, 0),
              0);
    return posix::Fd(open(mounted(name).c_str(), O_WRONLY));
  };
  EXPECT_EQ(write(with_bits_and_capabilities("written").get(), "2", 1), 1);
  EXPECT_EQ(fallocate(with_bits_and_capabilities("allocated").get(), 0, 0, 8192), 0);
  for (const char* name : {"written", "allocated"}) {
    EXPECT_EQ(mode_of(name), 06755u) << name;
    EXPECT_EQ(getxattr(source(name).c_str(), "security.capability", nullptr, 0), -1) << name;
  }

  with_bits_and_capabilities("owned");
  EXPECT_EQ(removexattr(mounted("owned").c_str(), "security.capability"), 0);
  EXPECT_EQ(chown(mounted("owned").c_str(), static_cast<uid_t>(-1), static_cast<gid_t>(-1)), 0);
  EXPECT_EQ(mode_of("owned"), 0755u);
}

TEST_P(Posix, TrustedNamesAreForAdministrators) {
  make_file("t", {'1'});
  ASSERT_EQ(setxattr(source("t").c_str(), "trusted.secret", "v", 1, 0), 0);
  ASSERT_EQ(setxattr(source("t").c_str(), "user.open", "v", 1, 0), 0);
  auto names = [&] {
    char list[200];
    const ssize_t n = listxattr(mounted("t").c_str(), list, sizeof list);
    return std::string(list, static_cast<size_t>(std::max<ssize_t>(n, 0)));
  };
  EXPECT_NE(names().find("trusted.secret"), std::string::npos);
  EXPECT_EQ(in_child([&] {
              if (setgid(1001) || setuid(1000)) return 9;
              const std::string seen = names();
              if (seen.find("trusted.") != std::string::npos) return 1;
              return seen.find("user.open") == std::string::npos ? 2 : 0;
            }),
            0);
}

// Listing and closing at once from many sides: the daemon holds no lock of what is closed.
TEST_P(Posix, DirectoriesMayCloseWhileTheyAreListed) {
  for (int i = 0; i < 20; i++) make_file("f" + std::to_string(i), {});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; t++)
    threads.emplace_back([&] {
      for (int i = 0; i < 400; i++) {
        DIR* d = opendir(mount_.c_str());
        if (!d) return;
        readdir(d);
        closedir(d);
      }
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(access(mounted("f0").c_str(), F_OK), 0);
}

// The kernel keeps what it was told of a directory for the next one who lists it, and asks all the same when it changed.
TEST_P(Posix, ADirectoryThatWasJustListedServesWhateverElseIsAsked) {
  auto names_in = [](DIR* directory) {
    std::set<std::string> names;
    while (const dirent* e = readdir(directory)) names.insert(e->d_name);
    return names;
  };
  auto opened = [&] { return std::unique_ptr<DIR, int (*)(DIR*)>(opendir(mounted("d").c_str()), closedir); };
  ASSERT_EQ(mkdir(source("d").c_str(), 0755), 0);
  make_file("d/a", {'a'});
  for (int i = 0; i < 2; i++) EXPECT_EQ(names_in(opened().get()), (std::set<std::string>{".", "..", "a"}));
  auto directory = opened(), removed = opened();
  ASSERT_TRUE(directory && removed);
  EXPECT_EQ(fsync(dirfd(directory.get())), 0);
  EXPECT_EQ(overlay::info(dirfd(directory.get())).version, HIPFILE_FUSE_ABI_VERSION);
  ASSERT_TRUE(posix::Fd(open(mounted("d/b").c_str(), O_CREAT | O_WRONLY, 0644)));
  EXPECT_EQ(names_in(directory.get()), (std::set<std::string>{".", "..", "a", "b"}));
  ASSERT_EQ(unlink(mounted("d/a").c_str()), 0);
  rewinddir(directory.get());
  EXPECT_EQ(names_in(directory.get()), (std::set<std::string>{".", "..", "b"}));
  ASSERT_EQ(unlink(mounted("d/b").c_str()), 0);
  ASSERT_EQ(rmdir(mounted("d").c_str()), 0);
  errno = 0;
  EXPECT_EQ(names_in(removed.get()), std::set<std::string>());
  EXPECT_EQ(errno, 0);
}

TEST_P(Posix, ListingADirectoryShowsInItsAccessTime) {
  ASSERT_EQ(mkdir(source("d").c_str(), 0755), 0);
  auto list = [&] {
    DIR* directory = opendir(mounted("d").c_str());
    while (directory && readdir(directory)) {
    }
    if (directory) closedir(directory);
  };
  for (int i = 0; i < 2; i++) list();
  const timespec long_ago[2] = {{1000, 0}, {0, UTIME_OMIT}};
  ASSERT_EQ(utimensat(AT_FDCWD, mounted("d").c_str(), long_ago, 0), 0);
  list();
  struct stat below, through;
  ASSERT_EQ(stat(source("d").c_str(), &below), 0);
  ASSERT_EQ(stat(mounted("d").c_str(), &through), 0);
  EXPECT_EQ(through.st_atim.tv_nsec, below.st_atim.tv_nsec);
}

// Version 2, then user:: rwx, group:: r-x, mask:: rwx, other:: ---, with user 1001 rwx.
constexpr unsigned char kAccessList[] = {2,    0,    0,    0,    1,    0,    7,    0,    0xff, 0xff, 0xff,
                                         0xff, 2,    0,    7,    0,    0xe9, 3,    0,    0,    4,    0,
                                         5,    0,    0xff, 0xff, 0xff, 0xff, 0x10, 0,    7,    0,    0xff,
                                         0xff, 0xff, 0xff, 0x20, 0,    0,    0,    0xff, 0xff, 0xff, 0xff};

TEST_P(Posix, AnAccessListSetByAStrangerToTheGroupTakesSetGroupIdAway) {
  make_file("acl", {'1'});
  ASSERT_EQ(chown(source("acl").c_str(), 1000, 5000), 0);
  ASSERT_EQ(chmod(source("acl").c_str(), 02755), 0);
  EXPECT_EQ(in_child([&] {
              if (setgid(1001) || setuid(1000)) return 9;
              return setxattr(mounted("acl").c_str(), "system.posix_acl_access", kAccessList,
                              sizeof kAccessList, 0)
                         ? errno
                         : 0;
            }),
            0);
  EXPECT_FALSE(mode_of("acl") & S_ISGID);
  // And the list counts: user 1001 may write.
  EXPECT_EQ(in_child([&] {
              if (setgid(2000) || setuid(1001)) return 9;
              return open(mounted("acl").c_str(), O_RDWR) < 0 ? errno : 0;
            }),
            0);
}

INSTANTIATE_TEST_SUITE_P(Mount, Posix,
                         testing::Values("passthrough=on", "passthrough=off", "tag=all", "cache=never",
                                         "cache=always", "fds=0", "uring=on", "uring=on,passthrough=off"),
                         overlay::name_of_options);

}  // namespace
