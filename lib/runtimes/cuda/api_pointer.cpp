// What a pointer is, and the allocation that it lies in.
#include <cstring>

#include "runtime.h"

using cuda::call;

namespace {

// hipMemoryType changed its numbers with HIP 6.
struct TypeNumbers {
  int unregistered, host, device, managed;
};
constexpr TypeNumbers kTypes = cuda::kMajor == 5 ? TypeNumbers{-1, 0, 1, 1} : TypeNumbers{0, 1, 2, 3};

struct Pointer {
  unsigned type = cuda::kMemoryUnknown;
  unsigned managed = 0;
  int device = 0;
  void *on_device = nullptr, *on_host = nullptr;
  int type_number() const {
    return managed                       ? kTypes.managed
           : type == cuda::kMemoryHost   ? kTypes.host
           : type == cuda::kMemoryDevice ? kTypes.device
                                         : kTypes.unregistered;
  }
};

// CUDA answers for pointers that it does not know, too: with a type of 0.
hip::Error look(const void* p, Pointer& out) {
  cuda::PointerAttribute what[] = {cuda::kPointerMemoryType, cuda::kPointerIsManaged, cuda::kPointerOrdinal,
                                   cuda::kPointerDevice, cuda::kPointerHost};
  void* where[] = {&out.type, &out.managed, &out.device, &out.on_device, &out.on_host};
  return call().cuPointerGetAttributes(std::size(what), what, where, p);
}

hip::Error attributes(hip::PointerAttributes* out, const void* p) {
  if (!out || !p) return hip::kErrorInvalidValue;
  *out = {};
  Pointer found;
  if (hip::Error error = look(p, found); error != hip::kSuccess) return error;
  if (found.type == cuda::kMemoryUnknown) {
    if (cuda::kMajor == 5) return hip::kErrorInvalidValue;
    out->type = kTypes.unregistered;
    out->device = hip::kInvalidDeviceId;
    return hip::kSuccess;
  }
  out->type = found.type_number();
  out->device = found.device;
  out->device_pointer = found.on_device;
  out->host_pointer = found.type == cuda::kMemoryDevice && !found.managed ? nullptr : found.on_host;
  out->is_managed = found.managed != 0;
  return hip::kSuccess;
}

bool is_mapped_allocation(void* p) {
  cuda::AllocationHandle handle = 0;
  if (cuda::call_if(call().cuMemRetainAllocationHandle, &handle, p) != hip::kSuccess) return false;
  cuda::call_if(call().cuMemRelease, handle);
  return true;
}

// Memory made with cuMemCreate may be one range of addresses over many allocations (PyTorch's expandable segments),
// all of which one copy can cross: the range reaches to the last of them.
size_t extend_over_neighbours(void* base, size_t size) {
  if (!is_mapped_allocation(base)) return size;
  for (;;) {
    char* next = static_cast<char*>(base) + size;
    void* next_base = nullptr;
    size_t next_size = 0;
    if (call().cuMemGetAddressRange(&next_base, &next_size, next) != hip::kSuccess || next_base != next ||
        next_size == 0 || !is_mapped_allocation(next))
      return size;
    size += next_size;
  }
}

hip::Error address_range(void* p, void*& base, size_t& size) {
  if (!p) return hip::kErrorInvalidValue;
  hip::Error error = call().cuMemGetAddressRange(&base, &size, p);
  if (error == hip::kSuccess) {
    size = extend_over_neighbours(base, size);
    return error;
  }
  // Pinned memory has a range, too, but is no device memory to the call above.
  if (call().cuPointerGetAttribute(&base, cuda::kPointerRangeStart, p) == hip::kSuccess &&
      call().cuPointerGetAttribute(&size, cuda::kPointerRangeSize, p) == hip::kSuccess && size > 0)
    return hip::kSuccess;
  return hip::kErrorNotFound;
}

}  // namespace

HIP_EXPORT hip::Error hipPointerGetAttributes(hip::PointerAttributes* out, const void* p) {
  HIP_ENTER();
  HIP_RETURN(attributes(out, p));
}
/// Attributes have CUDA's numbers; only memory types are counted differently.
HIP_EXPORT hip::Error hipPointerGetAttribute(void* out, int attribute, void* p) {
  HIP_ENTER();
  if (!out || !p) HIP_RETURN(hip::kErrorInvalidValue);
  if (attribute != cuda::kPointerMemoryType)
    HIP_RETURN(call().cuPointerGetAttribute(out, static_cast<cuda::PointerAttribute>(attribute), p));
  Pointer found;
  if (hip::Error error = look(p, found); error != hip::kSuccess) HIP_RETURN(error);
  if (found.type == cuda::kMemoryUnknown) HIP_RETURN(hip::kErrorInvalidValue);
  const int number = found.type_number();
  memcpy(out, &number, sizeof number);
  HIP_RETURN(hip::kSuccess);
}
HIP_EXPORT hip::Error hipMemGetAddressRange(void** base, size_t* size, void* p) {
  HIP_ENTER();
  void* found = nullptr;
  size_t bytes = 0;
  if (hip::Error error = address_range(p, found, bytes); error != hip::kSuccess) HIP_RETURN(error);
  if (base) *base = found;
  if (size) *size = bytes;
  HIP_RETURN(hip::kSuccess);
}
HIP_EXPORT hip::Error hipMemPtrGetInfo(void* p, size_t* size) {
  HIP_ENTER();
  if (!size) HIP_RETURN(hip::kErrorInvalidValue);
  void* base = nullptr;
  HIP_RETURN(address_range(p, base, *size));
}
