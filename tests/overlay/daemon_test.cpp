// The daemon itself: starting, ending, clients that die, work that must not stand in the way of other work.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <thread>

#include "mounted.h"

namespace {

using namespace overlay;
using Clock = std::chrono::steady_clock;

class Daemon : public Mounted {
 protected:
  // A large file that costs no disk: reads move real bytes all the same.
  void make_sparse(const std::string& name, off_t size) {
    posix::Fd fd(open(source(name).c_str(), O_RDWR | O_CREAT, 0644));
    ASSERT_EQ(ftruncate(fd.get(), size), 0);
  }
};

TEST_F(Daemon, EndsCleanlyBySignal) {
  mount();
  EXPECT_EQ(unmount(), 0);
  EXPECT_NE(log().find("unmounted"), std::string::npos);
}

TEST_F(Daemon, GoesToTheBackgroundOnceTheMountIsThere) {
  auto [status, out] = shell(program("hipfile-fuse") + " " + source_ + " " + mount_);
  EXPECT_EQ(status, 0) << out;
  make_file("a", {'a'});
  EXPECT_EQ(access(mounted("a").c_str(), F_OK), 0);
  EXPECT_EQ(shell("umount " + mount_).first, 0);
  EXPECT_NE(access(mounted("a").c_str(), F_OK), 0);
}

TEST_F(Daemon, MountsOverItsSource) {
  make_file("a", {'a'});
  ASSERT_EQ(shell(program("hipfile-fuse") + " " + source_ + " " + source_).first, 0);
  posix::Fd fd(open(source("a").c_str(), O_RDONLY));
  EXPECT_EQ(info(fd.get()).version, HIPFILE_FUSE_ABI_VERSION);
  fd.reset();
  EXPECT_EQ(shell("fusermount3 -u " + source_).first, 0);
}

TEST_F(Daemon, TakesThePlaceOfOneThatDied) {
  make_file("a", {'a'});
  mount();
  posix::Fd held(open(mounted("a").c_str(), O_RDONLY));
  kill(daemon(), SIGKILL);
  struct stat st;
  for (int i = 0; i < 500 && stat(mount_.c_str(), &st) == 0; i++) usleep(10000);
  EXPECT_EQ(errno, ENOTCONN);
  ASSERT_EQ(shell(program("hipfile-fuse") + " " + source_ + " " + mount_).first, 0);
  EXPECT_EQ(access(mounted("a").c_str(), F_OK), 0);
  EXPECT_EQ(shell("umount " + mount_).first, 0);
}

TEST_F(Daemon, ErrorsNameThePathAndTheCause) {
  auto expect = [&](const std::string& arguments, const char* a, const char* b) {
    auto [status, out] = shell(program("hipfile-fuse") + " " + arguments);
    EXPECT_NE(status, 0) << arguments;
    EXPECT_NE(out.find(a), std::string::npos) << out;
    EXPECT_NE(out.find(b), std::string::npos) << out;
  };
  expect("/nowhere " + mount_, "/nowhere", "No such file");
  expect(source_ + " /nowhere", "/nowhere", "No such file");
  expect("/etc/passwd " + mount_, "/etc/passwd", "Not a directory");
  expect(source_ + " /etc/passwd", "/etc/passwd", "Not a directory");
  expect(source_ + " " + mount_ + " -o speed=high", "speed=high", "unknown mount option");
  expect(source_ + " " + mount_ + " -o tag=none", "tag=none", "registered|direct|all");
  expect(source_ + " " + mount_ + " -o runtime=/nowhere/libamdhip64.so.6", "/nowhere/libamdhip64.so.6",
         "load HIP");
  expect(source_, "MOUNTPOINT", "required");
}

TEST_F(Daemon, TheKernelPassesOrdinaryOpensThrough) {
  utsname kernel{};
  uname(&kernel);
  int major = 0, minor = 0;
  sscanf(kernel.release, "%d.%d", &major, &minor);
  if (major < 6 || (major == 6 && minor < 9)) GTEST_SKIP() << "needs Linux 6.9, this is " << kernel.release;
  make_file("f", {'1'});
  mount();
  posix::Fd fd(open(mounted("f").c_str(), O_RDONLY));
  EXPECT_TRUE(info(fd.get()).capabilities & HIPFILE_FUSE_CAP_PASSTHROUGH);
  EXPECT_EQ(log().find("passthrough refused"), std::string::npos);
}

TEST_F(Daemon, TellsItsVersionAndOptions) {
  EXPECT_NE(shell(program("hipfile-fuse") + " --version").second.find("hipfile-fuse 0"), std::string::npos);
  EXPECT_NE(shell(program("hipfile-fuse") + " --help").second.find("tag="), std::string::npos);
}

TEST_F(Daemon, SurvivesAClientKilledInTheMiddle) {
  make_sparse("large", 3ll << 30);
  mount();
  for (int round = 0; round < 5; round++) {
    pid_t client = fork();
    if (client == 0) {
      SharedMemory memory(3ull << 30);
      posix::Fd fd(open(mounted("large").c_str(), O_RDONLY));
      hipfile_fuse_register r = registration_by_fd(memory.fd(), memory.size());
      if (try_register(fd.get(), r)) _exit(1);
      read_io(fd.get(), r.buffer_id, 0, 0, 3ull << 30);
      _exit(0);
    }
    usleep(20000 + 30000 * static_cast<unsigned>(round));
    kill(client, SIGKILL);
    waitpid(client, nullptr, 0);
  }
  SharedMemory memory(1 << 20);
  posix::Fd fd(open(mounted("large").c_str(), O_RDONLY));
  uint64_t id = register_fd(fd.get(), memory);
  EXPECT_EQ(read_io(fd.get(), id, 0, 0, 1 << 20), 1 << 20);
  fd.reset();
  EXPECT_EQ(unmount(), 0);
}

TEST_F(Daemon, ASignalEndsARequestAtTheNextChunkWithTheBytesDone) {
  make_sparse("large", 8ll << 30);
  mount();
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  pid_t client = fork();
  if (client == 0) {
    struct sigaction nothing {};
    nothing.sa_handler = [](int) {};
    sigaction(SIGINT, &nothing, nullptr);
    SharedMemory memory(8ull << 30);
    posix::Fd fd(open(mounted("large").c_str(), O_RDONLY));
    hipfile_fuse_register r = registration_by_fd(memory.fd(), memory.size());
    if (try_register(fd.get(), r)) _exit(1);
    char go = 'g';
    if (write(ends[1], &go, 1) != 1) _exit(2);
    int64_t result = read_io(fd.get(), r.buffer_id, 0, 0, 8ull << 30);
    if (write(ends[1], &result, sizeof result) != sizeof result) _exit(3);
    _exit(0);
  }
  char go;
  ASSERT_EQ(read(ends[0], &go, 1), 1);
  usleep(100000);
  kill(client, SIGINT);
  int64_t result = 0;
  ASSERT_EQ(read(ends[0], &result, sizeof result), static_cast<ssize_t>(sizeof result));
  waitpid(client, nullptr, 0);
  EXPECT_TRUE(result == -EINTR || (result > 0 && result < 8ll << 30)) << result;
  close(ends[0]);
  close(ends[1]);
}

TEST_F(Daemon, PosixIsServedWhileManyLongRequestsRun) {
  make_sparse("large", 1ll << 30);
  make_file("small", pattern(100));
  mount("cache=0");  // every stat is a request
  SharedMemory memory(1ull << 30);
  std::atomic<int> finished{0};
  std::vector<std::thread> readers;
  for (int i = 0; i < 20; i++)
    readers.emplace_back([&] {
      posix::Fd fd(open(mounted("large").c_str(), O_RDONLY));
      uint64_t id = register_fd(fd.get(), memory);
      EXPECT_EQ(read_io(fd.get(), id, 0, 0, 1ull << 30), 1ll << 30);
      finished++;
    });
  usleep(100000);
  // Served although not one of the twenty need have ended. Each round is three requests.
  int rounds = 0;
  auto start = Clock::now();
  while (finished < 20) {
    struct stat st;
    ASSERT_EQ(stat(mounted("small").c_str(), &st), 0);
    posix::Fd fd(open(mounted("small").c_str(), O_RDONLY));
    ASSERT_TRUE(fd);
    rounds++;
  }
  double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  for (auto& t : readers) t.join();
  printf("stat + open + close beside 20 reads of 1 GiB: %d rounds in %.2f s, %.0f us each\n", rounds, seconds,
         seconds / std::max(rounds, 1) * 1e6);
  EXPECT_GT(rounds, 20);
}

TEST_F(Daemon, EndingWhileRequestsRunAnswersThem) {
  make_sparse("large", 8ll << 30);
  mount();
  SharedMemory memory(8ull << 30);
  std::vector<int64_t> results(6, -1);
  std::vector<std::thread> readers;
  std::atomic<int> ready{0};
  for (size_t i = 0; i < results.size(); i++)
    readers.emplace_back([&, i] {
      posix::Fd fd(open(mounted("large").c_str(), O_RDONLY));
      uint64_t id = register_fd(fd.get(), memory);
      ready++;
      results[i] = read_io(fd.get(), id, 0, 0, 8ull << 30);
    });
  while (ready < 6) usleep(1000);
  usleep(50000);
  EXPECT_EQ(unmount(), 0);
  for (auto& t : readers) t.join();
  for (int64_t r : results)
    EXPECT_TRUE((r > 0 && r <= 8ll << 30) || r == -ESHUTDOWN || r == -ENOTCONN || r == -ECONNABORTED) << r;
}

TEST_F(Daemon, AWriteThatWasAcknowledgedIsInTheFileWhenTheDaemonEnds) {
  mount();
  SharedMemory memory(4 << 20);
  const auto bytes = pattern(4 << 20, 3);
  memcpy(memory.data(), bytes.data(), bytes.size());
  {
    posix::Fd fd(open(mounted("w").c_str(), O_RDWR | O_CREAT, 0644));
    uint64_t id = register_fd(fd.get(), memory);
    ASSERT_EQ(write_io(fd.get(), id, 0, 0, 4 << 20), 4 << 20);
  }
  EXPECT_EQ(unmount(), 0);
  EXPECT_EQ(file_bytes("w"), bytes);
}

TEST_F(Daemon, UnmountsWhileADescriptorIsOpenOnlyWhenToldTo) {
  make_file("a", {'a'});
  mount();
  posix::Fd fd(open(mounted("a").c_str(), O_RDONLY));
  EXPECT_NE(shell("umount " + mount_).first, 0);  // busy, as any file system
  EXPECT_EQ(unmount(), 0);
  char byte;
  ssize_t n = pread(fd.get(), &byte, 1, 0);  // passthrough descriptors outlive the daemon, others say so
  EXPECT_TRUE(n == 1 || errno == ENOTCONN);
}

TEST_F(Daemon, TagAllMakesEveryDescriptorTaggable) {
  make_file("a", pattern(10000));
  mount("tag=all");
  posix::Fd fd(open(mounted("a").c_str(), O_RDONLY));
  EXPECT_TRUE(info(fd.get()).capabilities & HIPFILE_FUSE_CAP_TAG_ALL);
  SharedMemory memory(16384);
  uint64_t id = register_fd(fd.get(), memory);
  EXPECT_EQ(try_tag(fd.get(), make_tag(id, 0, 0, 16384)), 0);
  char own[10000];
  EXPECT_EQ(read(fd.get(), own, sizeof own), 10000);
  EXPECT_EQ(memcmp(memory.data(), pattern(10000).data(), 10000), 0);
}

TEST_F(Daemon, WorksWithoutPassthroughIoUringAndSocket) {
  make_file("a", pattern(3 << 20));
  mount("passthrough=off,io_uring=off,socket=none,threads=2");
  posix::Fd fd(open(mounted("a").c_str(), O_RDONLY | O_DIRECT));
  auto i = info(fd.get());
  EXPECT_FALSE(i.capabilities & (HIPFILE_FUSE_CAP_PASSTHROUGH | HIPFILE_FUSE_CAP_SOCKET));
  SharedMemory memory(3 << 20);
  uint64_t id = register_fd(fd.get(), memory);
  EXPECT_EQ(read_io(fd.get(), id, 0, 0, 3 << 20), 3 << 20);
  EXPECT_EQ(memcmp(memory.data(), pattern(3 << 20).data(), 3 << 20), 0);
}

// Device memory of this process that the daemon's CPU cannot touch, registered by IPC handle.
class ForeignMemory {
 public:
  ForeignMemory(const std::string& mount, size_t size)
      : runtime_(*gpu::Runtime::load("software")), root_(open(mount.c_str(), O_RDONLY | O_DIRECTORY)) {
    EXPECT_EQ(runtime_->hip().hipMalloc(&address_, size), hip::kSuccess);
    hip::IpcMemHandle handle;
    EXPECT_EQ(runtime_->hip().hipIpcGetMemHandle(&handle, address_), hip::kSuccess);
    hipfile_fuse_register r{};
    r.version = HIPFILE_FUSE_ABI_VERSION;
    r.kind = HIPFILE_FUSE_BUFFER_HIP_IPC;
    r.flags = HIPFILE_FUSE_REGISTER_PROCESS;
    r.fd = -1;
    r.length = size;
    memcpy(r.ipc_handle, &handle, sizeof handle);
    EXPECT_EQ(try_register(root_.get(), r), 0);
    id_ = r.buffer_id;
  }
  ~ForeignMemory() { runtime_->hip().hipFree(address_); }
  ForeignMemory(const ForeignMemory&) = delete;
  ForeignMemory& operator=(const ForeignMemory&) = delete;
  uint64_t id() const { return id_; }
  std::vector<char> bytes(size_t offset, size_t length) const {
    std::vector<char> back(length);
    EXPECT_EQ(runtime_->hip().hipMemcpy(back.data(), static_cast<char*>(address_) + offset, length,
                                        hip::kMemcpyDeviceToHost),
              hip::kSuccess);
    return back;
  }

 private:
  const std::shared_ptr<const gpu::Runtime> runtime_;
  const posix::Fd root_;
  void* address_ = nullptr;
  uint64_t id_ = 0;
};

TEST_F(Daemon, StagesDeviceMemoryThatTheCpuCannotTouch) {
  const auto bytes = pattern((5 << 20) + 333);
  make_file("a", bytes);
  setenv("HIP_SOFTWARE_STRICT", "1", 1);
  mount("routes=staged,pool=8,slot=2");
  unsetenv("HIP_SOFTWARE_STRICT");
  ForeignMemory memory(mount_, 8 << 20);
  posix::Fd fd(open(mounted("a").c_str(), O_RDWR));
  auto io = make_io(HIPFILE_FUSE_OP_READ, memory.id(), 17, 0, bytes.size());
  ASSERT_EQ(try_io(fd.get(), io), 0);
  EXPECT_EQ(io.result, static_cast<int64_t>(bytes.size()));
  EXPECT_TRUE(io.route == HIPFILE_FUSE_ROUTE_STAGED || io.route == HIPFILE_FUSE_ROUTE_CACHED) << io.route;
  EXPECT_EQ(memory.bytes(17, bytes.size()), bytes);
  // Tagged with tee: the caller's bytes come back out of device memory.
  ASSERT_EQ(try_tag(fd.get(), make_tag(memory.id(), 0, 0, bytes.size(), HIPFILE_FUSE_TAG_TEE)), 0);
  std::vector<char> own(100000);
  EXPECT_EQ(pread(fd.get(), own.data(), own.size(), 1000), 100000);
  EXPECT_EQ(memcmp(own.data(), &bytes[1000], own.size()), 0);
}

// Several calls of the driver at once, each with the device of the imported memory current.
TEST_F(Daemon, PeerDmaReachesMemoryThatAnotherProcessOwns) {
  const auto bytes = pattern(32 << 20);
  make_file("a", bytes);
  setenv("HIP_SOFTWARE_STRICT", "1", 1);
  mount();
  unsetenv("HIP_SOFTWARE_STRICT");
  ForeignMemory memory(mount_, 32 << 20);
  posix::Fd fd(open(mounted("a").c_str(), O_RDWR)), copy(open(mounted("b").c_str(), O_RDWR | O_CREAT, 0600));
  auto io = make_io(HIPFILE_FUSE_OP_READ, memory.id(), 0, 0, bytes.size());
  ASSERT_EQ(try_io(fd.get(), io), 0);
  EXPECT_EQ(io.result, static_cast<int64_t>(bytes.size()));
  EXPECT_EQ(io.route, HIPFILE_FUSE_ROUTE_PEER);
  EXPECT_EQ(io.reason, HIPFILE_FUSE_REASON_NONE);
  EXPECT_TRUE(memory.bytes(0, bytes.size()) == bytes);
  io = make_io(HIPFILE_FUSE_OP_WRITE, memory.id(), 0, 0, bytes.size());
  ASSERT_EQ(try_io(copy.get(), io), 0);
  EXPECT_EQ(io.result, static_cast<int64_t>(bytes.size()));
  EXPECT_EQ(io.route, HIPFILE_FUSE_ROUTE_PEER);
  EXPECT_TRUE(file_bytes("b") == bytes);
}

TEST_F(Daemon, AStrangersWriteByIoctlTakesSetIdBitsAway) {
  make_file("suid", pattern(8192));
  ASSERT_EQ(chmod(source("suid").c_str(), 06777), 0);
  mount();
  EXPECT_EQ(in_child([&] {
              if (setgid(1001) || setuid(1000)) return 9;
              SharedMemory memory(4096);
              posix::Fd fd(open(mounted("suid").c_str(), O_RDWR));
              hipfile_fuse_register r = registration_by_fd(memory.fd(), 4096);
              if (int error = try_register(fd.get(), r)) return error;
              return write_io(fd.get(), r.buffer_id, 0, 0, 4096) == 4096 ? 0 : 1;
            }),
            0);
  struct stat st;
  ASSERT_EQ(stat(source("suid").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 07777, 0777u);
}

// A page cache is shared by everybody: what a tag diverts must never get into it.
TEST_F(Daemon, MappingsAndSendfileOfATaggedDescriptorGetTheFilesBytes) {
  const auto bytes = pattern(100'000);
  make_file("a", bytes);
  for (const char* options : {"passthrough=off", "passthrough=on"}) {
    mount(options);
    SharedMemory memory(131072);
    posix::Fd root(open(mount_.c_str(), O_RDONLY | O_DIRECTORY));
    uint64_t id = register_fd(root.get(), memory, HIPFILE_FUSE_REGISTER_PROCESS);
    posix::Fd fd(open(mounted("a").c_str(), O_RDONLY));
    ASSERT_EQ(try_tag(fd.get(), make_tag(id, 0, 0, 50'000)), 0);
    void* p = mmap(nullptr, bytes.size(), PROT_READ, MAP_PRIVATE, fd.get(), 0);
    ASSERT_NE(p, MAP_FAILED);
    EXPECT_EQ(memcmp(p, bytes.data(), bytes.size()), 0) << options;
    munmap(p, bytes.size());
    posix::Fd out(memfd_create("out", MFD_CLOEXEC));
    off_t from = 0;
    ssize_t sent = sendfile(out.get(), fd.get(), &from, 40'000);
    ASSERT_GT(sent, 0);
    std::vector<char> got(static_cast<size_t>(sent));
    ASSERT_EQ(pread(out.get(), got.data(), got.size(), 0), sent);
    EXPECT_EQ(memcmp(got.data(), bytes.data(), got.size()), 0) << options;
    // Another reader of the same file sees the file.
    posix::Fd other(open(mounted("a").c_str(), O_RDONLY));
    got.resize(bytes.size());
    ASSERT_EQ(try_untag(fd.get()), 0);
    EXPECT_EQ(pread(other.get(), got.data(), got.size(), 0), static_cast<ssize_t>(got.size()));
    EXPECT_EQ(got, bytes) << options;
    fd.reset();
    other.reset();
    root.reset();
    unmount();
  }
}

TEST_F(Daemon, TheUsersMountFlagsWin) {
  mount("nosuid,nodev");
  auto [status, line] = shell("grep " + mount_ + " /proc/self/mountinfo");
  EXPECT_NE(line.find("nosuid"), std::string::npos) << line;
  EXPECT_NE(line.find("nodev"), std::string::npos) << line;
}

TEST_F(Daemon, MirrorsTheFlagsOfTheSourcesMount) {
  ASSERT_EQ(mkdir(source("volume").c_str(), 0755), 0);
  ASSERT_EQ(::mount("none", source("volume").c_str(), "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr), 0);
  ASSERT_EQ(shell(program("hipfile-fuse") + " " + source("volume") + " " + mount_).first, 0);
  auto [status, line] = shell("grep " + mount_ + " /proc/self/mountinfo");
  for (const char* flag : {"nosuid", "nodev", "noexec"})
    EXPECT_NE(line.find(flag), std::string::npos) << line;
  EXPECT_EQ(shell("umount " + mount_).first, 0);
  umount2(source("volume").c_str(), MNT_DETACH);
}

TEST_F(Daemon, DescriptorsThatAreNoMemoryCostTheDaemonNothing) {
  make_file("a", pattern(100));
  mount();
  posix::Fd on_mount(open(mounted("a").c_str(), O_RDWR));
  auto count = [&] {
    return std::distance(std::filesystem::directory_iterator("/proc/" + std::to_string(daemon()) + "/fd"),
                         {});
  };
  hipfile_fuse_register r = registration_by_fd(on_mount.get(), 100);
  EXPECT_EQ(try_register(on_mount.get(), r), EINVAL);
  usleep(50000);
  const auto before = count();
  std::vector<std::thread> clients;  // more than there are threads to serve them
  for (int i = 0; i < 200; i++)
    clients.emplace_back([&] {
      hipfile_fuse_register mine = registration_by_fd(on_mount.get(), 100);
      EXPECT_EQ(try_register(on_mount.get(), mine), EINVAL);
    });
  for (auto& c : clients) c.join();
  usleep(200000);
  EXPECT_LE(count(),
            before + 30);  // a pipe for each thread that had not served before, not one for each client
}

TEST_F(Daemon, HipfileTagRunsAnUnmodifiedCommand) {
  make_file("a", pattern(3'000'000));
  mount();
  auto [status, out] =
      shell(program("hipfile-tag") + " --checksum " + mounted("a") + " -- dd of=/dev/null bs=1M status=none");
  EXPECT_EQ(status, 0) << out;
  EXPECT_NE(out.find("3000000 bytes into"), std::string::npos) << out;
  auto sum = shell("xxh128sum - 2>/dev/null <" + source("a")).second.substr(0, 32);
  EXPECT_NE(out.find(sum), std::string::npos) << out << sum;
  EXPECT_EQ(shell(program("hipfile-tag") + " " + mounted("a") + " -- sh -c 'exit 3'").first, 3);
  EXPECT_EQ(shell(program("hipfile-tag") + " " + source("a") + " -- cat").first, 125);
  auto tee = shell(program("hipfile-tag") + " --tee " + mounted("a") + " -- xxh128sum -").second;
  EXPECT_NE(tee.find(sum), std::string::npos) << tee;
  auto written = shell(program("hipfile-tag") + " --write --length 100000 " + mounted("a") +
                       " -- dd if=/dev/urandom bs=100000 count=1 status=none");
  EXPECT_EQ(written.first, 0) << written.second;
  auto bytes = file_bytes("a");
  EXPECT_EQ(std::vector<char>(bytes.begin(), bytes.begin() + 100000),
            std::vector<char>(100000, 0));  // fresh memory
}

TEST_F(Daemon, HipfileLoadVerifiesWhatArrived) {
  make_file("a", pattern(3'000'000));
  make_file("empty", {});
  mount();
  auto [status, out] = shell(program("hipfile-load") + " --verify " + mounted("a") + " " + mounted("empty"));
  EXPECT_EQ(status, 0) << out;
  EXPECT_NE(out.find("checks passed: 2 of 2"), std::string::npos) << out;
  EXPECT_NE(out.find("route "), std::string::npos) << out;
  EXPECT_EQ(shell(program("hipfile-load") + " " + source("a")).first, 1);
}

}  // namespace
