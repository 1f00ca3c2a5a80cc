// Modules of the CUDA stand-in, and launches.
#include "cuda_fixture.h"

using namespace cuda_test;

namespace {

TEST_P(Cuda, ModulesAreLoadedAndLaunchedWithCudasListOfExtras) {
  void *module = nullptr, *function = nullptr;
  const char* image = "fake gather";
  EXPECT_EQ(call("hipModuleLoadData", &module, static_cast<const void*>("ELF")), hip::kErrorNoBinaryForGpu);
  ASSERT_EQ(call("hipModuleLoadData", &module, static_cast<const void*>(image)), hip::kSuccess);
  EXPECT_EQ(call("hipModuleGetFunction", &function, module, "absent"), hip::kErrorNotFound);
  ASSERT_EQ(call("hipModuleGetFunction", &function, module, "gather"), hip::kSuccess);
  int argument = 1;
  size_t size = sizeof argument;
  void* parameters[] = {&argument};
  EXPECT_EQ(call("hipModuleLaunchKernel", function, 2u, 3u, 4u, 32u, 2u, 1u, 64u, static_cast<void*>(nullptr),
                 static_cast<void**>(parameters), static_cast<void**>(nullptr)),
            hip::kSuccess);
  EXPECT_EQ(last("cuLaunchKernel"), "2 3 4 / 32 2 1 shared 64 on (nil) parameters 1 extras 0");
  auto tag = [](uintptr_t n) { return reinterpret_cast<void*>(n); };
  void* extra[] = {tag(1), &argument, tag(2), &size, tag(3)};
  EXPECT_EQ(call("hipModuleLaunchKernel", function, 1u, 1u, 1u, 1u, 1u, 1u, 0u, static_cast<void*>(nullptr),
                 static_cast<void**>(nullptr), static_cast<void**>(extra)),
            hip::kSuccess);
  EXPECT_EQ(last("cuLaunchKernel"), "1 1 1 / 1 1 1 shared 0 on (nil) parameters 0 extras 4");
  EXPECT_EQ(call("hipModuleUnload", module), hip::kSuccess);
}

}  // namespace
