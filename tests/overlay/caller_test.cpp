// Who may do what: users on their own data, groups, default access lists, namespaces.
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "mounted.h"

namespace {

constexpr uid_t kNobody = 65534;  // fusermount3 wants a user with a name

class Callers : public overlay::Mounted {};

TEST_F(Callers, SupplementaryGroupsCount) {
  ASSERT_EQ(mkdir(source("team").c_str(), 0770), 0);
  ASSERT_EQ(chown(source("team").c_str(), 0, 4242), 0);
  ASSERT_EQ(chmod(source("team").c_str(), 02770), 0);
  mount();
  const gid_t groups[] = {4242};
  EXPECT_EQ(in_child([&] {
              if (setgroups(1, groups) || setgid(1001) || setuid(1000)) return 9;
              if (open(mounted("team/f").c_str(), O_CREAT | O_WRONLY, 0660) < 0) return errno;
              return mkdir(mounted("team/d").c_str(), 0770) ? errno : 0;
            }),
            0);
  struct stat st;
  ASSERT_EQ(stat(source("team/f").c_str(), &st), 0);
  EXPECT_EQ(st.st_uid, 1000u);
  EXPECT_EQ(st.st_gid, 4242u) << "from the set-group-id directory";
  ASSERT_EQ(stat(source("team/d").c_str(), &st), 0);
  EXPECT_TRUE(st.st_mode & S_ISGID);
}

TEST_F(Callers, StickyDirectoriesProtectTheirFiles) {
  ASSERT_EQ(mkdir(source("tmp").c_str(), 0777), 0);
  ASSERT_EQ(chmod(source("tmp").c_str(), 01777), 0);
  make_file("tmp/mine", {'1'});
  mount();
  EXPECT_EQ(in_child([&] {
              if (setgid(1001) || setuid(1000)) return 9;
              return unlink(mounted("tmp/mine").c_str()) ? errno : 0;
            }),
            EPERM);
}

// The kernel writes for whoever registered the file. Were that root, users could fill what is reserved for root.
TEST_F(Callers, TheReserveIsNotForUsers) {
  const std::string image = directory_ + "/small.img";
  auto [made, out] = shell("truncate -s 64M " + image + " && mkfs.ext4 -q -F -m 20 " + image +
                           " && mount -o loop " + image + " " + source_);
  ASSERT_EQ(made, 0) << out;
  ASSERT_EQ(chmod(source_.c_str(), 0777), 0);
  mount();
  EXPECT_EQ(in_child([&] {
              if (setgid(1001) || setuid(1000)) return 9;
              const std::vector<char> bytes(1 << 20, 'x');
              posix::Fd fd(open(mounted("f").c_str(), O_CREAT | O_WRONLY, 0644));
              while (write(fd.get(), bytes.data(), bytes.size()) > 0) {
              }
              return errno;
            }),
            ENOSPC);
  struct statvfs st;
  EXPECT_EQ(statvfs(source_.c_str(), &st), 0);
  EXPECT_GT(st.f_bfree * st.f_frsize, 5u << 20);
  unmount();
  EXPECT_EQ(shell("umount " + source_).first, 0);
}

TEST_F(Callers, TheDaemonIsItselfAgainAfterEachOfThem) {
  ASSERT_EQ(chmod(source_.c_str(), 0777), 0);
  for (const char* options : {"passthrough=on", "passthrough=off"}) {
    mount(options);
    EXPECT_EQ(in_child([&] {
                if (setgroups(0, nullptr) || setgid(1001) || setuid(1000)) return 9;
                posix::Fd made(open(mounted("f").c_str(), O_CREAT | O_WRONLY, 0644));
                posix::Fd nameless(open(mount_.c_str(), O_TMPFILE | O_RDWR, 0600));
                if (!made || !nameless || mkdir(mounted("d").c_str(), 0755)) return errno;
                made = posix::Fd(open(mounted("f").c_str(), O_TRUNC | O_WRONLY));
                return made && truncate(mounted("f").c_str(), 7) == 0 ? 0 : errno;
              }),
              0);
    struct stat st;
    for (const char* name : {"f", "d"}) {
      ASSERT_EQ(stat(source(name).c_str(), &st), 0);
      EXPECT_EQ(st.st_uid, 1000u) << name;
      EXPECT_EQ(st.st_gid, 1001u) << name;
      std::filesystem::remove(source(name));
    }
    const std::string threads = "/proc/" + std::to_string(daemon()) + "/task/*/status";
    EXPECT_EQ(shell("cat " + threads + " | grep -E '^[UG]id:' | grep -v '0\t0\t0\t0$'").second, "")
        << options;
    EXPECT_EQ(shell("awk '/^CapPrm/{own=$2} /^CapEff/ && $2 != own' " + threads).second, "") << options;
    unmount();
  }
}

// As an ordinary user, through fusermount3: no passthrough, everything else.
TEST_F(Callers, AUserMountsHisOwnData) {
  if (!has_mount_namespaces()) GTEST_SKIP() << "needs mount namespaces";
  ASSERT_EQ(chown(source_.c_str(), kNobody, kNobody), 0);
  ASSERT_EQ(chown(mount_.c_str(), kNobody, kNobody), 0);
  make_file("his", {'h', 'i'});
  ASSERT_EQ(chown(source("his").c_str(), kNobody, kNobody), 0);
  ASSERT_EQ(chmod(directory_.c_str(), 0777), 0);
  const std::string daemon = program("hipfile-fuse");
  const std::string device = directory_ + "/fuse";
  if (in_child([&] { return setgid(kNobody) || setuid(kNobody) || access(daemon.c_str(), X_OK); }))
    GTEST_SKIP() << "an ordinary user cannot reach " << daemon;
  EXPECT_EQ(
      in_child([&] {
        // With udev everybody may open it; here it is made so for this process alone.
        if (unshare(CLONE_NEWNS) || ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) ||
            mknod(device.c_str(), S_IFCHR | 0666, makedev(10, 229)) || chmod(device.c_str(), 0666) ||
            ::mount(device.c_str(), "/dev/fuse", nullptr, MS_BIND, nullptr))
          return 8;
        if (setgroups(0, nullptr) || setgid(kNobody) || setuid(kNobody)) return 9;
        setenv("XDG_RUNTIME_DIR", directory_.c_str(), 1);
        const std::string start =
            daemon + " " + source_ + " " + mount_ + " -o log_file=" + directory_ + "/log";
        if (shell(start).first != 0) return 1;
        int fd = open(mounted("his").c_str(), O_RDWR);
        char bytes[3] = {};
        if (fd < 0 || read(fd, bytes, 2) != 2 || std::string(bytes) != "hi") return 2;
        if (write(fd, "!", 1) != 1 || close(fd)) return 3;
        fd = open(mounted("new").c_str(), O_CREAT | O_RDWR, 0644);
        if (fd < 0 || write(fd, "n", 1) != 1 || fsync(fd)) return 4;
        if (overlay::info(fd).version != HIPFILE_FUSE_ABI_VERSION) return 5;
        if (overlay::info(fd).capabilities & HIPFILE_FUSE_CAP_PASSTHROUGH) return 6;
        close(fd);
        if (mkdir(mounted("d").c_str(), 0700) || rename(mounted("new").c_str(), mounted("d/new").c_str()))
          return 7;
        return shell("fusermount3 -u " + mount_).first;
      }),
      0)
      << log();
  umount2(mount_.c_str(), MNT_DETACH);
  struct stat st;
  ASSERT_EQ(stat(source("d/new").c_str(), &st), 0);
  EXPECT_EQ(st.st_uid, kNobody);
  EXPECT_EQ(st.st_size, 1);
}

TEST_F(Callers, WorksInAUserNamespace) {
  make_file("f", {'1', '2'});
  const std::string daemon = program("hipfile-fuse");
  // In namespaces of its own, where it is root of nothing outside.
  auto [status, out] =
      shell("unshare -Urm sh -ec '" + daemon + " " + source_ + " " + mount_ +
            " -o socket=none,log_file=" + directory_ + "/log; test \"$(cat " + mount_ +
            "/f)\" = 12; echo 3 > " + mount_ + "/g; cat " + source_ + "/g; umount " + mount_ + "'");
  if (out.find("unshare failed") != std::string::npos) GTEST_SKIP() << "needs user namespaces: " << out;
  EXPECT_EQ(status, 0) << out << log();
  EXPECT_EQ(out, "3\n");
}

}  // namespace
