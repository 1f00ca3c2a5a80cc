// The CUDA stand-in among contexts: its own, and those of others in the program.
#include <thread>
#include <vector>

#include "cuda_fixture.h"

using namespace cuda_test;

namespace {

TEST_P(Cuda, AThreadGetsThePrimaryContextWhenItFirstNeedsOne) {
  std::thread([&] {
    const int before = calls("cuCtxSetCurrent");
    int device = -1;
    EXPECT_EQ(hip().hipGetDevice(&device), hip::kSuccess);
    EXPECT_EQ(device, 0);
    EXPECT_EQ(hip().hipSetDevice(0), hip::kSuccess);
    EXPECT_EQ(calls("cuCtxSetCurrent"), before);
    char* p = device_memory(16);
    EXPECT_EQ(calls("cuCtxSetCurrent"), before + 1);
    EXPECT_EQ(hip().hipFree(p), hip::kSuccess);
    EXPECT_EQ(calls("cuCtxSetCurrent"), before + 1);
  }).join();
}

TEST_P(Cuda, RetainsAPrimaryContextOnceWhateverTheThreads) {
  hip().hipFree(device_memory(16));
  const int before = calls("cuDevicePrimaryCtxRetain");
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; i++)
    threads.emplace_back([&] {
      for (int j = 0; j < 100; j++) hip().hipFree(device_memory(64));
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(calls("cuDevicePrimaryCtxRetain"), before);
}

TEST_P(Cuda, TheCurrentDeviceIsThatOfTheDriversContext) {
  if (runtime_->device_count() < 2) GTEST_SKIP() << "needs two devices";
  std::thread([&] {
    auto set = driver_function<hip::Error (*)(Context)>("cuCtxSetCurrent");
    auto get = driver_function<hip::Error (*)(Context*)>("cuCtxGetCurrent");
    auto retain = driver_function<hip::Error (*)(Context*, int)>("cuDevicePrimaryCtxRetain");
    Context one = nullptr, now = nullptr;
    retain(&one, 1);  // as another runtime in the process does
    set(one);
    int device = -1;
    EXPECT_EQ(hip().hipGetDevice(&device), hip::kSuccess);
    EXPECT_EQ(device, 1);
    hip().hipFree(device_memory(100));
    EXPECT_EQ(last("cuMemAlloc"), "device 1 size 100");
    {
      gpu::DeviceGuard guard(*runtime_, 0);
      EXPECT_EQ(guard.status(), hip::kSuccess);
      hip().hipFree(device_memory(100));
      EXPECT_EQ(last("cuMemAlloc"), "device 0 size 100");
    }
    get(&now);
    EXPECT_EQ(now, one);
  }).join();
}

TEST_P(Cuda, AContextOfTheProgramsOwnComesBackWithItsDevice) {
  if (runtime_->device_count() < 2) GTEST_SKIP() << "needs two devices";
  std::thread([&] {
    auto create = driver_function<hip::Error (*)(Context*, unsigned, int)>("cuCtxCreate_v2");
    auto get = driver_function<hip::Error (*)(Context*)>("cuCtxGetCurrent");
    auto destroy = driver_function<hip::Error (*)(Context)>("cuCtxDestroy_v2");
    Context own = nullptr, now = nullptr;
    create(&own, 0, 1);
    { gpu::DeviceGuard guard(*runtime_, 1); }
    get(&now);
    EXPECT_EQ(now, own);
    { gpu::DeviceGuard guard(*runtime_, 0); }
    get(&now);
    EXPECT_EQ(now, own);
    // Gone meanwhile: the device's primary context takes its place.
    {
      gpu::DeviceGuard guard(*runtime_, 0);
      destroy(own);
    }
    int device = -1;
    EXPECT_EQ(hip().hipGetDevice(&device), hip::kSuccess);
    EXPECT_EQ(device, 1);
    hip().hipFree(device_memory(100));
    EXPECT_EQ(last("cuMemAlloc"), "device 1 size 100");
  }).join();
}

TEST_P(Cuda, ResettingADeviceGivesItANewContext) {
  std::thread([&] {
    hip().hipFree(device_memory(16));
    EXPECT_EQ(call("hipDeviceReset"), hip::kSuccess);
    EXPECT_EQ(last("cuDevicePrimaryCtxReset"), "0");
    char* p = device_memory(16);
    EXPECT_NE(p, nullptr);
    EXPECT_EQ(hip().hipFree(p), hip::kSuccess);
  }).join();
}

}  // namespace
