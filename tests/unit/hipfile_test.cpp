// The C API as a client sees it, over whichever HIP runtime the process has.
#include "hipfile.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "hipfile_fixture.h"
#include "posix/fd.h"

namespace {

TEST_F(HipFile, CountsItsUses) {
  EXPECT_EQ(hipFileUseCount(), 0);
  expect(hipFileDriverClose(), hipFileDriverNotInitialized);
  expect(hipFileDriverOpen(), hipFileSuccess);
  expect(hipFileDriverOpen(), hipFileSuccess);
  EXPECT_EQ(hipFileUseCount(), 2);
  expect(hipFileDriverClose(), hipFileSuccess);
  expect(hipFileDriverClose(), hipFileSuccess);
  expect(hipFileDriverClose(), hipFileDriverNotInitialized);
  EXPECT_EQ(hipFileUseCount(), 0);
}

TEST_F(HipFile, RegisteringOpensTheDriverOnce) {
  expect(hipFileBufRegister(device_, kSize, 0), hipFileSuccess);
  EXPECT_EQ(hipFileUseCount(), 1);
  register_fd(fd_);
  EXPECT_EQ(hipFileUseCount(), 1);
  expect(hipFileDriverOpen(), hipFileSuccess);
  EXPECT_EQ(hipFileUseCount(), 2);
}

TEST_F(HipFile, ManyThreadsThatRegisterOpenTheDriverOnce) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 64; i++)
    threads.emplace_back(
        [&, i] { expect(hipFileBufRegister(static_cast<char*>(device_) + i * 64, 64, 0), hipFileSuccess); });
  for (auto& t : threads) t.join();
  EXPECT_EQ(hipFileUseCount(), 1);
}

TEST_F(HipFile, SaysItsVersionWithoutOpening) {
  unsigned major = 9, minor = 9, patch = 9;
  expect(hipFileGetVersion(&major, &minor, &patch), hipFileSuccess);
  EXPECT_EQ(major, 0u);
  EXPECT_EQ(minor, 5u);
  EXPECT_EQ(patch, 0u);
  expect(hipFileGetVersion(nullptr, nullptr, nullptr), hipFileSuccess);
  EXPECT_EQ(hipFileUseCount(), 0);
}

TEST_F(HipFile, HasATextForEveryErrorAndForNone) {
  for (int e : {0, 5001, 5011, 5022, 5027, 5030, 5039, 4999, 6000, -1}) {
    const char* text = hipFileGetOpErrorString(static_cast<hipFileOpError_t>(e));
    ASSERT_NE(text, nullptr);
    EXPECT_GT(strlen(text), 3u);
  }
  EXPECT_STRNE(HIPFILE_ERRSTR(-5027), HIPFILE_ERRSTR(-5022));
}

TEST_F(HipFile, RefusesBadDescriptors) {
  hipFileDescr_t d{};
  d.type = hipFileHandleTypeOpaqueFD;
  d.handle.fd = fd_;
  hipFileHandle_t handle = nullptr;
  expect(hipFileHandleRegister(nullptr, &d), hipFileInvalidValue);
  expect(hipFileHandleRegister(&handle, nullptr), hipFileInvalidValue);
  EXPECT_EQ(hipFileUseCount(), 0);
  for (int type : {2, 3, 0, -1, 77}) {
    memcpy(&d.type, &type, sizeof type);
    expect(hipFileHandleRegister(&handle, &d), hipFileIONotSupported);
  }
  d.type = hipFileHandleTypeOpaqueFD;
  for (int fd : {-1, 987654}) {
    d.handle.fd = fd;
    expect(hipFileHandleRegister(&handle, &d), hipFileInternalError);
  }
}

TEST_F(HipFile, RegistersADescriptorOnceButAnyNumberOfDescriptorsOfAFile) {
  hipFileHandle_t one = register_fd(fd_);
  hipFileDescr_t d{};
  d.type = hipFileHandleTypeOpaqueFD;
  d.handle.fd = fd_;
  hipFileHandle_t again = nullptr;
  expect(hipFileHandleRegister(&again, &d), hipFileHandleAlreadyRegistered);
  int second = open(path_.c_str(), O_RDWR);
  hipFileHandle_t two = register_fd(second);
  EXPECT_NE(one, two);
  hipFileHandleDeregister(one);
  expect(hipFileHandleRegister(&again, &d), hipFileSuccess);
  EXPECT_NE(again, one);
  close(second);
}

TEST_F(HipFile, ANumberThatIsClosedAndReopenedIsAnotherFile) {
  int fd = open(path_.c_str(), O_RDWR);
  ASSERT_EQ(pwrite(fd, "old", 3, 0), 3);
  hipFileHandle_t old = register_fd(fd);
  close(fd);
  char other[] = "/var/tmp/hipfile_other_XXXXXX";
  int reused = mkstemp(other);
  ASSERT_EQ(reused, fd);
  ASSERT_EQ(pwrite(reused, "new", 3, 0), 3);
  hipFileHandle_t fresh = register_fd(reused);
  EXPECT_EQ(hipFileRead(fresh, device_, 3, 0, 0), 3);
  EXPECT_EQ(memcmp(from_device(3).data(), "new", 3), 0);
  EXPECT_EQ(hipFileRead(old, device_, 3, 0, 0), 3);
  EXPECT_EQ(memcmp(from_device(3).data(), "old", 3), 0);
  close(reused);
  unlink(other);
}

TEST_F(HipFile, DeregisteringWhatIsNotRegisteredIsHarmless) {
  hipFileHandleDeregister(nullptr);
  hipFileHandleDeregister(reinterpret_cast<hipFileHandle_t>(0x1234));
  hipFileHandle_t handle = register_fd(fd_);
  hipFileHandleDeregister(handle);
  hipFileHandleDeregister(handle);
  EXPECT_EQ(hipFileRead(handle, device_, 1, 0, 0), -hipFileHandleNotRegistered);
}

TEST_F(HipFile, SaysWhenNoDescriptorIsLeft) {
  hipFileDescr_t d{};
  d.type = hipFileHandleTypeOpaqueFD;
  d.handle.fd = fd_;
  hipFileHandle_t handle = nullptr;
  rlimit limit, none;
  getrlimit(RLIMIT_NOFILE, &limit);
  none = limit;
  none.rlim_cur = 0;
  setrlimit(RLIMIT_NOFILE, &none);
  hipFileError_t e = hipFileHandleRegister(&handle, &d);
  setrlimit(RLIMIT_NOFILE, &limit);
  expect(e, hipFileGetNewFDFailed);
  expect(hipFileHandleRegister(&handle, &d), hipFileSuccess);
}

TEST_F(HipFile, RefusesBadBuffers) {
  expect(hipFileBufRegister(nullptr, 1, 0), hipFileInvalidValue);
  EXPECT_EQ(hipFileUseCount(), 1);
  expect(hipFileBufRegister(device_, kSize + 1, 0), hipFileHipPointerRangeError);
  expect(hipFileBufRegister(device_, SIZE_MAX, 0), hipFileHipPointerRangeError);
  expect(hipFileBufRegister(static_cast<char*>(device_) + 100, kSize - 99, 0), hipFileHipPointerRangeError);
  std::vector<char> pageable(4096);
  hipFileError_t e = hipFileBufRegister(pageable.data(), 4096, 0);
  EXPECT_TRUE(e.err == hipFileHipMemoryTypeInvalid ||
              e.err == hipFileInvalidValue);  // HIP 5 does not know it at all
  expect(hipFileBufRegister(device_, kSize, 0), hipFileSuccess);
  expect(hipFileBufRegister(device_, 10, 0), hipFileMemoryAlreadyRegistered);
  expect(hipFileBufRegister(static_cast<char*>(device_) + 100, kSize - 100, 0), hipFileSuccess);
  expect(hipFileBufDeregister(device_), hipFileSuccess);
  expect(hipFileBufDeregister(device_), hipFileMemoryNotRegistered);
  expect(hipFileDriverClose(), hipFileSuccess);
  expect(hipFileBufDeregister(static_cast<char*>(device_) + 100), hipFileDriverClosing);
}

TEST_F(HipFile, TransfersNeedAnOpenDriverAHandleAndABuffer) {
  hipFileHandle_t handle = register_fd(fd_);
  EXPECT_EQ(hipFileRead(reinterpret_cast<hipFileHandle_t>(0x99), device_, 1, 0, 0),
            -hipFileHandleNotRegistered);
  EXPECT_EQ(hipFileRead(nullptr, device_, 1, 0, 0), -hipFileHandleNotRegistered);
  EXPECT_EQ(hipFileRead(handle, nullptr, 1, 0, 0), -hipFileInvalidValue);
  char pageable[16];
  ssize_t n = hipFileRead(handle, pageable, 1, 0, 0);
  EXPECT_TRUE(n == -hipFileHipMemoryTypeInvalid || n == -hipFileInvalidValue);
  expect(hipFileDriverClose(), hipFileSuccess);
  errno = 0;
  EXPECT_EQ(hipFileRead(handle, device_, 1, 0, 0), -1);
  EXPECT_EQ(errno, EINVAL);
  expect(hipFileDriverOpen(), hipFileSuccess);
  EXPECT_EQ(hipFileRead(handle, device_, 1, 0, 0), -hipFileHandleNotRegistered);  // stale after close
}

TEST_F(HipFile, ChecksOffsetsAndRanges) {
  fill_file(pattern(1000));
  hipFileHandle_t handle = register_fd(fd_);
  expect(hipFileBufRegister(device_, 4096, 0), hipFileSuccess);
  for (auto [file_offset, buffer_offset] : {std::pair<hoff_t, hoff_t>{-1, 0}, {0, -1}, {INT64_MIN, 0}}) {
    errno = 0;
    EXPECT_EQ(hipFileRead(handle, device_, 10, file_offset, buffer_offset), -1);
    EXPECT_EQ(errno, EINVAL);
    errno = 0;
    EXPECT_EQ(hipFileWrite(handle, device_, 10, file_offset, buffer_offset), -1);
    EXPECT_EQ(errno, EINVAL);
  }
  EXPECT_EQ(hipFileRead(handle, device_, 4097, 0, 0), -hipFileInvalidValue);
  EXPECT_EQ(hipFileRead(handle, device_, 1, 0, 4096), -hipFileInvalidValue);
  EXPECT_EQ(hipFileRead(handle, device_, 4000, 0, 100), -hipFileInvalidValue);
  EXPECT_EQ(hipFileRead(handle, device_, SIZE_MAX, 0, 1), -hipFileInvalidValue);
  EXPECT_EQ(hipFileRead(handle, device_, 0, 0, 4095), 0);
  EXPECT_EQ(hipFileRead(handle, device_, 0, 0, 4096), -hipFileInvalidValue);
  EXPECT_EQ(hipFileRead(handle, device_, 10, INT64_MAX, 0), 0);
}

TEST_F(HipFile, MovesDataThereAndBack) {
  const auto bytes = pattern(5'000'001);
  fill_file(bytes);
  hipFileHandle_t handle = register_fd(fd_);
  EXPECT_EQ(hipFileRead(handle, device_, bytes.size(), 0, 0), static_cast<ssize_t>(bytes.size()));
  EXPECT_EQ(from_device(bytes.size()), bytes);
  EXPECT_EQ(hipFileRead(handle, device_, 6'000'000, 1000, 77), static_cast<ssize_t>(bytes.size() - 1000));
  EXPECT_EQ(memcmp(from_device(1000, 77).data(), &bytes[1000], 1000), 0);
  EXPECT_EQ(hipFileRead(handle, device_, 10, 5'000'001, 0), 0);
  EXPECT_EQ(hipFileWrite(handle, device_, 3'000'003, 9'000'000, 77), 3'000'003);
  std::vector<char> back(3'000'003);
  ASSERT_EQ(pread(fd_, back.data(), back.size(), 9'000'000), static_cast<ssize_t>(back.size()));
  EXPECT_EQ(memcmp(back.data(), &bytes[1000], back.size()), 0);
}

TEST_F(HipFile, TakesPointersInsideAnAllocationAndPinnedMemory) {
  fill_file(pattern(10000));
  hipFileHandle_t handle = register_fd(fd_);
  EXPECT_EQ(hipFileRead(handle, static_cast<char*>(device_) + 12345, 10000, 0, 0), 10000);
  EXPECT_EQ(from_device(10000, 12345), pattern(10000));
  void* pinned = nullptr;
  ASSERT_EQ(hip_api().hipHostMalloc(&pinned, 16384, 0), ::hip::kSuccess);
  expect(hipFileBufRegister(pinned, 16384, 0), hipFileSuccess);
  EXPECT_EQ(hipFileRead(handle, pinned, 10000, 0, 0), 10000);
  EXPECT_EQ(memcmp(pinned, pattern(10000).data(), 10000), 0);
  expect(hipFileBufDeregister(pinned), hipFileSuccess);
  hip_api().hipHostFree(pinned);
}

TEST_F(HipFile, CapsOneCallAtWhatTheKernelMoves) {
  ASSERT_EQ(ftruncate(fd_, 3ll << 30), 0);
  void* large = nullptr;
  ASSERT_EQ(hip_api().hipMalloc(&large, 3ull << 30), ::hip::kSuccess);
  hipFileHandle_t handle = register_fd(fd_);
  EXPECT_EQ(hipFileRead(handle, large, 3ull << 30, 0, 0), 0x7ffff000);
  hip_api().hipFree(large);
}

TEST_F(HipFile, ErrorsOfTheFileComeAsErrno) {
  int read_only = open(path_.c_str(), O_RDONLY);
  hipFileHandle_t handle = register_fd(read_only);
  errno = 0;
  EXPECT_EQ(hipFileWrite(handle, device_, 10, 0, 0), -1);
  EXPECT_EQ(errno, EBADF);
  close(read_only);
}

TEST_F(HipFile, HandlesOutliveTheClientsDescriptor) {
  int fd = open(path_.c_str(), O_RDWR);
  fill_file(pattern(100));
  hipFileHandle_t handle = register_fd(fd);
  close(fd);
  EXPECT_EQ(hipFileRead(handle, device_, 100, 0, 0), 100);
}

TEST_F(HipFile, AnythingMayBeCalledFromAnyThreadAtOnce) {
  fill_file(pattern(1 << 20));
  std::atomic<int> moved{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 16; t++)
    threads.emplace_back([&, t] {
      std::mt19937 random(static_cast<unsigned>(t));
      for (int i = 0; i < 60; i++) {
        int fd = open(path_.c_str(), O_RDWR);
        hipFileHandle_t handle = register_fd(fd);
        char* part = static_cast<char*>(device_) + t * (kSize / 16);
        if (i % 2) expect(hipFileBufRegister(part, kSize / 16, 0), hipFileSuccess);
        size_t size = 1 + random() % (kSize / 16);
        if (hipFileRead(handle, part, size, 0, 0) > 0) moved++;
        if (i % 2) expect(hipFileBufDeregister(part), hipFileSuccess);
        hipFileHandleDeregister(handle);
        close(fd);
      }
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(moved, 16 * 60);
}

// A child has none of the threads and none of the locks in a known state.
TEST_F(HipFile, AForkedChildIsToldInsteadOfHanging) {
  fill_file(pattern(1000));
  hipFileHandle_t handle = register_fd(fd_);
  EXPECT_EQ(hipFileRead(handle, device_, 1000, 0, 0), 1000);
  pid_t child = fork();
  if (child == 0) {
    alarm(20);
    hipFileDescr_t d{};
    d.type = hipFileHandleTypeOpaqueFD;
    d.handle.fd = fd_;
    if (hipFileRead(handle, device_, 10, 0, 0) != -hipFileDriverError) _exit(1);
    if (hipFileHandleRegister(&handle, &d).err != hipFileDriverError) _exit(2);
    if (hipFileBufRegister(device_, 10, 0).err != hipFileDriverError) _exit(3);
    hipFileHandleDeregister(handle);
    unsigned minor = 0;
    if (hipFileGetVersion(nullptr, &minor, nullptr).err != hipFileSuccess || minor != 5) _exit(4);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(hipFileRead(handle, device_, 1000, 0, 0), 1000);  // the parent goes on
}

TEST_F(HipFile, ARegisteredFileCostsOneDescriptorUntilItNeedsAnother) {
  rlimit limit, small;
  getrlimit(RLIMIT_NOFILE, &limit);
  hipFileHandle_t warm = register_fd(fd_);
  fill_file(pattern(1000));
  EXPECT_EQ(hipFileRead(warm, device_, 1000, 0, 0), 1000);
  posix::Fd next(dup(fd_));
  small = limit;
  small.rlim_cur = static_cast<rlim_t>(next.get()) + 40;  // twenty files and twenty handles
  std::vector<posix::Fd> files;
  std::vector<hipFileHandle_t> handles;
  setrlimit(RLIMIT_NOFILE, &small);
  for (int i = 0; i < 19; i++) {
    files.emplace_back(open(path_.c_str(), O_RDONLY));
    handles.push_back(register_fd(files.back().get()));
  }
  for (auto handle : handles) EXPECT_EQ(hipFileRead(handle, device_, 1000, 0, 0), 1000);
  setrlimit(RLIMIT_NOFILE, &limit);
}

// Sixty-four threads do everything at once, closing the driver under each other. Every call ends with one of the
// results that it may then have, and what a read says it moved is there.
TEST_F(HipFile, SixtyFourThreadsRegisterMoveAndCloseAtOnce) {
  const auto bytes = pattern(65536);
  fill_file(bytes);
  constexpr int kThreads = 64;
  constexpr size_t kPart = kSize / kThreads;
  std::vector<std::thread> threads;
  std::atomic<int> moved{0};
  for (int t = 0; t < kThreads; t++)
    threads.emplace_back([&, t] {
      std::mt19937 random(static_cast<unsigned>(t));
      char* part = static_cast<char*>(device_) + static_cast<size_t>(t) * kPart;
      posix::Fd fd(open(path_.c_str(), O_RDONLY));
      hipFileDescr_t d{};
      d.type = hipFileHandleTypeOpaqueFD;
      d.handle.fd = fd.get();
      hipFileHandle_t handle = nullptr;
      for (int i = 0; i < 80; i++) {
        switch (random() % 8) {
          case 0:
            (void)hipFileDriverOpen();
            break;
          case 1:
            (void)hipFileDriverClose();
            break;
          case 2:
            (void)hipFileHandleRegister(&handle, &d);
            break;
          case 3:
            hipFileHandleDeregister(handle);
            break;
          case 4:
            (void)hipFileBufRegister(part, kPart, 0);
            break;
          case 5:
            (void)hipFileBufDeregister(part);
            break;
          default: {
            size_t size = 1 + random() % 65536;
            ssize_t n = hipFileRead(handle, part, size, 0, 0);
            EXPECT_TRUE(n == static_cast<ssize_t>(size) || (n == -1 && errno == EINVAL) ||
                        n == -hipFileHandleNotRegistered)
                << n;
            if (n <= 0) break;
            moved++;
            std::vector<char> got(static_cast<size_t>(n));
            EXPECT_EQ(hip_api().hipMemcpy(got.data(), part, got.size(), ::hip::kMemcpyDeviceToHost),
                      ::hip::kSuccess);
            EXPECT_EQ(memcmp(got.data(), bytes.data(), got.size()), 0);
          }
        }
      }
    });
  for (auto& t : threads) t.join();
  EXPECT_GT(moved, 0);
}

}  // namespace
