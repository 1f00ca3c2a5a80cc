// The ways data can go between file and memory, and the reasons for not going a better one.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace engine {

/// Numbers are part of the ioctl ABI (hipfile_fuse.h).
enum class Route : uint32_t { none = 0, peer = 1, pages = 2, cached = 3, staged = 4, store = 5 };
inline constexpr size_t kRoutes = 6;

/// Numbers are part of the ioctl ABI (hipfile_fuse.h).
enum class Reason : uint32_t {
  none = 0,
  disabled = 1,
  no_runtime_ais = 2,
  host_pages = 3,
  not_pages = 4,
  no_direct_io = 5,
  file_system = 6,
  journaled_data = 7,
  offset_alignment = 8,
  memory_alignment = 9,
  too_small = 10,
  failed = 11,
  failed_before = 12,
  not_regular = 13,
  imported_memory = 14,
  not_cached = 15,
  encrypted_file = 16,
  verified_file = 17,
  compressed_file = 18,
  inline_data = 19,
  encrypted_volume = 20,
  checked_volume = 21,
  software_raid = 22,
  multipath = 23,
  loop_device = 24,
  memory_disk = 25,
  network_storage = 26,
  not_nvme = 27,
  device_mapper = 28,
  too_many_devices = 29,
  gpu_without_ais = 30,
  ais_disabled = 31,
  virtual_function = 32,
  integrated_gpu = 33,
  small_bar = 34,
  kernel_without_p2pdma = 35,
  no_peer_path = 36,
  no_gpu = 37,
  not_small = 38,
  in_page_cache = 39,
};
inline constexpr size_t kReasons = 40;

const char* name(Route route);
/// One sentence for people.
const char* text(Reason reason);
/// What would have to change for the better route, for people; "" where nothing can be done or needs to be.
const char* advice(Reason reason);

/// A set of routes.
class RouteSet {
 public:
  static RouteSet all();
  /// "peer,pages,cached,staged" or "all"; nothing if a name is unknown or the list is empty.
  static std::optional<RouteSet> parse(const std::string& names);
  bool has(Route route) const { return bits_ & bit(route); }
  RouteSet operator&(const RouteSet& other) const {
    RouteSet both;
    both.bits_ = bits_ & other.bits_;
    return both;
  }
  void add(Route route) { bits_ |= bit(route); }
  void remove(Route route) { bits_ &= ~bit(route); }

 private:
  static uint32_t bit(Route route) { return 1u << static_cast<uint32_t>(route); }
  uint32_t bits_ = 0;
};

}  // namespace engine
