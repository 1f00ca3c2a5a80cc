// Streams of the CUDA stand-in: values, events and host functions.
#include <atomic>

#include "cuda_fixture.h"

using namespace cuda_test;

namespace {

TEST_P(Cuda, StreamsWaitForValuesEventsAndHostFunctions) {
  void* word = nullptr;
  ASSERT_EQ(hip().hipExtMallocWithFlags(&word, 8, hip::kMallocSignalMemory), hip::kSuccess);
  EXPECT_EQ(hip().hipExtMallocWithFlags(&word, 16, hip::kMallocSignalMemory), hip::kErrorInvalidValue);
  *static_cast<uint64_t*>(word) = 0;
  hip::Stream one = nullptr, two = nullptr;
  hip::Event event = nullptr;
  ASSERT_EQ(hip().hipStreamCreateWithFlags(&one, hip::kStreamNonBlocking), hip::kSuccess);
  ASSERT_EQ(hip().hipStreamCreateWithFlags(&two, hip::kStreamNonBlocking), hip::kSuccess);
  ASSERT_EQ(hip().hipEventCreateWithFlags(&event, hip::kEventDisableTiming | 0x80000000u), hip::kSuccess);
  EXPECT_EQ(last("cuEventCreate"), "2");  // AMD's flags mean nothing to CUDA
  static std::atomic<int> order;
  order = 0;
  EXPECT_EQ(hip().hipStreamWaitValue64(one, word, 7, hip::kWaitGte, 0xff), hip::kErrorNotSupported);
  EXPECT_EQ(hip().hipStreamWaitValue64(one, word, 7, 4, ~0ull), hip::kErrorInvalidValue);
  ASSERT_EQ(hip().hipStreamWaitValue64(one, word, 7, hip::kWaitGte, ~0ull), hip::kSuccess);
  ASSERT_EQ(hip().hipLaunchHostFunc(
                one, [](void*) { order = order * 10 + 1; }, nullptr),
            hip::kSuccess);
  ASSERT_EQ(hip().hipEventRecord(event, one), hip::kSuccess);
  ASSERT_EQ(call("hipStreamWaitEvent", two, event, 0u), hip::kSuccess);
  ASSERT_EQ(hip().hipStreamAddCallback(
                two, [](hip::Stream, hip::Error, void*) { order = order * 10 + 2; }, nullptr, 0),
            hip::kSuccess);
  EXPECT_EQ(hip().hipEventQuery(event), hip::kErrorNotReady);
  EXPECT_EQ(hip().hipGetLastError(), hip::kErrorInvalidValue);  // that an event is not ready is no error
  std::atomic_ref<uint64_t>(*static_cast<uint64_t*>(word)).store(7);
  EXPECT_EQ(hip().hipStreamSynchronize(two), hip::kSuccess);
  EXPECT_EQ(order, 12);
  EXPECT_EQ(call("hipStreamWriteValue64", one, word, uint64_t{9}, 0u), hip::kSuccess);
  EXPECT_EQ(hip().hipStreamSynchronize(one), hip::kSuccess);
  EXPECT_EQ(*static_cast<uint64_t*>(word), 9u);
  EXPECT_EQ(hip().hipEventDestroy(event), hip::kSuccess);
  EXPECT_EQ(hip().hipEventRecord(nullptr, one), hip::kErrorInvalidHandle);
  hip().hipStreamDestroy(one);
  hip().hipStreamDestroy(two);
  hip().hipFree(word);
}

}  // namespace
