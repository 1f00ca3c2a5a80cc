// The CUDA stand-in over a fake driver: what it is taken for, what it exports, and the errors that it gives.
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <thread>

#include "cuda_fixture.h"

using namespace cuda_test;

namespace {

TEST_P(Cuda, SaysThatItIsCuda) {
  EXPECT_EQ(runtime_->kind(), gpu::RuntimeKind::cuda);
  EXPECT_EQ(runtime_->major(), GetParam());
  EXPECT_FALSE(runtime_->device_memory_is_pages());
  EXPECT_FALSE(runtime_->has_ais());
  EXPECT_NE(runtime_->describe().find("Fake CUDA device 0"), std::string::npos);
  EXPECT_NE(runtime_->describe().find("over CUDA"), std::string::npos);
  int version = 0;
  EXPECT_EQ(call("hipCudaDriverVersion", &version), hip::kSuccess);
  EXPECT_EQ(version, 13000);
}

TEST_P(Cuda, ExportsEveryNameOfTheSoftwareRuntime) {
  FILE* names = popen(
      ("nm -D --defined-only " + program_directory() + "/../lib/software6/libamdhip64.so.6").c_str(), "r");
  char line[256];
  int found = 0;
  while (fgets(line, sizeof line, names)) {
    char name[200];
    if (sscanf(line, "%*s T %199[^@\n]", name) != 1 || strstr(name, "Software")) continue;
    found++;
    EXPECT_NE(dlsym(dlopen(path_.c_str(), RTLD_NOW), name), nullptr) << name;
  }
  pclose(names);
  EXPECT_GT(found, 90);
}

TEST_P(Cuda, ItsProcAddressesAreItsOwn) {
  void* found = nullptr;
  EXPECT_EQ(hip().hipGetProcAddress("hipMalloc", &found, runtime_->version(), 0, nullptr), hip::kSuccess);
  EXPECT_EQ(found, reinterpret_cast<void*>(hip().hipMalloc));
  EXPECT_NE(hip().hipGetProcAddress("hipAmdFileRead", &found, runtime_->version(), 0, nullptr),
            hip::kSuccess);
}

TEST_P(Cuda, ErrorsAreTheDriversAndStayWithTheirThread) {
  auto plan = driver_function<int (*)(const char*)>("hipSoftwarePlanFaults");
  ASSERT_EQ(plan("hipMalloc:1:2,hipMalloc:2:220"), 0);
  void* p = nullptr;
  EXPECT_EQ(hip().hipMalloc(&p, 10), hip::kErrorOutOfMemory);
  std::thread([&] { EXPECT_EQ(hip().hipGetLastError(), hip::kSuccess); }).join();
  EXPECT_EQ(call("hipPeekAtLastError"), hip::kErrorOutOfMemory);
  EXPECT_EQ(hip().hipGetLastError(), hip::kErrorOutOfMemory);
  EXPECT_EQ(hip().hipGetLastError(), hip::kSuccess);
  EXPECT_EQ(static_cast<int>(hip().hipMalloc(&p, 10)), 220);  // a number that HIP does not have
  EXPECT_STREQ(hip().hipGetErrorName(220), "CUDA_ERROR_NVLINK_UNCORRECTABLE");
  EXPECT_STREQ(hip().hipGetErrorName(2), "hipErrorOutOfMemory");
  EXPECT_STREQ(hip().hipGetErrorName(12345), "hipErrorUnknown");
  ASSERT_EQ(plan(""), 0);
  hip().hipGetLastError();
  EXPECT_EQ(hip().hipMalloc(&p, 0), hip::kSuccess);
  EXPECT_EQ(p, nullptr);
  EXPECT_EQ(hip().hipSetDevice(77), hip::kErrorInvalidDevice);
}

TEST_P(Cuda, AChildOfForkIsToldThatNothingWorks) {
  hip().hipFree(device_memory(16));
  pid_t child = fork();
  if (child == 0) {
    int count = 0;
    _exit(hip().hipGetDeviceCount(&count) == hip::kErrorNotInitialized && count == 0 ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

INSTANTIATE_TEST_SUITE_P(Hip, Cuda, testing::Values(5, 6), testing::PrintToStringParamName());

// Run alone: what a process has loaded already comes before everything.
TEST(CudaAuto, TakesTheStandInWhereItHasADevice) {
  for (const char* name : {"auto", "auto", "cuda"}) {
    auto runtime = gpu::Runtime::load(name);
    ASSERT_TRUE(runtime) << runtime.error().text();
    EXPECT_EQ((*runtime)->kind(), gpu::RuntimeKind::cuda) << name;
  }
}

}  // namespace
