// Copies of the CUDA stand-in: what they ask of the driver, and when they have arrived.
#include <cstdio>
#include <cstring>
#include <vector>

#include "cuda_fixture.h"

using namespace cuda_test;

namespace {

TEST_P(Cuda, CopiesOfEveryKindArriveBeforeTheCallReturns) {
  char* a = device_memory(kMiB);
  char* b = device_memory(kMiB);
  std::vector<char> from(kMiB, 'f'), to(kMiB);
  int waits = calls("cuStreamSynchronize");
  EXPECT_EQ(hip().hipMemcpy(a, from.data(), kMiB, hip::kMemcpyHostToDevice), hip::kSuccess);
  EXPECT_EQ(hip().hipMemcpy(b, a, kMiB, hip::kMemcpyDeviceToDevice), hip::kSuccess);
  EXPECT_EQ(hip().hipMemset(b, 'm', 10), hip::kSuccess);
  EXPECT_EQ(calls("cuStreamSynchronize"), waits + 3);
  EXPECT_EQ(last("cuStreamSynchronize"), "(nil)");
  EXPECT_EQ(hip().hipMemcpy(to.data(), b, kMiB, hip::kMemcpyDeviceToHost), hip::kSuccess);
  memset(from.data(), 'm', 10);
  EXPECT_EQ(to, from);
  EXPECT_EQ(hip().hipMemcpy(b + 20, from.data(), 5, hip::kMemcpyDefault), hip::kSuccess);
  EXPECT_EQ(last("cuMemcpy"), "5");
  EXPECT_EQ(hip().hipMemcpy(a, b, 0, hip::kMemcpyDefault), hip::kSuccess);
  EXPECT_EQ(hip().hipMemcpy(nullptr, b, 1, hip::kMemcpyDefault), hip::kErrorInvalidValue);
  EXPECT_EQ(hip().hipMemcpy(a, b, 1, static_cast<hip::MemcpyKind>(7)), hip::kErrorInvalidMemcpyDirection);
  EXPECT_EQ(hip().hipMemcpy(to.data(), from.data(), 1, hip::kMemcpyHostToDevice), hip::kErrorInvalidValue);
  hip().hipFree(a);
  hip().hipFree(b);
}

TEST_P(Cuda, AsynchronousCopiesGoToTheStreamTheyAreGiven) {
  char* device = device_memory(kMiB);
  void* host = nullptr;
  ASSERT_EQ(hip().hipHostMalloc(&host, kMiB, 0xe0000001u), hip::kSuccess);
  EXPECT_EQ(last("cuMemHostAlloc"), "flags 1");  // AMD's flags mean nothing to CUDA
  hip::Stream stream = nullptr;
  ASSERT_EQ(hip().hipStreamCreateWithFlags(&stream, hip::kStreamNonBlocking), hip::kSuccess);
  EXPECT_EQ(last("cuStreamCreate"), "1");
  char expected[64];
  snprintf(expected, sizeof expected, "1000 on %p", static_cast<void*>(stream));
  EXPECT_EQ(hip().hipMemcpyAsync(device, host, 1000, hip::kMemcpyHostToDevice, stream), hip::kSuccess);
  EXPECT_EQ(last("cuMemcpyHtoDAsync"), expected);
  EXPECT_EQ(hip().hipMemcpyAsync(host, device, 1000, hip::kMemcpyDeviceToHost, stream), hip::kSuccess);
  EXPECT_EQ(last("cuMemcpyDtoHAsync"), expected);
  EXPECT_EQ(hip().hipMemcpyAsync(host, device, 1000, hip::kMemcpyDefault, stream), hip::kSuccess);
  EXPECT_EQ(last("cuMemcpyAsync"), expected);
  auto per_thread = reinterpret_cast<hip::Stream>(uintptr_t{2});
  EXPECT_EQ(hip().hipMemcpyAsync(host, device, 9, hip::kMemcpyDeviceToHost, per_thread), hip::kSuccess);
  EXPECT_EQ(last("cuMemcpyDtoHAsync"), "9 on 0x2");
  int on = -1;
  EXPECT_EQ(hip().hipStreamGetDevice(stream, &on), hip::kSuccess);
  EXPECT_EQ(on, 0);
  EXPECT_EQ(hip().hipStreamGetDevice(per_thread, &on), hip::kSuccess);
  EXPECT_EQ(hip().hipStreamSynchronize(stream), hip::kSuccess);
  EXPECT_EQ(hip().hipStreamDestroy(stream), hip::kSuccess);
  EXPECT_EQ(hip().hipStreamDestroy(per_thread), hip::kErrorInvalidHandle);
  EXPECT_EQ(hip().hipHostFree(host), hip::kSuccess);
  hip().hipFree(device);
}

}  // namespace
