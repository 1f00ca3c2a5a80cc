#include "device_memory.h"

#include <algorithm>

#include "pattern.h"

namespace bench {
namespace {

constexpr uint64_t kWindow = 8 << 20;
constexpr int kPoison = 0xa5;

}  // namespace

posix::Error hip_failure(const gpu::Runtime& runtime, const std::string& what, hip::Error error) {
  return {error == hip::kErrorOutOfMemory ? ENOMEM : EIO, what + " (" + runtime.error_name(error) + ")"};
}

posix::Result<PinnedMemory> PinnedMemory::make(std::shared_ptr<const gpu::Runtime> runtime, size_t size) {
  void* data = nullptr;
  if (hip::Error e = runtime->hip().hipHostMalloc(&data, size, 0); e != hip::kSuccess)
    return tl::unexpected(hip_failure(*runtime, "hipHostMalloc", e));
  memset(data, 1, size);
  return PinnedMemory(std::move(runtime), static_cast<char*>(data));
}

PinnedMemory::~PinnedMemory() {
  if (data_) runtime_->hip().hipHostFree(data_);
}

posix::Result<DeviceMemory> DeviceMemory::make(std::shared_ptr<const gpu::Runtime> runtime, int device,
                                               size_t size) {
  auto target = tools::TargetMemory::on_device(runtime, device, size);
  if (!target) return tl::unexpected(target.error());
  auto window = PinnedMemory::make(runtime, kWindow);
  if (!window) return tl::unexpected(window.error());
  return DeviceMemory(std::move(runtime), std::move(*target), std::move(*window));
}

posix::Result<void> DeviceMemory::poison(uint64_t length) {
  if (hip::Error e = runtime_->hip().hipMemset(address(), kPoison, length); e != hip::kSuccess)
    return tl::unexpected(hip_failure(*runtime_, "hipMemset", e));
  // It may return early, and streams that do not wait for the null stream would not wait for it.
  if (hip::Error e = runtime_->hip().hipStreamSynchronize(nullptr); e != hip::kSuccess)
    return tl::unexpected(hip_failure(*runtime_, "hipStreamSynchronize", e));
  return {};
}

posix::Result<void> DeviceMemory::fill(uint64_t length, uint64_t seed) {
  for (uint64_t at = 0; at < length; at += kWindow) {
    const uint64_t part = std::min(kWindow, length - at);
    fill_pattern(window_.data(), part, at, seed);
    hip::Error e = runtime_->hip().hipMemcpy(address() + at, window_.data(), part, hip::kMemcpyHostToDevice);
    if (e != hip::kSuccess) return tl::unexpected(hip_failure(*runtime_, "hipMemcpy to the device", e));
  }
  return {};
}

posix::Result<void> DeviceMemory::compare(const std::vector<Request>& requests, uint64_t seed) {
  for (const Request& request : requests) {
    for (uint64_t done = 0; done < request.length;) {
      const uint64_t at = request.offset + done, part = std::min(kWindow, request.length - done);
      hip::Error e =
          runtime_->hip().hipMemcpy(window_.data(), address() + at, part, hip::kMemcpyDeviceToHost);
      if (e != hip::kSuccess) return tl::unexpected(hip_failure(*runtime_, "hipMemcpy from the device", e));
      if (auto wrong = pattern_mismatch(window_.data(), part, at, seed))
        return posix::failure(EILSEQ, "device memory at " + std::to_string(*wrong));
      done += part;
    }
  }
  return {};
}

}  // namespace bench
