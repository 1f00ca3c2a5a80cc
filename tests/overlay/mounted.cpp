#include "mounted.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

namespace overlay {
namespace {

namespace stdfs = std::filesystem;

std::string program_directory() { return stdfs::canonical("/proc/self/exe").parent_path().string(); }

int run(const std::string& command) { return std::system((command + " >/dev/null 2>&1").c_str()); }

bool kernel_allows_uring() {
  char value = 0;
  std::ifstream("/sys/module/fuse/parameters/enable_uring") >> value;
  return value == 'Y';
}

bool is_mounted(const std::string& path) {
  struct stat inside, outside;
  if (stat(path.c_str(), &inside) < 0 || stat((path + "/..").c_str(), &outside) < 0) return false;
  return inside.st_dev != outside.st_dev;
}

}  // namespace

Volume& Volume::instance() {
  static Volume volume;
  return volume;
}

Volume::Volume() {
  const char* kind = getenv("HIPFILE_TEST_FS");
  std::string fs = kind ? kind : "ext4";
  char base[] = "/var/tmp/hipfile_volume_XXXXXX";
  if (!mkdtemp(base)) {
    problem_ = "no directory in /var/tmp";
    return;
  }
  chmod(base, 0755);
  image_ = std::string(base) + ".img";
  std::string make = fs == "xfs" ? "mkfs.xfs -q " : "mkfs.ext4 -q -F ";
  if (run("truncate -s 4G " + image_) || run(make + image_)) {
    problem_ = "mkfs." + fs + " failed";
  } else if (run("mount -o loop " + image_ + " " + base)) {
    problem_ = "cannot mount " + fs + " on a loop device";
  } else {
    path_ = base;
    return;
  }
  unlink(image_.c_str());
  rmdir(base);
}

Volume::~Volume() {
  if (path_.empty()) return;
  if (run("umount " + path_)) run("umount -l " + path_);
  unlink(image_.c_str());
  rmdir(path_.c_str());
}

void Mounted::SetUp() {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  if (access("/dev/fuse", R_OK | W_OK) != 0) GTEST_SKIP() << "needs /dev/fuse";
  if (Volume::instance().path().empty()) GTEST_SKIP() << Volume::instance().problem();
  char base[] = "/var/tmp/hipfile_mount_XXXXXX";
  ASSERT_NE(mkdtemp(base), nullptr);
  directory_ = base;
  ASSERT_EQ(chmod(base, 0755), 0);  // tests let other users in
  mount_ = directory_ + "/mnt";
  source_ = Volume::instance().path() + "/source";
  stdfs::remove_all(source_);
  ASSERT_EQ(mkdir(source_.c_str(), 0755), 0);
  ASSERT_EQ(mkdir(mount_.c_str(), 0755), 0);
}

void Mounted::TearDown() {
  unmount();
  if (directory_.empty()) return;
  if (HasFailure()) fprintf(stderr, "--- log of the daemon\n%s---\n", log().c_str());
  stdfs::remove_all(source_);
  stdfs::remove_all(directory_);
}

void Mounted::mount(const std::string& options) {
  const bool uring = options.find("uring=on") != std::string::npos;
  if (uring && !kernel_allows_uring())
    GTEST_SKIP() << "needs Linux 6.14 with fuse.enable_uring=Y, which ctest sets";
  const std::string program = program_directory() + "/hipfile-fuse";
  const std::string all =
      "log=debug,log_file=" + directory_ + "/log" + (options.empty() ? "" : "," + options);
  daemon_ = fork();
  ASSERT_GE(daemon_, 0);
  if (daemon_ == 0) {
    execl(program.c_str(), program.c_str(), "-f", source_.c_str(), mount_.c_str(), "-o", all.c_str(),
          nullptr);
    _exit(127);
  }
  for (int i = 0; i < 1000 && !is_mounted(mount_); i++) {
    int status;
    if (waitpid(daemon_, &status, WNOHANG) == daemon_) {
      daemon_ = -1;
      FAIL() << "the daemon ended: " << log();
    }
    usleep(10000);
  }
  ASSERT_TRUE(is_mounted(mount_));
  // What is asked for is there: otherwise the tests would show something else than they say.
  if (uring) {
    EXPECT_NE(log().find("requests come over io_uring"), std::string::npos);
  }
  EXPECT_EQ(log().find("names are believed for a second"), std::string::npos);
}

int Mounted::unmount() {
  if (daemon_ < 0) return -1;
  kill(daemon_, SIGTERM);
  int status = 0;
  bool ended = false;
  for (int i = 0; i < 6000 && !ended; i++) {
    ended = waitpid(daemon_, &status, WNOHANG) == daemon_;
    if (!ended) usleep(10000);
  }
  if (!ended) {
    ADD_FAILURE() << "the daemon does not end";
    kill(daemon_, SIGKILL);
    waitpid(daemon_, &status, 0);
  }
  daemon_ = -1;
  if (is_mounted(mount_)) {
    ADD_FAILURE() << "the mount is still there";
    umount2(mount_.c_str(), MNT_DETACH);
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string Mounted::program(const std::string& name) { return program_directory() + "/" + name; }

std::pair<int, std::string> Mounted::shell(const std::string& command) {
  FILE* p = popen(("{ " + command + "; } 2>&1").c_str(), "r");
  std::string out;
  char part[256];
  while (size_t n = fread(part, 1, sizeof part, p)) out.append(part, n);
  const int status = pclose(p);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, out};
}

std::string Mounted::log() const {
  std::ifstream in(directory_ + "/log");
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

void Mounted::make_file(const std::string& name, const std::vector<char>& bytes) {
  std::ofstream(source(name), std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

std::vector<char> Mounted::file_bytes(const std::string& name) const {
  std::ifstream in(source(name), std::ios::binary);
  return std::vector<char>((std::istreambuf_iterator<char>(in)), {});
}

std::vector<char> Mounted::pattern(size_t size, unsigned seed) {
  std::vector<char> bytes(size);
  std::mt19937_64 random(seed);
  for (size_t i = 0; i + 8 <= size; i += 8) {
    uint64_t v = random();
    memcpy(&bytes[i], &v, 8);
  }
  return bytes;
}

int Mounted::in_child(const std::function<int()>& f) {
  pid_t child = fork();
  if (child == 0) _exit(f());
  int status;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string name_of_options(const testing::TestParamInfo<const char*>& info) {
  std::string name = info.param;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !isalnum(c); }, '_');
  return name;
}

SharedMemory::SharedMemory(size_t size) : fd_(memfd_create("client", MFD_CLOEXEC)), size_(size) {
  if (ftruncate(fd_.get(), static_cast<off_t>(size)) < 0) abort();
  data_ = static_cast<char*>(mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0));
}
SharedMemory::~SharedMemory() { munmap(data_, size_); }

hipfile_fuse_register registration_by_fd(int fd, uint64_t length) {
  hipfile_fuse_register r{};
  r.version = HIPFILE_FUSE_ABI_VERSION;
  r.kind = HIPFILE_FUSE_BUFFER_FD;
  r.fd = fd;
  r.length = length;
  return r;
}

int try_register(int fd, hipfile_fuse_register& r) {
  return ioctl(fd, HIPFILE_FUSE_IOC_REGISTER, &r) < 0 ? errno : 0;
}

uint64_t register_fd(int fd, const SharedMemory& memory, uint32_t flags) {
  hipfile_fuse_register r = registration_by_fd(memory.fd(), memory.size());
  r.flags = flags;
  EXPECT_EQ(try_register(fd, r), 0);
  EXPECT_NE(r.buffer_id, 0u);
  return r.buffer_id;
}

int unregister(int fd, uint64_t id) {
  hipfile_fuse_unregister u{};
  u.version = HIPFILE_FUSE_ABI_VERSION;
  u.buffer_id = id;
  return ioctl(fd, HIPFILE_FUSE_IOC_UNREGISTER, &u) < 0 ? errno : 0;
}

hipfile_fuse_io make_io(uint32_t op, uint64_t buffer, uint64_t buffer_offset, uint64_t file_offset,
                        uint64_t length) {
  hipfile_fuse_io io{};
  io.version = HIPFILE_FUSE_ABI_VERSION;
  io.op = op;
  io.buffer_id = buffer;
  io.buffer_offset = buffer_offset;
  io.file_offset = file_offset;
  io.length = length;
  return io;
}

int try_io(int fd, hipfile_fuse_io& io) { return ioctl(fd, HIPFILE_FUSE_IOC_IO, &io) < 0 ? errno : 0; }

int64_t read_io(int fd, uint64_t buffer, uint64_t buffer_offset, uint64_t file_offset, uint64_t length) {
  auto io = make_io(HIPFILE_FUSE_OP_READ, buffer, buffer_offset, file_offset, length);
  int error = try_io(fd, io);
  return error ? -error : io.result;
}
int64_t write_io(int fd, uint64_t buffer, uint64_t buffer_offset, uint64_t file_offset, uint64_t length) {
  auto io = make_io(HIPFILE_FUSE_OP_WRITE, buffer, buffer_offset, file_offset, length);
  int error = try_io(fd, io);
  return error ? -error : io.result;
}

hipfile_fuse_tag make_tag(uint64_t buffer, uint64_t buffer_offset, uint64_t file_offset, uint64_t length,
                          uint32_t flags) {
  hipfile_fuse_tag t{};
  t.version = HIPFILE_FUSE_ABI_VERSION;
  t.flags = flags;
  t.buffer_id = buffer;
  t.buffer_offset = buffer_offset;
  t.file_offset = file_offset;
  t.length = length;
  return t;
}

int try_tag(int fd, const hipfile_fuse_tag& tag) {
  return ioctl(fd, HIPFILE_FUSE_IOC_TAG, &tag) < 0 ? errno : 0;
}

int try_untag(int fd, hipfile_fuse_untag* out) {
  hipfile_fuse_untag u{};
  u.version = HIPFILE_FUSE_ABI_VERSION;
  if (ioctl(fd, HIPFILE_FUSE_IOC_UNTAG, &u) < 0) return errno;
  if (out) *out = u;
  return 0;
}

hipfile_fuse_info info(int fd) {
  hipfile_fuse_info i{};
  i.version = HIPFILE_FUSE_ABI_VERSION;
  EXPECT_EQ(ioctl(fd, HIPFILE_FUSE_IOC_INFO, &i), 0);
  return i;
}

}  // namespace overlay
