// The kernels as HIP and CUDA know them: ids of threads and blocks, and barriers between phases. What they do is in
// the headers. Compiled for devices alone, by clang (-x hip, -x cuda) or nvcc.
#include "kernels/copy.h"
#include "kernels/crc32c.h"

#if defined(__CUDACC__) && !defined(__clang__)
#define KERNELS_ENTRY extern "C" __global__ void __launch_bounds__(kernels::kThreads)
#define KERNELS_SHARED __shared__
#elif defined(__HIP__)
#define KERNELS_ENTRY \
  extern "C" __attribute__((global, amdgpu_flat_work_group_size(kernels::kThreads, kernels::kThreads))) void
#define KERNELS_SHARED __attribute__((shared))
#else
#define KERNELS_ENTRY extern "C" __attribute__((global, launch_bounds(kernels::kThreads))) void
#define KERNELS_SHARED __attribute__((shared))
#endif

namespace {

#if defined(__HIP__)
KERNELS_DEVICE inline unsigned thread() { return __builtin_amdgcn_workitem_id_x(); }
KERNELS_DEVICE inline unsigned block_x() { return __builtin_amdgcn_workgroup_id_x(); }
KERNELS_DEVICE inline unsigned block_y() { return __builtin_amdgcn_workgroup_id_y(); }
KERNELS_DEVICE inline void barrier() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
#else
#define KERNELS_REGISTER(name)                           \
  unsigned value;                                        \
  asm volatile("mov.u32 %0, %%" name ";" : "=r"(value)); \
  return value
KERNELS_DEVICE inline unsigned thread() { KERNELS_REGISTER("tid.x"); }
KERNELS_DEVICE inline unsigned block_x() { KERNELS_REGISTER("ctaid.x"); }
KERNELS_DEVICE inline unsigned block_y() { KERNELS_REGISTER("ctaid.y"); }
KERNELS_DEVICE inline void barrier() { asm volatile("bar.sync 0;" ::: "memory"); }
#endif

}  // namespace

KERNELS_ENTRY hipfile_copy_segments(const kernels::Segment* segments, unsigned count, unsigned width,
                                    unsigned height) {
  kernels::copy_segments(segments, count, {thread(), block_x(), block_y(), width, height});
}

KERNELS_ENTRY hipfile_crc32c(kernels::Crc32cPlan plan, unsigned* remainders) {
  KERNELS_SHARED static kernels::Crc32cShared shared;
  kernels::crc32c_prepare(shared, thread());
  barrier();
  kernels::crc32c_accumulate(plan, shared, block_x(), thread());
  barrier();
  kernels::crc32c_fold(shared, thread());
  barrier();
  kernels::crc32c_store(shared, remainders, block_x(), thread());
}
