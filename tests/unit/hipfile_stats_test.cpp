// hipFileGetStats*, by the buffer's GPU. Run on its own with two devices too.
#include "hipfile_fixture.h"

namespace {

// Counters are the process's, so tests look at what came on top.
class Stats : public HipFile {
 protected:
  void SetUp() override {
    HipFile::SetUp();
    expect(hipFileGetStatsL3(&before_), hipFileSuccess);
  }
  hipFileStatsLevel3_t before_;
};
class StatsTwoDevices : public Stats {};

TEST_F(Stats, RefuseNull) {
  expect(hipFileGetStatsL1(nullptr), hipFileInvalidValue);
  expect(hipFileGetStatsL2(nullptr), hipFileInvalidValue);
  expect(hipFileGetStatsL3(nullptr), hipFileInvalidValue);
}

TEST_F(Stats, CountReadsWritesBytesErrorsAndSizes) {
  fill_file(pattern(100'000));
  hipFileHandle_t handle = register_fd(fd_);
  expect(hipFileBufRegister(device_, kSize, 0), hipFileSuccess);
  EXPECT_EQ(hipFileRead(handle, device_, 100'000, 0, 0), 100'000);
  EXPECT_EQ(hipFileRead(handle, device_, 100, 0, 0), 100);
  EXPECT_EQ(hipFileWrite(handle, device_, 5000, 0, 0), 5000);
  int read_only = open(path_.c_str(), O_RDONLY);
  EXPECT_EQ(hipFileWrite(register_fd(read_only), device_, 10, 0, 0), -1);
  close(read_only);
  hipFileStatsLevel3_t s;
  expect(hipFileGetStatsL3(&s), hipFileSuccess);
  const auto& l1 = s.detailed.basic;
  const auto& b1 = before_.detailed.basic;
  EXPECT_EQ(l1.read_ops.ok - b1.read_ops.ok, 2u);
  EXPECT_EQ(l1.read_bytes - b1.read_bytes, 100'100u);
  EXPECT_EQ(l1.write_ops.ok - b1.write_ops.ok, 1u);
  EXPECT_EQ(l1.write_ops.err - b1.write_ops.err, 1u);
  EXPECT_EQ(l1.write_bytes - b1.write_bytes, 5000u);
  EXPECT_EQ(l1.hdl_register_ops.ok - b1.hdl_register_ops.ok, 2u);
  EXPECT_EQ(l1.buf_register_ops.ok - b1.buf_register_ops.ok, 1u);
  EXPECT_EQ(s.detailed.read_size_kb_hist[0] - before_.detailed.read_size_kb_hist[0], 1u);  // below 4 KiB
  EXPECT_EQ(s.detailed.read_size_kb_hist[5] - before_.detailed.read_size_kb_hist[5], 1u);  // 64 to 128 KiB
  EXPECT_EQ(s.detailed.write_size_kb_hist[1] - before_.detailed.write_size_kb_hist[1], 1u);
  EXPECT_EQ(s.num_gpus, 1u);
  EXPECT_EQ(s.per_gpu_stats[0].n_total_reads - before_.per_gpu_stats[0].n_total_reads, 2u);
  EXPECT_EQ(s.per_gpu_stats[0].read_bytes - before_.per_gpu_stats[0].read_bytes, 100'100u);
  EXPECT_EQ(s.per_gpu_stats[0].n_writes_err - before_.per_gpu_stats[0].n_writes_err, 1u);
  EXPECT_EQ(s.per_gpu_stats[0].n_unaligned_reads - before_.per_gpu_stats[0].n_unaligned_reads, 2u);
  EXPECT_NE(s.per_gpu_stats[0].uuid[0], '\0');
  hipFileStatsLevel1_t again;
  expect(hipFileGetStatsL1(&again), hipFileSuccess);
  EXPECT_EQ(again.read_ops.ok, l1.read_ops.ok);
}

TEST_F(Stats, LevelZeroCountsNothing) {
  expect(hipFileSetParameterSizeT(hipFileParamProfileStats, 0), hipFileSuccess);
  fill_file(pattern(100));
  expect(hipFileDriverOpen(), hipFileSuccess);
  EXPECT_EQ(hipFileRead(register_fd(fd_), device_, 100, 0, 0), 100);
  hipFileStatsLevel1_t s;
  expect(hipFileGetStatsL1(&s), hipFileSuccess);
  EXPECT_EQ(s.read_ops.ok, before_.detailed.basic.read_ops.ok);
}

TEST_F(StatsTwoDevices, AttributeByTheBuffersGpuNotTheCallersDevice) {
  int count = 0;
  hip_api().hipGetDeviceCount(&count);
  if (count < 2) GTEST_SKIP() << "needs two devices";
  ASSERT_EQ(hip_api().hipSetDevice(1), ::hip::kSuccess);
  void* second = nullptr;
  ASSERT_EQ(hip_api().hipMalloc(&second, 4096), ::hip::kSuccess);
  ASSERT_EQ(hip_api().hipSetDevice(0), ::hip::kSuccess);
  fill_file(pattern(4096));
  EXPECT_EQ(hipFileRead(register_fd(fd_), second, 4096, 0, 0), 4096);
  hipFileStatsLevel3_t s;
  expect(hipFileGetStatsL3(&s), hipFileSuccess);
  EXPECT_EQ(s.per_gpu_stats[1].n_total_reads - before_.per_gpu_stats[1].n_total_reads, 1u);
  EXPECT_EQ(s.per_gpu_stats[0].n_total_reads, before_.per_gpu_stats[0].n_total_reads);
  hip_api().hipFree(second);
}

}  // namespace
