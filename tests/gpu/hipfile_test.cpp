// The C API on a GPU: synchronous, in the order of streams, and in batches.
#include <atomic>
#include <thread>

#include "gpu.h"
#include "hipfile_fixture.h"

namespace {

class GpuHipFile : public HipFile {
 protected:
  void SetUp() override {
    if (auto why = gpu_test::missing(); !why.empty()) GTEST_SKIP() << why;
    HipFile::SetUp();
    expect(hipFileDriverOpen(), hipFileSuccess);
    fill_file(bytes_);
    handle_ = register_fd(fd_);
  }
  void TearDown() override {
    if (device_) HipFile::TearDown();
  }
  // What is in the file.
  std::vector<char> file_bytes(size_t size) const {
    std::vector<char> out(size);
    EXPECT_EQ(pread(fd_, out.data(), size, 0), static_cast<ssize_t>(size));
    return out;
  }
  bool device_equals(size_t device_offset, size_t file_offset, size_t size) {
    return memcmp(from_device(size, device_offset).data(), &bytes_[file_offset], size) == 0;
  }

  const std::vector<char> bytes_ = pattern(kSize - 4096);
  hipFileHandle_t handle_ = nullptr;
};

TEST_F(GpuHipFile, ReadsAndWritesWithAndWithoutRegisteredBuffers) {
  for (bool registered : {false, true}) {
    if (registered) {
      expect(hipFileBufRegister(device_, kSize, 0), hipFileSuccess);
    }
    for (size_t size : {1ul, 4096ul, 65537ul, 1ul << 20, 5'000'001ul}) {
      ASSERT_EQ(hipFileRead(handle_, device_, size, 777, 100), static_cast<ssize_t>(size));
      ASSERT_TRUE(device_equals(100, 777, size)) << size;
      posix_fadvise(fd_, 0, 0, POSIX_FADV_DONTNEED);
      ASSERT_EQ(hipFileRead(handle_, device_, size, 4096, 8192), static_cast<ssize_t>(size));
      ASSERT_TRUE(device_equals(8192, 4096, size)) << size;
    }
    ASSERT_EQ(hipFileRead(handle_, device_, kSize, static_cast<hoff_t>(bytes_.size()) - 10, 0), 10);
    ASSERT_EQ(hipFileWrite(handle_, device_, 3'000'000, 123, 8192), 3'000'000);
    auto device = from_device(3'000'000, 8192);
    auto file = file_bytes(3'000'123);
    EXPECT_EQ(memcmp(&file[123], device.data(), device.size()), 0);
    ASSERT_EQ(pwrite(fd_, bytes_.data(), bytes_.size(), 0), static_cast<ssize_t>(bytes_.size()));
  }
  expect(hipFileBufDeregister(device_), hipFileSuccess);
}

TEST_F(GpuHipFile, TakesPointersInsideAnAllocation) {
  char* inside = static_cast<char*>(device_) + (1 << 20) + 77;
  ASSERT_EQ(hipFileRead(handle_, inside, 2'000'000, 5, 0), 2'000'000);
  EXPECT_TRUE(device_equals((1 << 20) + 77, 5, 2'000'000));
  EXPECT_LT(hipFileRead(handle_, inside, kSize, 0, 0), 0);  // beyond its end
}

TEST_F(GpuHipFile, AsynchronousRequestsKeepTheOrderOfTheirStream) {
  for (unsigned flags : {0u, 15u}) {
    hip::Stream stream = nullptr;
    ASSERT_EQ(hip_api().hipStreamCreateWithFlags(&stream, hip::kStreamNonBlocking), hip::kSuccess);
    auto s = reinterpret_cast<hipStream_t>(stream);
    expect(hipFileStreamRegister(s, flags), hipFileSuccess);
    size_t size = 1 << 20;
    hoff_t file_offset[4] = {0, 4096, 777, 1 << 20}, device_offset[4] = {0, 1 << 20, 2 << 20, 3 << 20};
    ssize_t done[4] = {-77, -77, -77, -77};
    // The memory is prepared in the stream; the reads come after that.
    ASSERT_EQ(gpu_test::call("hipMemsetAsync", device_, 0, kSize, stream), hip::kSuccess);
    for (int i = 0; i < 4; i++)
      expect(hipFileReadAsync(handle_, device_, &size, &file_offset[i], &device_offset[i], &done[i], s),
             hipFileSuccess);
    ASSERT_EQ(hip_api().hipStreamSynchronize(stream), hip::kSuccess);
    for (int i = 0; i < 4; i++) {
      EXPECT_EQ(done[i], 1 << 20) << flags;
      EXPECT_TRUE(
          device_equals(static_cast<size_t>(device_offset[i]), static_cast<size_t>(file_offset[i]), 1 << 20))
          << flags << " " << i;
    }
    // A write sees what the stream did before it.
    ASSERT_EQ(gpu_test::call("hipMemsetAsync", device_, 0x33, size_t{1} << 20, stream), hip::kSuccess);
    hoff_t zero = 0;
    ssize_t written = -77;
    expect(hipFileWriteAsync(handle_, device_, &size, &zero, &zero, &written, s), hipFileSuccess);
    ASSERT_EQ(hip_api().hipStreamSynchronize(stream), hip::kSuccess);
    EXPECT_EQ(written, 1 << 20);
    EXPECT_EQ(file_bytes(1 << 20), std::vector<char>(1 << 20, 0x33));
    ASSERT_EQ(pwrite(fd_, bytes_.data(), bytes_.size(), 0), static_cast<ssize_t>(bytes_.size()));
    expect(hipFileStreamDeregister(s), hipFileSuccess);
    hip_api().hipStreamDestroy(stream);
  }
}

TEST_F(GpuHipFile, BatchesOfSmallReads) {
  hipFileBatchHandle_t batch = nullptr;
  expect(hipFileBatchIOSetUp(&batch, 128), hipFileSuccess);
  std::vector<hipFileIOParams_t> params;
  for (uintptr_t i = 0; i < 128; i++) {
    hipFileIOParams_t p{};
    p.mode = hipFileBatch;
    p.u.batch = {device_, static_cast<int64_t>(i * 7919), static_cast<int64_t>(i * 40'000), 1 + i * 300};
    p.fh = handle_;
    p.opcode = hipFileBatchRead;
    p.cookie = reinterpret_cast<void*>(i);
    params.push_back(p);
  }
  expect(hipFileBatchIOSubmit(batch, 128, params.data(), 0), hipFileSuccess);
  std::vector<hipFileIOEvents_t> events(128);
  unsigned count = 128;
  expect(hipFileBatchIOGetStatus(batch, 128, &count, events.data(), nullptr), hipFileSuccess);
  ASSERT_EQ(count, 128u);
  for (auto& e : events) {
    auto i = reinterpret_cast<uintptr_t>(e.cookie);
    EXPECT_EQ(e.status, hipFileComplete);
    EXPECT_EQ(e.ret, 1 + i * 300);
    EXPECT_TRUE(device_equals(i * 40'000, i * 7919, 1 + i * 300)) << i;
  }
  hipFileBatchIODestroy(batch);
}

TEST_F(GpuHipFile, ManyThreadsAtOnce) {
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 8; t++)
    threads.emplace_back([&, t] {
      for (size_t i = 0; i < 50; i++) {
        const size_t size = 1000 + i * 15'000, file_offset = (t * 100'000 + i * 4096) % 5'000'000;
        if (hipFileRead(handle_, device_, size, static_cast<hoff_t>(file_offset),
                        static_cast<hoff_t>(t << 20)) != static_cast<ssize_t>(size) ||
            !device_equals(t << 20, file_offset, size))
          wrong++;
      }
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

// A program may have made another device, or none, current.
TEST_F(GpuHipFile, WorksOnThreadsThatNeverUsedTheGpu) {
  std::thread([&] {
    EXPECT_EQ(hipFileRead(handle_, device_, 1'000'000, 0, 0), 1'000'000);
    EXPECT_TRUE(device_equals(0, 0, 1'000'000));
  }).join();
}

}  // namespace
