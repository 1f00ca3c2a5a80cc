// What the CUDA stand-in makes of the driver's devices.
#include <cstring>
#include <vector>

#include "cuda_fixture.h"

using namespace cuda_test;

namespace {

TEST_P(Cuda, AttributesAreAskedForByTheirCudaNumbers) {
  auto value = [&](int attribute) {
    int v = -1;
    EXPECT_EQ(hip().hipDeviceGetAttribute(&v, attribute, 0), hip::kSuccess) << attribute;
    return v;
  };
  EXPECT_EQ(value(hip::kAttributeIntegrated), 0);
  EXPECT_EQ(value(hip::kAttributeMaxThreadsPerBlock), 1001);
  EXPECT_EQ(value(hip::kAttributePciBusId), 0xa0);
  EXPECT_EQ(value(hip::kAttributeManagedMemory), 1083);
  EXPECT_EQ(value(87), 1010);     // WarpSize
  EXPECT_EQ(value(63), 1016);     // MultiprocessorCount
  EXPECT_EQ(value(0), 1032);      // EccEnabled
  EXPECT_EQ(value(10015), 1016);  // PhysicalMultiProcessorCount
  EXPECT_EQ(value(hip::kAttributeCanUseStreamWaitValue), 1);
  EXPECT_EQ(value(hip::kAttributeIsLargeBar), 0);
  int v = 0;
  EXPECT_EQ(hip().hipDeviceGetAttribute(&v, 64, 0), hip::kErrorInvalidValue);  // Name
  EXPECT_EQ(hip().hipDeviceGetAttribute(&v, 5000, 0), hip::kErrorInvalidValue);
  EXPECT_EQ(hip().hipDeviceGetAttribute(&v, -1, 0), hip::kErrorInvalidValue);
  EXPECT_EQ(hip().hipDeviceGetAttribute(&v, 16, 9), hip::kErrorInvalidDevice);
  EXPECT_EQ(hip().hipDeviceGetAttribute(nullptr, 16, 0), hip::kErrorInvalidValue);
}

TEST_P(Cuda, DescribesDevicesInHipsTerms) {
  char text[64];
  EXPECT_EQ(call("hipDeviceGetPCIBusId", &text[0], int{sizeof text}, 0), hip::kSuccess);
  EXPECT_STREQ(text, "0001:a0:1f.0");
  int device = -1;
  EXPECT_EQ(call("hipDeviceGetByPCIBusId", &device, const_cast<const char*>(text)), hip::kSuccess);
  EXPECT_EQ(device, 0);
  unsigned char uuid[16] = {};
  EXPECT_EQ(hip().hipDeviceGetUuid(uuid, 0), hip::kSuccess);
  EXPECT_EQ(uuid[15], 0x40);
  std::vector<char> properties(1472, 'x');
  EXPECT_EQ(call("hipGetDevicePropertiesR0600", static_cast<void*>(properties.data()), 0), hip::kSuccess);
  EXPECT_STREQ(properties.data(), "Fake CUDA device 0");
  EXPECT_STREQ(properties.data() + 1160, "sm_90");
  size_t memory = 0;
  memcpy(&memory, properties.data() + 288, sizeof memory);
  EXPECT_EQ(memory, size_t{3} << 30);
}

}  // namespace
