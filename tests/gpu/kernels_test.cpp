// The kernels on a real GPU: the cases that the host runs, too, and what only a GPU shows.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "gpu/hip.h"
#include "gpu/stream.h"
#include "kernels/code_objects.h"
#include "kernels/launch.h"
#include "unit/kernel_cases.h"

namespace {

using namespace kernel_cases;

class GpuKernels : public testing::Test {
 protected:
  static constexpr uint64_t kRegion = 64 << 20;

  void SetUp() override {
    auto runtime = gpu::Runtime::load("auto");
    if (!runtime) GTEST_SKIP() << "needs a HIP runtime: " << runtime.error().text();
    runtime_ = *runtime;
    if (runtime_->kind() == gpu::RuntimeKind::software) GTEST_SKIP() << "needs a GPU";
    if (runtime_->device_count() == 0) GTEST_SKIP() << "needs a GPU; " << runtime_->path() << " sees none";
    const auto image = runtime_->kind() == gpu::RuntimeKind::cuda ? kernels::ptx() : kernels::amdgpu_bundle();
    if (image.empty()) GTEST_SKIP() << "needs a build with a compiler for " << runtime_->describe();
    auto loaded = kernels::Kernels::load(kernels::Functions::from(hip()), image);
    ASSERT_TRUE(loaded) << runtime_->error_name(loaded.error());
    kernels_.emplace(std::move(*loaded));
    auto stream = gpu::Stream::create(runtime_);
    ASSERT_TRUE(stream) << runtime_->error_name(stream.error());
    stream_.emplace(std::move(*stream));
    void *pinned = nullptr, *list = nullptr, *device = nullptr;
    ASSERT_EQ(hip().hipHostMalloc(&pinned, kRegion, hip::kHostMallocPortable), hip::kSuccess);
    pinned_ = static_cast<unsigned char*>(pinned);
    ASSERT_EQ(hip().hipHostMalloc(&list, 1 << 20, hip::kHostMallocPortable), hip::kSuccess);
    list_ = static_cast<unsigned char*>(list);
    ASSERT_EQ(hip().hipMalloc(&device, kRegion), hip::kSuccess);
    device_ = static_cast<unsigned char*>(device);
  }
  void TearDown() override {
    if (stream_) hip().hipStreamSynchronize(stream_->handle());
    if (pinned_) hip().hipHostFree(pinned_);
    if (list_) hip().hipHostFree(list_);
    if (device_) hip().hipFree(device_);
  }

  const gpu::HipTable& hip() const { return runtime_->hip(); }

  std::vector<unsigned char> random_bytes(uint64_t size, uint64_t seed) {
    std::vector<unsigned char> bytes(size);
    fill_random(bytes, seed);
    return bytes;
  }
  void to_device(const std::vector<unsigned char>& bytes) {
    ASSERT_EQ(hip().hipMemcpy(device_, bytes.data(), bytes.size(), hip::kMemcpyHostToDevice), hip::kSuccess);
  }
  std::vector<unsigned char> from_device(uint64_t size) {
    std::vector<unsigned char> bytes(size);
    EXPECT_EQ(hip().hipMemcpy(bytes.data(), device_, size, hip::kMemcpyDeviceToHost), hip::kSuccess);
    return bytes;
  }

  // From the pinned region to the device's, or back.
  enum class Way { scatter, gather };
  void copy_and_compare(const std::vector<Piece>& pieces, Way way) {
    const uint64_t size = region(pieces);
    ASSERT_LE(size, kRegion);
    const auto source = random_bytes(size, 1), destination = random_bytes(size, 2);
    const bool scatter = way == Way::scatter;
    memcpy(pinned_, (scatter ? source : destination).data(), size);
    to_device(scatter ? destination : source);
    const auto segments =
        kernel_cases::segments(pieces, scatter ? pinned_ : device_, scatter ? device_ : pinned_);
    auto* list = reinterpret_cast<kernels::Segment*>(list_);
    std::copy(segments.begin(), segments.end(), list);
    ASSERT_EQ(kernels_->copy({list, segments.size()}, stream_->handle()), hip::kSuccess);
    ASSERT_EQ(hip().hipStreamSynchronize(stream_->handle()), hip::kSuccess);
    const auto expected = copied(pieces, source, destination);
    if (scatter)
      ASSERT_TRUE(from_device(size) == expected);
    else
      ASSERT_EQ(memcmp(pinned_, expected.data(), size), 0);
  }
  void copy_both_ways(const std::vector<Piece>& pieces) {
    ASSERT_NO_FATAL_FAILURE(copy_and_compare(pieces, Way::scatter)) << "scatter";
    ASSERT_NO_FATAL_FAILURE(copy_and_compare(pieces, Way::gather)) << "gather";
  }

  uint32_t device_crc32c(uint64_t at, uint64_t length) {
    const auto plan = kernels::Crc32cPlan::of(reinterpret_cast<uint64_t>(device_ + at), length);
    auto* remainders = reinterpret_cast<uint32_t*>(list_);
    EXPECT_EQ(kernels_->crc32c(plan, remainders, stream_->handle()), hip::kSuccess);
    EXPECT_EQ(hip().hipStreamSynchronize(stream_->handle()), hip::kSuccess);
    return kernels::crc32c_of(plan, remainders);
  }

  std::shared_ptr<const gpu::Runtime> runtime_;
  std::optional<kernels::Kernels> kernels_;
  std::optional<gpu::Stream> stream_;
  unsigned char *pinned_ = nullptr, *list_ = nullptr, *device_ = nullptr;
};

TEST_F(GpuKernels, CopyEveryLengthBetweenAnyTwoAlignmentsAndNothingElse) {
  std::vector<Piece> pieces;
  for (uint64_t from = 0; from < 16; from++)
    for (uint64_t to = 0; to < 16; to++)
      for (uint64_t length = 0; length < 70; length++)
        pieces.push_back({96 * pieces.size() + from, 96 * pieces.size() + to, length});
  copy_both_ways(pieces);
}

TEST_F(GpuKernels, CopyRandomSegments) {
  std::mt19937_64 random(11);
  for (int i = 0; i < 40; i++) {
    const uint64_t longest = i % 4 == 0 ? 20 * kernels::kCopyTile : random() % 9000;
    SCOPED_TRACE(testing::Message() << "round " << i);
    ASSERT_NO_FATAL_FAILURE(
        copy_both_ways(random_pieces(static_cast<uint32_t>(1 + random() % 150), longest, random())));
  }
}

TEST_F(GpuKernels, CopyMoreSegmentsThanBlocks) { copy_both_ways(random_pieces(20000, 3000, 12)); }

TEST_F(GpuKernels, CopyOneLongSegment) { copy_both_ways({{3, 8, kRegion - 128}}); }

TEST_F(GpuKernels, Crc32cIsTheOneOfTheStandards) {
  to_device({0, 0, 0, '1', '2', '3', '4', '5', '6', '7', '8', '9', 0});
  EXPECT_EQ(device_crc32c(3, 9), 0xE3069283u);
  EXPECT_EQ(device_crc32c(3, 0), 0u);
}

TEST_F(GpuKernels, Crc32cIsRightForAnyRange) {
  const auto bytes = random_bytes(kRegion, 13);
  to_device(bytes);
  std::mt19937_64 random(14);
  for (int i = 0; i < 600; i++) {
    const uint64_t most = i % 3 == 0 ? 100 : i % 3 == 1 ? 300000 : i < 100 ? kRegion : 5 << 20;
    const uint64_t length = random() % most, at = random() % (kRegion - length);
    ASSERT_EQ(device_crc32c(at, length), crc32c({&bytes[at], length})) << at << ", " << length;
  }
  EXPECT_EQ(device_crc32c(0, kRegion), crc32c(bytes));
}

TEST_F(GpuKernels, FollowTheOrderOfTheirStream) {
  const auto bytes = random_bytes(1 << 20, 15);
  memcpy(pinned_, bytes.data(), bytes.size());
  ASSERT_EQ(hip().hipMemset(device_, 0, 1 << 20), hip::kSuccess);
  auto* segments = reinterpret_cast<kernels::Segment*>(list_);
  for (uint64_t i = 0; i < 256; i++) segments[i] = {pinned_ + i * 4096, device_ + i * 4096, 4096};
  auto* remainders = reinterpret_cast<uint32_t*>(list_ + (1 << 19));
  const auto plan = kernels::Crc32cPlan::of(reinterpret_cast<uint64_t>(device_), 1 << 20);
  ASSERT_EQ(kernels_->copy({segments, 256}, stream_->handle()), hip::kSuccess);
  ASSERT_EQ(kernels_->crc32c(plan, remainders, stream_->handle()), hip::kSuccess);
  ASSERT_EQ(hip().hipStreamSynchronize(stream_->handle()), hip::kSuccess);
  EXPECT_EQ(kernels::crc32c_of(plan, remainders), crc32c(bytes));
}

}  // namespace
