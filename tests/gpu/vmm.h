// CUDA's virtual memory management, as PyTorch's expandable segments use it, without a header of CUDA.
#pragma once

#include <dlfcn.h>

#include <cstddef>
#include <optional>
#include <vector>

namespace gpu_test {

struct Vmm {
  using Handle = unsigned long long;
  struct Location {
    int type = 1, id = 0;  // device 0
  };
  struct Properties {
    int type = 1, handle_types = 1;  // pinned, by descriptor
    Location location;
    void* windows = nullptr;
    unsigned char compression = 0, gpu_direct = 0;
    unsigned short usage = 0;
    unsigned char reserved[4] = {};
  };
  struct Access {
    Location location;
    int flags = 3;  // reading and writing
  };
  int (*create)(Handle*, size_t, const Properties*, unsigned long long) = nullptr;
  int (*release)(Handle) = nullptr;
  int (*granularity)(size_t*, const Properties*, int) = nullptr;
  int (*reserve)(void**, size_t, size_t, void*, unsigned long long) = nullptr;
  int (*unreserve)(void*, size_t) = nullptr;
  int (*map)(void*, size_t, size_t, Handle, unsigned long long) = nullptr;
  int (*unmap)(void*, size_t) = nullptr;
  int (*set_access)(void*, size_t, const Access*, size_t) = nullptr;
  int (*share)(void*, Handle, int, unsigned long long) = nullptr;

  /// Empty without libcuda. A context must be current when it is used.
  static std::optional<Vmm> load() {
    void* library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) return std::nullopt;
    Vmm v;
    auto find = [library](const char* name, auto& slot) {
      slot = reinterpret_cast<std::remove_reference_t<decltype(slot)>>(dlsym(library, name));
      return slot != nullptr;
    };
    if (find("cuMemCreate", v.create) && find("cuMemRelease", v.release) &&
        find("cuMemGetAllocationGranularity", v.granularity) && find("cuMemAddressReserve", v.reserve) &&
        find("cuMemAddressFree", v.unreserve) && find("cuMemMap", v.map) && find("cuMemUnmap", v.unmap) &&
        find("cuMemSetAccess", v.set_access) && find("cuMemExportToShareableHandle", v.share))
      return v;
    return std::nullopt;
  }
};

/// Several allocations, mapped one behind the other.
class Segment {
 public:
  Segment(const Vmm& vmm, size_t parts) : vmm_(vmm) {
    Vmm::Properties properties;
    if (vmm.granularity(&part_, &properties, 0) != 0) return;
    void* address = nullptr;
    if (vmm.reserve(&address, part_ * (parts + 1), 0, nullptr, 0) != 0) return;
    reserved_ = part_ * (parts + 1);
    address_ = static_cast<char*>(address);
    for (size_t i = 0; i < parts; i++) {
      Vmm::Handle handle = 0;
      if (vmm.create(&handle, part_, &properties, 0) != 0) break;
      handles_.push_back(handle);
      if (vmm.map(address_ + i * part_, part_, 0, handle, 0) != 0) break;
      mapped_++;
    }
    Vmm::Access access;
    complete_ = mapped_ == parts && vmm.set_access(address_, size(), &access, 1) == 0;
  }
  ~Segment() {
    for (size_t i = 0; i < mapped_; i++) vmm_.unmap(address_ + i * part_, part_);
    for (auto handle : handles_) vmm_.release(handle);
    if (reserved_) vmm_.unreserve(address_, reserved_);
  }
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;
  /// Null if it could not be made.
  char* address() const { return complete_ ? address_ : nullptr; }
  size_t size() const { return mapped_ * part_; }
  size_t part_size() const { return part_; }
  /// A descriptor of one part, or -1.
  int share(size_t part) const {
    int fd = -1;
    return vmm_.share(&fd, handles_.at(part), 1, 0) == 0 ? fd : -1;
  }

 private:
  Vmm vmm_;
  char* address_ = nullptr;
  size_t part_ = 0, reserved_ = 0, mapped_ = 0;
  std::vector<Vmm::Handle> handles_;
  bool complete_ = false;
};

}  // namespace gpu_test
