// What a pointer is, and the allocation that it lies in.
#include <cstring>

#include "driver.h"

using namespace fake_cuda;

namespace {

enum { kMemoryType = 2, kDevicePointer = 3, kHostPointer = 4, kIsManaged = 8, kOrdinal = 9 };

// As CUDA: 0 for pointers that are not known.
Error one_attribute(void* out, int attribute, void* p) {
  hip::PointerAttributes a{};
  if (mapped_range(p))
    a = {2, 0, p, nullptr, 0, 0};
  else if (forward("hipPointerGetAttributes", &a, static_cast<const void*>(p)) != hip::kSuccess ||
           a.type == 0)
    return hip::kErrorInvalidValue;
  auto put = [out](auto value) {
    memcpy(out, &value, sizeof value);
    return hip::kSuccess;
  };
  switch (attribute) {
    case kMemoryType:
      return put(a.type == 1 ? 1u : 2u);
    case kDevicePointer:
      return put(a.device_pointer);
    case kHostPointer:
      return put(a.host_pointer);
    case kIsManaged:
      return put(a.is_managed);
    case kOrdinal:
      return put(a.device);
    default:
      return forward("hipPointerGetAttribute", out, attribute, p);
  }
}

}  // namespace

CUDA_EXPORT Error cuPointerGetAttribute(void* out, int attribute, void* p) {
  ENTER();
  return one_attribute(out, attribute, p);
}
CUDA_EXPORT Error cuPointerGetAttributes(unsigned count, int* attributes, void** out, void* p) {
  ENTER();
  for (unsigned i = 0; i < count; i++)
    if (one_attribute(out[i], attributes[i], p) != hip::kSuccess)
      memset(out[i], 0, attributes[i] == kDevicePointer || attributes[i] == kHostPointer ? 8 : 4);
  return hip::kSuccess;
}
CUDA_EXPORT Error cuMemGetAddressRange_v2(void** base, size_t* size, void* p) {
  ENTER();
  if (auto range = mapped_range(p)) {
    *base = range->base;
    *size = range->size;
    return hip::kSuccess;
  }
  unsigned type = 0;
  if (one_attribute(&type, kMemoryType, p) != hip::kSuccess || type != 2) return hip::kErrorNotFound;
  return forward("hipMemGetAddressRange", base, size, p);
}
