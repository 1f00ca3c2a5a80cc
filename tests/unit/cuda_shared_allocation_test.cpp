// Allocations of another process that a descriptor names.
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "cuda/shared_allocation.h"
#include "cuda_fixture.h"
#include "posix/fd.h"

using namespace cuda_test;

namespace {

TEST(CudaSharedAllocation, MapsWhatADescriptorHoldsAndLetsItGo) {
  auto init = driver_function<hip::Error (*)(unsigned)>("cuInit");
  auto retain = driver_function<hip::Error (*)(Context*, int)>("cuDevicePrimaryCtxRetain");
  auto set = driver_function<hip::Error (*)(Context)>("cuCtxSetCurrent");
  Context context = nullptr;
  init(0);
  retain(&context, 0);
  set(context);
  posix::Fd fd(memfd_create("allocation", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(fd.get(), 4 * kMiB), 0);
  hip::Error error = hip::kSuccess;
  const int released = calls("cuMemRelease"), unmapped = calls("cuMemUnmap"),
            freed = calls("cuMemAddressFree");
  {
    auto a = cuda::SharedAllocation::map(fd.get(), 3 * kMiB, 0, error);
    ASSERT_TRUE(a) << error;
    EXPECT_EQ(a->size(), 4 * kMiB);
    memcpy(a->address() + 3 * kMiB - 4, "here", 4);
  }
  char back[5] = {};
  ASSERT_EQ(pread(fd.get(), back, 4, 3 * kMiB - 4), 4);
  EXPECT_STREQ(back, "here");
  EXPECT_EQ(calls("cuMemRelease"), released + 1);
  EXPECT_EQ(calls("cuMemUnmap"), unmapped + 1);
  EXPECT_EQ(calls("cuMemAddressFree"), freed + 1);
  // Larger than what is there: everything taken so far is given back.
  EXPECT_EQ(cuda::SharedAllocation::map(fd.get(), 5 * kMiB, 0, error), nullptr);
  EXPECT_EQ(error, hip::kErrorInvalidValue);
  EXPECT_EQ(calls("cuMemRelease"), released + 2);
  EXPECT_EQ(calls("cuMemAddressFree"), freed + 2);
  EXPECT_EQ(cuda::SharedAllocation::map(-1, kMiB, 0, error), nullptr);
  EXPECT_EQ(cuda::SharedAllocation::map(fd.get(), 0, 0, error), nullptr);
  EXPECT_EQ(cuda::SharedAllocation::map(fd.get(), SIZE_MAX, 0, error), nullptr);
}

}  // namespace
