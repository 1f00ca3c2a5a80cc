#include "mount_client.h"

#include <sys/ioctl.h>
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "engine/route.h"

namespace tools {
namespace {

constexpr size_t kChunk = size_t{8} << 20;

class Hash {
 public:
  Hash() : state_(XXH3_createState(), XXH3_freeState) { XXH3_128bits_reset(state_.get()); }
  void add(const void* bytes, size_t length) { XXH3_128bits_update(state_.get(), bytes, length); }
  std::string text() const {
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state_.get()));
    std::string out;
    for (unsigned char byte : canonical.digest) {
      constexpr char kDigits[] = "0123456789abcdef";
      out += kDigits[byte >> 4];
      out += kDigits[byte & 15];
    }
    return out;
  }

 private:
  std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state_;
};

posix::Error hip_error(const gpu::Runtime& runtime, const char* call, hip::Error error) {
  return {error == hip::kErrorOutOfMemory ? ENOMEM : EIO,
          std::string(call) + " (" + runtime.error_name(error) + ")"};
}

}  // namespace

posix::Result<TargetMemory> TargetMemory::on_device(std::shared_ptr<const gpu::Runtime> runtime, int device,
                                                    size_t size) {
  TargetMemory m;
  if (hip::Error e = runtime->hip().hipSetDevice(device); e != hip::kSuccess)
    return tl::unexpected(hip_error(*runtime, "hipSetDevice", e));
  if (hip::Error e = runtime->hip().hipMalloc(&m.address_, std::max<size_t>(size, 1)); e != hip::kSuccess)
    return tl::unexpected(hip_error(*runtime, "hipMalloc", e));
  m.runtime_ = std::move(runtime);
  m.device_ = device;
  m.size_ = size;
  // Memory that was never touched may still have to be found page by page, which is not what a transfer
  // costs.
  if (hip::Error e = m.runtime_->hip().hipMemset(m.address_, 0, std::max<size_t>(size, 1));
      e != hip::kSuccess)
    return tl::unexpected(hip_error(*m.runtime_, "hipMemset", e));
  return m;
}

posix::Result<TargetMemory> TargetMemory::from_descriptor(int fd, size_t size) {
  if (fcntl(fd, F_GETFD) < 0) return posix::last_failure("descriptor " + std::to_string(fd));
  TargetMemory m;
  m.fd_ = fd;
  m.size_ = size;
  return m;
}

TargetMemory::TargetMemory(TargetMemory&& other) noexcept
    : runtime_(std::move(other.runtime_)),
      device_(other.device_),
      address_(std::exchange(other.address_, nullptr)),
      fd_(other.fd_),
      size_(other.size_) {}

TargetMemory::~TargetMemory() {
  if (address_) runtime_->hip().hipFree(address_);
}

std::string TargetMemory::describe() const {
  return runtime_ ? runtime_->describe() : "memory of descriptor " + std::to_string(fd_);
}

posix::Result<void> TargetMemory::fill(hipfile_fuse_register& r) const {
  r.length = std::max<size_t>(size_, 1);
  if (fd_ >= 0) {
    r.kind = HIPFILE_FUSE_BUFFER_FD;
    r.fd = fd_;
    return {};
  }
  r.kind = HIPFILE_FUSE_BUFFER_HIP_IPC;
  r.fd = -1;
  r.device = device_;
  hip::IpcMemHandle handle;
  if (hip::Error e = runtime_->hip().hipIpcGetMemHandle(&handle, address_); e != hip::kSuccess)
    return tl::unexpected(hip_error(*runtime_, "hipIpcGetMemHandle", e));
  memcpy(r.ipc_handle, &handle, sizeof handle);
  return {};
}

posix::Result<std::string> TargetMemory::checksum(size_t length) const {
  Hash hash;
  if (fd_ >= 0) {
    auto mapping = posix::Mapping::shared(fd_, std::max<size_t>(length, 1));
    if (!mapping) return tl::unexpected(mapping.error());
    hash.add(mapping->data(), length);
    return hash.text();
  }
  void* pinned = nullptr;
  if (hip::Error e = runtime_->hip().hipHostMalloc(&pinned, kChunk, 0); e != hip::kSuccess)
    return tl::unexpected(hip_error(*runtime_, "hipHostMalloc", e));
  hip::Error error = hip::kSuccess;
  for (size_t done = 0; done < length && error == hip::kSuccess;) {
    size_t part = std::min(kChunk, length - done);
    error = runtime_->hip().hipMemcpy(pinned, static_cast<char*>(address_) + done, part,
                                      hip::kMemcpyDeviceToHost);
    hash.add(pinned, part);
    done += part;
  }
  runtime_->hip().hipHostFree(pinned);
  if (error != hip::kSuccess) return tl::unexpected(hip_error(*runtime_, "hipMemcpy", error));
  return hash.text();
}

posix::Result<hipfile_fuse_info> mount_info(int fd) {
  hipfile_fuse_info info{};
  info.version = HIPFILE_FUSE_ABI_VERSION;
  if (ioctl(fd, HIPFILE_FUSE_IOC_INFO, &info) < 0) {
    if (errno == ENOTTY) return posix::failure(ENOTTY, "not on a hipfile-fuse mount");
    return posix::last_failure("ask the mount (INFO)");
  }
  return info;
}

posix::Result<uint64_t> register_memory(int fd, const TargetMemory& memory, uint32_t flags) {
  hipfile_fuse_register r{};
  r.version = HIPFILE_FUSE_ABI_VERSION;
  r.flags = flags;
  if (auto filled = memory.fill(r); !filled) return tl::unexpected(filled.error());
  if (ioctl(fd, HIPFILE_FUSE_IOC_REGISTER, &r) < 0)
    return posix::last_failure("register " + memory.describe());
  return r.buffer_id;
}

const char* route_name(uint32_t route) { return engine::name(static_cast<engine::Route>(route)); }

std::string reason_text(uint32_t reason) {
  if (reason >= engine::kReasons) return "unknown reason " + std::to_string(reason);
  return engine::text(static_cast<engine::Reason>(reason));
}

posix::Result<std::string> file_checksum(int fd, uint64_t offset, uint64_t length) {
  Hash hash;
  std::vector<char> chunk(kChunk);
  for (uint64_t done = 0; done < length;) {
    ssize_t n =
        pread(fd, chunk.data(), std::min<uint64_t>(kChunk, length - done), static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return posix::last_failure("read");
    if (n == 0) return posix::failure(EIO, "file ended early");
    hash.add(chunk.data(), static_cast<size_t>(n));
    done += static_cast<uint64_t>(n);
  }
  return hash.text();
}

}  // namespace tools
