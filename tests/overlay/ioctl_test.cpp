// The ioctl ABI, used as a legacy tool would use it: INFO, REGISTER, IO, BATCH.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <functional>
#include <thread>

#include "ioctl_fixture.h"

namespace {

using namespace overlay;

// ----------------------------------------------------------------------------------------------------------
// INFO

TEST_F(Ioctl, InfoDescribesTheMountAndTheFile) {
  posix::Fd fd = open_file();
  hipfile_fuse_info i = info(fd.get());
  EXPECT_EQ(i.version, HIPFILE_FUSE_ABI_VERSION);
  EXPECT_EQ(i.runtime, static_cast<uint32_t>(HIPFILE_FUSE_RUNTIME_SOFTWARE));
  EXPECT_EQ(i.device_count, 1);
  EXPECT_TRUE(i.capabilities & HIPFILE_FUSE_CAP_HIP_IPC);
  EXPECT_TRUE(i.capabilities & HIPFILE_FUSE_CAP_FD);
  EXPECT_EQ(i.daemon_pid, static_cast<uint32_t>(daemon()));
  struct stat st;
  ASSERT_EQ(stat(source("data").c_str(), &st), 0);
  EXPECT_EQ(i.backing_dev, st.st_dev);
  EXPECT_EQ(i.backing_ino, st.st_ino);
  EXPECT_EQ(std::string(i.backing_path), source("data"));
  EXPECT_EQ(std::string(info(root_.get()).backing_path), source_);
  EXPECT_NE(std::string(i.runtime_name).find("Software"), std::string::npos);
}

TEST_F(Ioctl, MalformedCommandsAreRefused) {
  hipfile_fuse_info i{};
  i.version = 2;
  EXPECT_EQ(ioctl(root_.get(), HIPFILE_FUSE_IOC_INFO, &i), -1);
  EXPECT_EQ(errno, EPROTONOSUPPORT);
  i = {};
  i.version = HIPFILE_FUSE_ABI_VERSION;
  i.reserved[3] = 1;
  EXPECT_EQ(ioctl(root_.get(), HIPFILE_FUSE_IOC_INFO, &i), -1);
  EXPECT_EQ(errno, EINVAL);
  char large[16384] = {};
  for (unsigned nr = 1; nr <= 7; nr++)
    for (unsigned size : {0u, 1u, 8u, 100u, 15999u}) {
      EXPECT_EQ(ioctl(root_.get(), _IOC(_IOC_READ | _IOC_WRITE, 'H', nr, size), large), -1)
          << nr << " " << size;
      EXPECT_EQ(errno, EINVAL) << nr << " " << size;
    }
  for (unsigned nr : {0u, 8u, 255u}) {
    EXPECT_EQ(ioctl(root_.get(), _IOC(_IOC_READ | _IOC_WRITE, 'H', nr, 64u), large), -1);
    EXPECT_EQ(errno, ENOTTY);
  }
}

// -------------------------------------------------------------------------------------------------------
// REGISTER

TEST_F(Ioctl, ReadsIntoMemoryByDescriptor) {
  SharedMemory memory(4 << 20);
  posix::Fd fd = open_file();
  uint64_t id = register_fd(fd.get(), memory);
  EXPECT_EQ(read_io(fd.get(), id, 0, 0, kBytes.size()), static_cast<int64_t>(kBytes.size()));
  EXPECT_EQ(memcmp(memory.data(), kBytes.data(), kBytes.size()), 0);
  EXPECT_EQ(read_io(fd.get(), id, 100, 7, 1000), 1000);
  EXPECT_EQ(memcmp(memory.data() + 100, &kBytes[7], 1000), 0);
  EXPECT_EQ(read_io(fd.get(), id, 0, kBytes.size() - 10, 1000), 10);
  EXPECT_EQ(read_io(fd.get(), id, 0, kBytes.size(), 1000), 0);
  EXPECT_EQ(read_io(fd.get(), id, 0, 1ull << 50, 1000), 0);
  EXPECT_EQ(read_io(fd.get(), id, 0, 0, 0), 0);
  EXPECT_EQ(unregister(fd.get(), id), 0);
  EXPECT_EQ(unregister(fd.get(), id), ENOENT);
  EXPECT_EQ(read_io(fd.get(), id, 0, 0, 10), -ENOENT);
}

TEST_F(Ioctl, ReadsIntoDeviceMemoryByIpcHandle) {
  auto runtime = *gpu::Runtime::load("software");
  void* device = nullptr;
  ASSERT_EQ(runtime->hip().hipMalloc(&device, 4 << 20), hip::kSuccess);
  hipfile_fuse_register r{};
  r.version = HIPFILE_FUSE_ABI_VERSION;
  r.kind = HIPFILE_FUSE_BUFFER_HIP_IPC;
  r.fd = -1;
  r.offset = 512;
  r.length = (4 << 20) - 512;
  hip::IpcMemHandle handle;
  ASSERT_EQ(runtime->hip().hipIpcGetMemHandle(&handle, device), hip::kSuccess);
  memcpy(r.ipc_handle, &handle, sizeof handle);
  posix::Fd fd = open_file();
  ASSERT_EQ(try_register(fd.get(), r), 0);
  EXPECT_EQ(read_io(fd.get(), r.buffer_id, 0, 0, kBytes.size()), static_cast<int64_t>(kBytes.size()));
  std::vector<char> back(kBytes.size());
  ASSERT_EQ(runtime->hip().hipMemcpy(back.data(), static_cast<char*>(device) + 512, back.size(),
                                     hip::kMemcpyDeviceToHost),
            hip::kSuccess);
  EXPECT_EQ(back, kBytes);

  auto code = [&](auto change) {
    hipfile_fuse_register bad = r;
    bad.buffer_id = 0;
    change(bad);
    return try_register(fd.get(), bad);
  };
  EXPECT_EQ(code([](auto&) {}), 0);
  EXPECT_EQ(code([](auto& b) { b.length++; }), EINVAL);
  EXPECT_EQ(code([](auto& b) { b.offset = 4 << 20; }), EINVAL);
  EXPECT_EQ(code([](auto& b) { b.device = 7; }), ENODEV);
  EXPECT_EQ(code([](auto& b) { b.device = -1; }), ENODEV);
  EXPECT_EQ(code([](auto& b) { b.ipc_handle[5] ^= 0x55; }), ESTALE);
  EXPECT_EQ(code([](auto& b) { memset(b.ipc_handle, 0, 64); }), EINVAL);
  EXPECT_EQ(code([](auto& b) { b.fd = 3; }), EINVAL);
  // Freed by its owner: a new handle cannot be opened any more; what is registered stays mapped.
  ASSERT_EQ(runtime->hip().hipFree(device), hip::kSuccess);
  EXPECT_EQ(read_io(fd.get(), r.buffer_id, 0, 0, 1000), 1000);
  EXPECT_EQ(unregister(fd.get(), r.buffer_id), 0);
}

TEST_F(Ioctl, RefusesBadRegistrations) {
  SharedMemory memory(8192);
  posix::Fd disk(open(source("data").c_str(), O_RDWR));
  posix::Fd read_only(open(posix::proc_path(memory.fd()).c_str(), O_RDONLY));
  auto code = [&](auto change) {
    hipfile_fuse_register r = registration_by_fd(memory.fd(), 8192);
    change(r);
    return try_register(root_.get(), r);
  };
  EXPECT_EQ(code([](auto&) {}), 0);
  EXPECT_EQ(code([](auto& r) { r.version = 0; }), EPROTONOSUPPORT);
  EXPECT_EQ(code([](auto& r) { r.kind = 0; }), EINVAL);
  EXPECT_EQ(code([](auto& r) { r.kind = 9; }), EINVAL);
  EXPECT_EQ(code([](auto& r) { r.flags = 2; }), EINVAL);
  EXPECT_EQ(code([](auto& r) { r.reserved0 = 1; }), EINVAL);
  EXPECT_EQ(code([](auto& r) { r.reserved[7] = 1; }), EINVAL);
  EXPECT_EQ(code([](auto& r) { r.buffer_id = 5; }), EINVAL);
  EXPECT_EQ(code([](auto& r) { r.token = 5; }), EINVAL);
  EXPECT_EQ(code([](auto& r) { r.ipc_handle[0] = 1; }), EINVAL);
  EXPECT_EQ(code([](auto& r) { r.length = 0; }), EINVAL);
  EXPECT_EQ(code([](auto& r) { r.length = 8193; }), EINVAL);
  EXPECT_EQ(code([](auto& r) { r.offset = 1; }), EINVAL);
  EXPECT_EQ(code([](auto& r) { r.length = UINT64_MAX; }), EINVAL);
  EXPECT_EQ(code([](auto& r) { r.offset = UINT64_MAX - 10; }), EINVAL);
  EXPECT_EQ(code([](auto& r) { r.fd = 9999; }), EBADF);
  EXPECT_EQ(code([](auto& r) { r.fd = -1; }), EBADF);
  EXPECT_EQ(code([](auto& r) { r.fd = -1, r.token = 12345; }), EBADF);
  EXPECT_EQ(code([](auto& r) { r.fd = -2; }), EINVAL);
  EXPECT_EQ(code([&](auto& r) { r.fd = disk.get(); }), EINVAL);
  EXPECT_EQ(code([&](auto& r) { r.fd = read_only.get(); }), EACCES);
  EXPECT_EQ(code([&](auto& r) { r.fd = root_.get(); }), EINVAL);
}

TEST_F(Ioctl, TakesDescriptorsHandedOverThroughTheSocket) {
  hipfile_fuse_info i = info(root_.get());
  ASSERT_NE(i.socket_path[0], '\0');
  auto hand_over = [&](int fd, uint32_t version, size_t copies = 1) {
    posix::Fd socket_fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    strcpy(address.sun_path, i.socket_path);
    if (connect(socket_fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) < 0) abort();
    hipfile_fuse_handover message{version, 0, 0};
    iovec part{&message, sizeof message};
    alignas(cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))] = {};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    if (fd >= 0) {
      header.msg_control = control;
      header.msg_controllen = CMSG_SPACE(copies * sizeof(int));
      cmsghdr* c = CMSG_FIRSTHDR(&header);
      c->cmsg_level = SOL_SOCKET;
      c->cmsg_type = SCM_RIGHTS;
      c->cmsg_len = CMSG_LEN(copies * sizeof(int));
      for (size_t i = 0; i < copies; i++) memcpy(CMSG_DATA(c) + i * sizeof fd, &fd, sizeof fd);
    }
    EXPECT_EQ(sendmsg(socket_fd.get(), &header, 0), static_cast<ssize_t>(sizeof message));
    hipfile_fuse_handover answer{};
    EXPECT_EQ(recv(socket_fd.get(), &answer, sizeof answer, 0), static_cast<ssize_t>(sizeof answer));
    return answer;
  };
  SharedMemory memory(1 << 20);
  EXPECT_EQ(hand_over(-1, HIPFILE_FUSE_ABI_VERSION).error, EINVAL);
  EXPECT_EQ(hand_over(memory.fd(), 77).error, EPROTONOSUPPORT);
  EXPECT_EQ(hand_over(memory.fd(), HIPFILE_FUSE_ABI_VERSION, 2).error, EINVAL);
  EXPECT_EQ(hand_over(root_.get(), HIPFILE_FUSE_ABI_VERSION).error, EINVAL);
  auto answer = hand_over(memory.fd(), HIPFILE_FUSE_ABI_VERSION);
  ASSERT_EQ(answer.error, 0);
  hipfile_fuse_register r = registration_by_fd(-1, memory.size());
  r.token = answer.token;
  // Another user cannot use the token.
  EXPECT_EQ(in_child([&] {
              if (setgid(1001) || setuid(1000)) return 99;
              hipfile_fuse_register mine = r;
              return ioctl(root_.get(), HIPFILE_FUSE_IOC_REGISTER, &mine) < 0 ? errno : 0;
            }),
            EBADF);
  posix::Fd fd = open_file();
  ASSERT_EQ(try_register(fd.get(), r), 0);
  EXPECT_EQ(read_io(fd.get(), r.buffer_id, 0, 0, 1000), 1000);
  EXPECT_EQ(memcmp(memory.data(), kBytes.data(), 1000), 0);
  r.buffer_id = 0;
  EXPECT_EQ(try_register(fd.get(), r), EBADF);  // a token works once
}

TEST_F(Ioctl, AnIdIsWorthNothingOnOtherDescriptions) {
  SharedMemory memory(8192);
  posix::Fd one = open_file(), two = open_file();
  uint64_t id = register_fd(one.get(), memory);
  EXPECT_EQ(read_io(two.get(), id, 0, 0, 10), -ENOENT);
  EXPECT_EQ(unregister(two.get(), id), ENOENT);
  EXPECT_EQ(in_child([&] {
              posix::Fd other(open(mounted("data").c_str(), O_RDONLY));
              return static_cast<int>(-read_io(other.get(), id, 0, 0, 10));
            }),
            ENOENT);
  EXPECT_EQ(in_child([&] {
              if (setgid(1001) || setuid(1000)) return 99;
              posix::Fd other(open(mounted("data").c_str(), O_RDONLY));
              return static_cast<int>(-read_io(other.get(), id, 0, 0, 10));
            }),
            ENOENT);
  // The same description in another process is the same description.
  EXPECT_EQ(in_child([&] { return read_io(one.get(), id, 0, 0, 10) == 10 ? 0 : 1; }), 0);
  posix::Fd copy(dup(one.get()));
  EXPECT_EQ(read_io(copy.get(), id, 0, 0, 10), 10);
}

TEST_F(Ioctl, AttachingIsForTheProcessThatRegistered) {
  SharedMemory memory(8192);
  posix::Fd one = open_file(), two = open_file();
  uint64_t id = register_fd(one.get(), memory);
  hipfile_fuse_register attach{};
  attach.version = HIPFILE_FUSE_ABI_VERSION;
  attach.kind = HIPFILE_FUSE_BUFFER_ATTACH;
  attach.fd = -1;
  attach.buffer_id = id;
  EXPECT_EQ(in_child([&] { return try_register(two.get(), attach); }), EPERM);
  EXPECT_EQ(read_io(two.get(), id, 0, 0, 10), -ENOENT);
  EXPECT_EQ(try_register(two.get(), attach), 0);
  EXPECT_EQ(read_io(two.get(), id, 0, 0, 10), 10);
  attach.buffer_id ^= 1;
  EXPECT_EQ(try_register(two.get(), attach), ENOENT);
  one.reset();
  usleep(100000);
  EXPECT_EQ(read_io(two.get(), id, 0, 0, 10), -ENOENT);  // gone with the description that registered it
}

TEST_F(Ioctl, AProcessWideBufferWorksOnEverythingOpenedLater) {
  SharedMemory memory(8192);
  posix::Fd before = open_file();
  uint64_t id = register_fd(root_.get(), memory, HIPFILE_FUSE_REGISTER_PROCESS);
  posix::Fd after = open_file();
  EXPECT_EQ(read_io(before.get(), id, 0, 0, 10), -ENOENT);
  EXPECT_EQ(read_io(after.get(), id, 0, 0, 10), 10);
  EXPECT_EQ(in_child([&] {
              posix::Fd own(open(mounted("data").c_str(), O_RDONLY));
              return static_cast<int>(-read_io(own.get(), id, 0, 0, 10));
            }),
            ENOENT);
}

TEST_F(Ioctl, BuffersEndWithTheirProcess) {
  posix::Fd shared = open_file();
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  pid_t child = fork();
  if (child == 0) {
    SharedMemory memory(8192);
    hipfile_fuse_register r = registration_by_fd(memory.fd(), 8192);
    int error = try_register(shared.get(), r);
    [[maybe_unused]] ssize_t n = write(ends[1], &r.buffer_id, sizeof r.buffer_id);
    pause();
    _exit(error);
  }
  uint64_t id = 0;
  ASSERT_EQ(read(ends[0], &id, sizeof id), static_cast<ssize_t>(sizeof id));
  EXPECT_EQ(read_io(shared.get(), id, 0, 0, 10), 10);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  int64_t result = 10;
  for (int i = 0; i < 200 && result >= 0; i++) {
    result = read_io(shared.get(), id, 0, 0, 10);
    usleep(10000);
  }
  EXPECT_EQ(result, -ENOENT);
  close(ends[0]);
  close(ends[1]);
}

// -------------------------------------------------------------------------------------------------------------
// IO

TEST_F(Ioctl, WritesFromABuffer) {
  SharedMemory memory(2 << 20);
  const auto bytes = pattern(2 << 20, 5);
  memcpy(memory.data(), bytes.data(), bytes.size());
  posix::Fd fd = open_file(O_RDWR | O_CREAT, "out");
  uint64_t id = register_fd(fd.get(), memory);
  struct stat st;
  ASSERT_EQ(fstat(fd.get(), &st), 0);
  EXPECT_EQ(st.st_size, 0);
  EXPECT_EQ(write_io(fd.get(), id, 0, 4096, 2 << 20), 2 << 20);
  ASSERT_EQ(fstat(fd.get(), &st), 0);
  EXPECT_EQ(st.st_size, (2 << 20) + 4096);  // visible at once
  EXPECT_EQ(write_io(fd.get(), id, 10, 1, 100), 100);
  auto expected = std::vector<char>(4096, 0);
  expected.insert(expected.end(), bytes.begin(), bytes.end());
  memcpy(&expected[1], &bytes[10], 100);
  EXPECT_EQ(file_bytes("out"), expected);
  // What was written by ioctl is there for read(2), on this descriptor and through a mapping.
  std::vector<char> through(expected.size());
  EXPECT_EQ(pread(fd.get(), through.data(), through.size(), 0), static_cast<ssize_t>(through.size()));
  EXPECT_EQ(through, expected);
}

TEST_F(Ioctl, SeesWhatWasJustWrittenByWrite) {
  SharedMemory memory(8192);
  posix::Fd fd = open_file(O_RDWR);
  uint64_t id = register_fd(fd.get(), memory);
  ASSERT_EQ(pwrite(fd.get(), "fresh", 5, 100), 5);
  EXPECT_EQ(read_io(fd.get(), id, 0, 100, 5), 5);
  EXPECT_EQ(memcmp(memory.data(), "fresh", 5), 0);
}

TEST_F(Ioctl, RefusesBadRequests) {
  SharedMemory memory(8192);
  posix::Fd fd = open_file(O_RDWR);
  uint64_t id = register_fd(fd.get(), memory);
  auto code = [&](auto change) {
    auto io = make_io(HIPFILE_FUSE_OP_READ, id, 0, 0, 4096);
    change(io);
    return try_io(fd.get(), io);
  };
  EXPECT_EQ(code([](auto&) {}), 0);
  EXPECT_EQ(code([](auto& io) { io.version = 3; }), EPROTONOSUPPORT);
  EXPECT_EQ(code([](auto& io) { io.op = 2; }), EINVAL);
  EXPECT_EQ(code([](auto& io) { io.flags = 1; }), EINVAL);
  EXPECT_EQ(code([](auto& io) { io.reserved0 = 1; }), EINVAL);
  EXPECT_EQ(code([](auto& io) { io.reserved[0] = 1; }), EINVAL);
  EXPECT_EQ(code([](auto& io) { io.buffer_id++; }), ENOENT);
  EXPECT_EQ(code([](auto& io) { io.buffer_id = 0; }), ENOENT);
  EXPECT_EQ(code([](auto& io) { io.length = 8193; }), ERANGE);
  EXPECT_EQ(code([](auto& io) { io.buffer_offset = 4097; }), ERANGE);
  EXPECT_EQ(code([](auto& io) { io.buffer_offset = UINT64_MAX; }), ERANGE);
  EXPECT_EQ(code([](auto& io) { io.length = UINT64_MAX; }), EINVAL);
  EXPECT_EQ(code([](auto& io) { io.buffer_offset = UINT64_MAX - 4095; }), ERANGE);
  EXPECT_EQ(code([](auto& io) { io.file_offset = 1ull << 63; }), EINVAL);
  EXPECT_EQ(code([](auto& io) { io.file_offset = INT64_MAX - 10; }), EINVAL);
  EXPECT_EQ(code([](auto& io) { io.file_offset = INT64_MAX - 4096; }), 0);
  EXPECT_EQ(read_io(root_.get(), id, 0, 0, 10), -EISDIR);
}

TEST_F(Ioctl, OpenModeBoundsTheDirection) {
  SharedMemory memory(8192);
  posix::Fd reader = open_file(O_RDONLY), writer = open_file(O_WRONLY),
            appender = open_file(O_RDWR | O_APPEND);
  EXPECT_EQ(write_io(reader.get(), register_fd(reader.get(), memory), 0, 0, 10), -EBADF);
  EXPECT_EQ(read_io(writer.get(), register_fd(writer.get(), memory), 0, 0, 10), -EBADF);
  uint64_t id = register_fd(appender.get(), memory);
  EXPECT_EQ(write_io(appender.get(), id, 0, 0, 10), -EINVAL);
  EXPECT_EQ(read_io(appender.get(), id, 0, 0, 10), 10);
  EXPECT_EQ(file_bytes("data"), kBytes);
}

TEST_F(Ioctl, FifosAreNoFilesToReadFrom) {
  ASSERT_EQ(mkfifo(source("fifo").c_str(), 0600), 0);
  posix::Fd fd(open(mounted("fifo").c_str(), O_RDWR | O_NONBLOCK));
  ASSERT_TRUE(fd);
  hipfile_fuse_info i{};
  i.version = HIPFILE_FUSE_ABI_VERSION;
  EXPECT_EQ(ioctl(fd.get(), HIPFILE_FUSE_IOC_INFO, &i), -1);  // the kernel serves FIFOs itself
  EXPECT_EQ(errno, ENOTTY);
}

TEST_F(Ioctl, MemoryThatItsOwnerShrinksIsTheOwnersProblem) {
  posix::Fd memory(memfd_create("shrinks", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(memory.get(), 1 << 20), 0);
  posix::Fd fd = open_file();
  hipfile_fuse_register r = registration_by_fd(memory.get(), 1 << 20);
  ASSERT_EQ(try_register(fd.get(), r), 0);
  ASSERT_EQ(ftruncate(memory.get(), 0), 0);
  EXPECT_EQ(read_io(fd.get(), r.buffer_id, 0, 0, 1 << 20), -EFAULT);
  EXPECT_EQ(info(fd.get()).version, HIPFILE_FUSE_ABI_VERSION);  // the daemon lives
}

// ----------------------------------------------------------------------------------------------------------
// BATCH

TEST_F(Ioctl, BatchCarriesOutEveryEntryForItself) {
  SharedMemory memory(4 << 20);
  posix::Fd fd = open_file();
  uint64_t id = register_fd(fd.get(), memory);
  BatchOf batch(HIPFILE_FUSE_BATCH_MAX);
  for (uint32_t i = 0; i < HIPFILE_FUSE_BATCH_MAX; i++) {
    auto& e = batch.entries[i];
    e.buffer_id = id;
    e.buffer_offset = i * 16384;
    e.file_offset = (HIPFILE_FUSE_BATCH_MAX - i) * 10007;
    e.length = i % 5 == 0 ? 16384 : 1 + i * 7;
  }
  batch.entries[3].buffer_id = 99;
  batch.entries[4].length = 5 << 20;
  batch.entries[5].op = HIPFILE_FUSE_OP_WRITE;
  batch.entries[6].op = 17;
  batch.entries[7].file_offset = kBytes.size();
  batch.entries[8].reserved = 1;
  ASSERT_EQ(batch.submit(fd.get(), HIPFILE_FUSE_BATCH_MAX), 0);
  EXPECT_EQ(batch.entries[3].result, -ENOENT);
  EXPECT_EQ(batch.entries[4].result, -ERANGE);
  EXPECT_EQ(batch.entries[5].result, -EBADF);
  EXPECT_EQ(batch.entries[6].result, -EINVAL);
  EXPECT_EQ(batch.entries[7].result, 0);
  EXPECT_EQ(batch.entries[8].result, -EINVAL);
  for (uint32_t i = 9; i < HIPFILE_FUSE_BATCH_MAX; i++) {
    auto& e = batch.entries[i];
    ASSERT_EQ(e.result, static_cast<int64_t>(e.length)) << i;
    EXPECT_EQ(memcmp(memory.data() + e.buffer_offset, &kBytes[e.file_offset], e.length), 0) << i;
    EXPECT_NE(e.route, 0u);
  }
}

TEST_F(Ioctl, BatchesOfLargeEntriesAndOfOneWork) {
  SharedMemory memory(16 << 20);
  posix::Fd fd = open_file();
  uint64_t id = register_fd(fd.get(), memory);
  BatchOf batch(5);
  for (uint32_t i = 0; i < 5; i++) {
    batch.entries[i].buffer_id = id;
    batch.entries[i].buffer_offset = i * (3 << 20);
    batch.entries[i].length = 3 << 20;
  }
  ASSERT_EQ(batch.submit(fd.get(), 9), 0);  // room for more than are used
  for (uint32_t i = 0; i < 5; i++) {
    EXPECT_EQ(batch.entries[i].result, 3 << 20);
    EXPECT_EQ(memcmp(memory.data() + i * (3 << 20), kBytes.data(), 3 << 20), 0);
  }
  BatchOf one(1);
  one.entries[0] = batch.entries[0];
  ASSERT_EQ(one.submit(fd.get(), 1), 0);
  EXPECT_EQ(one.entries[0].result, 3 << 20);
}

TEST_F(Ioctl, RefusesBadBatches) {
  posix::Fd fd = open_file();
  BatchOf batch(2);
  EXPECT_EQ(batch.submit(fd.get(), 1), EINVAL);  // more than the structure holds
  batch.header.count = 0;
  EXPECT_EQ(batch.submit(fd.get(), 2), EINVAL);
  batch.header.count = 2;
  batch.header.version = 9;
  EXPECT_EQ(batch.submit(fd.get(), 2), EPROTONOSUPPORT);
  batch.header.version = HIPFILE_FUSE_ABI_VERSION;
  batch.header.reserved[0] = 1;
  EXPECT_EQ(batch.submit(fd.get(), 2), EINVAL);
  batch.header.reserved[0] = 0;
  EXPECT_EQ(batch.submit(root_.get(), 2), EISDIR);
}

}  // namespace
