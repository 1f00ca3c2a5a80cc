#include "shared_allocation.h"

#include <cstdint>

#include "runtime.h"

namespace cuda {

std::unique_ptr<SharedAllocation> SharedAllocation::map(int fd, size_t size, int device, hip::Error& error) {
  AllocationProperties properties{};
  properties.type = kPinnedAllocation;
  properties.handle_types = kHandlePosixFd;
  properties.location = {kLocationDevice, driver().devices[static_cast<size_t>(device)]};
  size_t granularity = 0;
  error = call_if(call().cuMemGetAllocationGranularity, &granularity, &properties, kGranularityMinimum);
  if (error != hip::kSuccess) return nullptr;
  if (size == 0 || granularity == 0 || size > SIZE_MAX - granularity) {
    error = hip::kErrorInvalidValue;
    return nullptr;
  }
  std::unique_ptr<SharedAllocation> a(new SharedAllocation);
  a->size_ = (size + granularity - 1) / granularity * granularity;
  error = call_if(call().cuMemImportFromShareableHandle, &a->handle_,
                  reinterpret_cast<void*>(static_cast<uintptr_t>(fd)),  // by value, as CUDA wants it
                  kHandlePosixFd);
  if (error != hip::kSuccess) return nullptr;
  a->imported_ = true;
  error = a->map_for(properties.location.id);
  return error == hip::kSuccess ? std::move(a) : nullptr;
}

hip::Error SharedAllocation::map_for(int device) {
  hip::Error error =
      call_if(call().cuMemAddressReserve, &address_, size_, size_t{0}, static_cast<void*>(nullptr), 0ull);
  if (error != hip::kSuccess) return error;
  error = call_if(call().cuMemMap, address_, size_, size_t{0}, handle_, 0ull);
  if (error != hip::kSuccess) return error;
  mapped_ = true;
  const AccessDescription access{{kLocationDevice, device}, kAccessReadWrite};
  return call_if(call().cuMemSetAccess, address_, size_, &access, size_t{1});
}

SharedAllocation::~SharedAllocation() {
  if (mapped_) call_if(call().cuMemUnmap, address_, size_);
  if (address_) call_if(call().cuMemAddressFree, address_, size_);
  if (imported_) call_if(call().cuMemRelease, handle_);
}

}  // namespace cuda
