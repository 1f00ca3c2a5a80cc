// The words that device code is written in, for clang (HIP and CUDA), nvcc, and an ordinary host compiler, which runs
// the same code in the tests. No header of HIP or CUDA is needed.
#pragma once

#if defined(__CUDACC__) && !defined(__clang__)  // nvcc
#define KERNELS_DEVICE __device__ __attribute__((always_inline))
#define KERNELS_ANYWHERE __host__ __device__
#define KERNELS_UNROLL _Pragma("unroll")
#define KERNELS_CONSTANT __constant__ const
#define KERNELS_GLOBAL
#elif defined(__HIP__) || defined(__CUDA__)  // clang
#define KERNELS_DEVICE __attribute__((device, always_inline))
#define KERNELS_ANYWHERE __attribute__((host, device))
#define KERNELS_UNROLL _Pragma("unroll")
#define KERNELS_CONSTANT __attribute__((device, constant)) constexpr
#define KERNELS_GLOBAL __attribute__((address_space(1)))
#else  // host
#define KERNELS_UNROLL
#define KERNELS_DEVICE
#define KERNELS_ANYWHERE
#define KERNELS_CONSTANT constexpr
#define KERNELS_GLOBAL
#endif

namespace kernels {

using uint32 = unsigned int;
using uint64 = unsigned long long;
static_assert(sizeof(uint32) == 4 && sizeof(uint64) == 8 && sizeof(void*) == 8);

/// Threads of a block in every kernel: 8 waves of 32 or 4 of 64. No kernel knows the width of a wave.
inline constexpr uint32 kThreads = 256;

}  // namespace kernels
