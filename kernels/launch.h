// Starts the kernels: small copies in one launch, and checksums of device memory.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <tl/expected.hpp>
#include <type_traits>
#include <utility>

#include "hip_abi/hip_abi.h"
#include "kernels/copy.h"
#include "kernels/crc32c.h"

namespace kernels {

/// What is needed of a HIP runtime.
struct Functions {
  hip::Error (*hipModuleLoadData)(hip::Module*, const void*) = nullptr;
  hip::Error (*hipModuleUnload)(hip::Module) = nullptr;
  hip::Error (*hipModuleGetFunction)(hip::Function*, hip::Module, const char*) = nullptr;
  hip::Error (*hipModuleLaunchKernel)(hip::Function, unsigned, unsigned, unsigned, unsigned, unsigned,
                                      unsigned, unsigned, hip::Stream, void**, void**) = nullptr;
  hip::Error (*hipGetLastError)() = nullptr;

  /// From any table with members of these names.
  template <typename Table>
  static Functions from(const Table& table) {
    return {table.hipModuleLoadData, table.hipModuleUnload, table.hipModuleGetFunction,
            table.hipModuleLaunchKernel, table.hipGetLastError};
  }
  bool complete() const {
    return hipModuleLoadData && hipModuleUnload && hipModuleGetFunction && hipModuleLaunchKernel &&
           hipGetLastError;
  }
};

/// Blocks of a launch.
struct Grid {
  uint32 x, y;
  bool operator==(const Grid&) const = default;
};

/// The most blocks that copy. PCIe 5.0 x16 has about 128 KiB on the way (64 GB/s, 2 us), which 32 blocks of one
/// granule a thread hold; segments end and begin at different times, so it is sixteen times that, and still leaves
/// most of a large GPU to others.
inline constexpr uint32 kCopyMostBlocks = 512;
/// Segments that are worked on at once at least, however long one of them is: each costs its blocks a round trip.
inline constexpr uint32 kCopySegmentsAtOnce = 64;

/// The grid for `count` segments (at least 1), the longest of `longest` bytes.
Grid copy_grid(uint32 count, uint64 longest);

/// The kernels on one device. Immutable, so usable from any thread. The runtime must outlive it.
class Kernels {
 public:
  /// Loads `image`, a bundle or PTX, for the current device; it must stay where it is. kErrorNotSupported if it is
  /// empty or the runtime lacks a function, else what the runtime says: kErrorNoBinaryForGpu for a device that the
  /// image has nothing for.
  static tl::expected<Kernels, hip::Error> load(const Functions& functions, std::span<const std::byte> image);

  /// Copies every segment, in no order, when `stream` comes to it. Scatters where the sources lie in one pinned
  /// slot and the destinations in VRAM, and gathers the other way round. `segments` is read by the host now and by
  /// the device later, at the same address: it must be pinned memory of hipHostMalloc and stay unchanged until
  /// then. Nothing is launched for none. `stream` and this must belong to the current device.
  hip::Error copy(std::span<const Segment> segments, hip::Stream stream) const;

  /// Works out the remainders of `plan`'s range when `stream` comes to it. `remainders`: plan.blocks words of
  /// pinned or device memory; crc32c_of(plan, remainders) is the checksum once the host has them. Nothing is
  /// launched for an empty range. `stream` and this must belong to the current device.
  hip::Error crc32c(const Crc32cPlan& plan, uint32_t* remainders, hip::Stream stream) const;

 private:
  struct Unload {
    Functions functions;
    void operator()(hip::Module module) const { functions.hipModuleUnload(module); }
  };
  using Module = std::unique_ptr<std::remove_pointer_t<hip::Module>, Unload>;

  Kernels(Module module, hip::Function copy, hip::Function crc32c)
      : module_(std::move(module)), copy_(copy), crc32c_(crc32c) {}
  hip::Error launch(hip::Function function, const Grid& grid, void** parameters, hip::Stream stream) const;

  Module module_;
  hip::Function copy_;
  hip::Function crc32c_;
};

/// The kernels of every device, each loaded when first asked for. Thread-safe.
class PerDevice {
 public:
  PerDevice(const Functions& functions, std::span<const std::byte> image)
      : functions_(functions), image_(image) {}

  /// Those of `device`, which must be the current one; they live as long as this does. A failure to load them is
  /// remembered.
  tl::expected<const Kernels*, hip::Error> of(int device);

 private:
  const Functions functions_;
  const std::span<const std::byte> image_;
  std::mutex mutex_;
  std::map<int, tl::expected<Kernels, hip::Error>> loaded_;
};

}  // namespace kernels
