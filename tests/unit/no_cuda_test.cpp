// The CUDA stand-in where the driver does not work.
#include <gtest/gtest.h>

#include <cstdlib>

#include "gpu/hip.h"

namespace {

TEST(NoCuda, EveryCallSaysSo) {
  auto runtime = gpu::Runtime::load("cuda");
  ASSERT_TRUE(runtime) << runtime.error().text();
  const auto& hip = (*runtime)->hip();
  const char* expected = getenv("EXPECT_HIP_ERROR");
  const auto error = static_cast<hip::Error>(expected ? atoi(expected) : hip::kErrorNoDevice);
  int count = 7;
  void* p = nullptr;
  EXPECT_EQ(hip.hipGetDeviceCount(&count), error);
  EXPECT_EQ(count, 0);
  EXPECT_EQ(hip.hipInit(0), error);
  EXPECT_EQ(hip.hipMalloc(&p, 16), error);
  EXPECT_EQ(hip.hipSetDevice(0), error);
  EXPECT_EQ(hip.hipGetDevice(&count), error);
  EXPECT_EQ(hip.hipGetLastError(), error);
  EXPECT_EQ(hip.hipGetLastError(), hip::kSuccess);
  int version = 0;
  EXPECT_EQ(hip.hipRuntimeGetVersion(&version), hip::kSuccess);
  EXPECT_EQ(version / 10000000, 6);
  EXPECT_EQ((*runtime)->device_count(), 0);
  EXPECT_NE((*runtime)->describe().find("no device"), std::string::npos);
  EXPECT_NE(hip.hipGetErrorName(error), nullptr);
}

TEST(NoCudaAuto, TakesTheSoftwareRuntimeEachTime) {
  for (int i = 0; i < 2; i++) {
    auto runtime = gpu::Runtime::load("auto");
    ASSERT_TRUE(runtime) << runtime.error().text();
    EXPECT_EQ((*runtime)->kind(), gpu::RuntimeKind::software);
  }
}

}  // namespace
