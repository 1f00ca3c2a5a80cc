// hipDeviceAttribute_t in CUDA's numbers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "hip_abi/hip_abi.h"

namespace cuda {

/// CUdevice_attribute, the ones that are used by name.
enum Attribute : int {
  kNoAttribute = 0,
  kMaxThreadsPerBlock = 1,
  kWarpSize = 10,
  kMultiprocessorCount = 16,
  kIntegrated = 18,
  kPciBusId = 33,
  kPciDeviceId = 34,
  kPciDomainId = 50,
  kComputeCapabilityMajor = 75,
  kComputeCapabilityMinor = 76,
  kMaxSharedMemoryPerMultiprocessor = 81,
  kStreamMemOps64V1 = 93,
  kStreamMemOps64 = 122,
};

// Index: hipDeviceAttribute_t, the same in HIP 5.2 to 7.2 (90 to 92 came with HIP 6). 0: not a number on CUDA.
inline constexpr std::array<uint8_t, 93> kAttributes = {
    32,   // EccEnabled
    109,  // AccessPolicyMaxWindowSize
    40,   // AsyncEngineCount
    19,   // CanMapHostMemory
    91,   // CanUseHostPointerForRegisteredMem
    13,   // ClockRate
    20,   // ComputeMode
    90,   // ComputePreemptionSupported
    31,   // ConcurrentKernels
    89,   // ConcurrentManagedAccess
    95,   // CooperativeLaunch
    96,   // CooperativeMultiDeviceLaunch
    15,   // DeviceOverlap
    101,  // DirectManagedMemAccessFromHost
    79,   // GlobalL1CacheSupported
    86,   // HostNativeAtomicSupported
    18,   // Integrated
    84,   // IsMultiGpuBoard
    17,   // KernelExecTimeout
    38,   // L2CacheSize
    80,   // LocalL1CacheSupported
    0,    // Luid
    0,    // LuidDeviceNodeMask
    75,   // ComputeCapabilityMajor
    83,   // ManagedMemory
    106,  // MaxBlocksPerMultiProcessor
    2,    // MaxBlockDimX
    3,    // MaxBlockDimY
    4,    // MaxBlockDimZ
    5,    // MaxGridDimX
    6,    // MaxGridDimY
    7,    // MaxGridDimZ
    55,   // MaxSurface1D
    61,   // MaxSurface1DLayered
    56,   // MaxSurface2D
    63,   // MaxSurface2DLayered
    58,   // MaxSurface3D
    66,   // MaxSurfaceCubemap
    67,   // MaxSurfaceCubemapLayered
    21,   // MaxTexture1DWidth
    42,   // MaxTexture1DLayered
    69,   // MaxTexture1DLinear
    77,   // MaxTexture1DMipmap
    22,   // MaxTexture2DWidth
    23,   // MaxTexture2DHeight
    45,   // MaxTexture2DGather
    27,   // MaxTexture2DLayered
    70,   // MaxTexture2DLinear
    73,   // MaxTexture2DMipmap
    24,   // MaxTexture3DWidth
    25,   // MaxTexture3DHeight
    26,   // MaxTexture3DDepth
    47,   // MaxTexture3DAlt
    52,   // MaxTextureCubemap
    53,   // MaxTextureCubemapLayered
    2,    // MaxThreadsDim
    1,    // MaxThreadsPerBlock
    39,   // MaxThreadsPerMultiProcessor
    11,   // MaxPitch
    37,   // MemoryBusWidth
    36,   // MemoryClockRate
    76,   // ComputeCapabilityMinor
    85,   // MultiGpuBoardGroupID
    16,   // MultiprocessorCount
    0,    // Name
    88,   // PageableMemoryAccess
    100,  // PageableMemoryAccessUsesHostPageTables
    33,   // PciBusId
    34,   // PciDeviceId
    50,   // PciDomainID
    108,  // PersistingL2CacheMaxSize
    12,   // MaxRegistersPerBlock
    82,   // MaxRegistersPerMultiprocessor
    111,  // ReservedSharedMemPerBlock
    8,    // MaxSharedMemoryPerBlock
    97,   // SharedMemPerBlockOptin
    81,   // SharedMemPerMultiprocessor
    87,   // SingleToDoublePrecisionPerfRatio
    78,   // StreamPrioritiesSupported
    30,   // SurfaceAlignment
    35,   // TccDriver
    14,   // TextureAlignment
    51,   // TexturePitchAlignment
    9,    // TotalConstantMemory
    0,    // TotalGlobalMem
    41,   // UnifiedAddressing
    0,    // Uuid
    10,   // WarpSize
    115,  // MemoryPoolsSupported
    102,  // VirtualMemoryManagementSupported
    99,   // HostRegisterSupported
    119,  // MemoryPoolSupportedHandleTypes
    134,  // HostNumaId
};
static_assert(kAttributes[hip::kAttributeIntegrated] == kIntegrated);
static_assert(kAttributes[hip::kAttributeManagedMemory] == 83);
static_assert(kAttributes[hip::kAttributeMaxThreadsPerBlock] == kMaxThreadsPerBlock);
static_assert(kAttributes[hip::kAttributePciBusId] == kPciBusId);
static_assert(kAttributes[hip::kAttributePciDeviceId] == kPciDeviceId);
static_assert(kAttributes[hip::kAttributeUnifiedAddressing] == 41);

/// kNoAttribute for what CUDA does not have as a number.
inline int cuda_attribute(int hip_attribute) {
  constexpr int kMaxSharedMemoryPerMultiprocessorAmd = 10002, kPhysicalMultiProcessorCount = 10015;
  if (hip_attribute == kMaxSharedMemoryPerMultiprocessorAmd) return kMaxSharedMemoryPerMultiprocessor;
  if (hip_attribute == kPhysicalMultiProcessorCount) return kMultiprocessorCount;
  if (hip_attribute < 0 || static_cast<size_t>(hip_attribute) >= kAttributes.size()) return kNoAttribute;
  return kAttributes[static_cast<size_t>(hip_attribute)];
}

}  // namespace cuda
