#include <algorithm>

#include "gpu/stream.h"
#include "posix/mapping.h"
#include "transport.h"

namespace bench {
namespace {

class MemcpyTransport : public Transport {
 public:
  static OpenedTransport open(const Workload& w) {
    auto from = posix::Mapping::anonymous(w.span), to = posix::Mapping::anonymous(w.span);
    if (!from) return tl::unexpected(from.error());
    if (!to) return tl::unexpected(to.error());
    memset(from->data(), 1, w.span);
    memset(to->data(), 2, w.span);
    return std::make_unique<MemcpyTransport>(std::move(*from), std::move(*to));
  }
  MemcpyTransport(posix::Mapping from, posix::Mapping to) : from_(std::move(from)), to_(std::move(to)) {}
  posix::Result<std::unique_ptr<Channel>> channel() override {
    return std::make_unique<MemcpyChannel>(from_.data(), to_.data());
  }
  bool is_whole() const override { return false; }

 private:
  class MemcpyChannel : public Channel {
   public:
    MemcpyChannel(const char* from, char* to) : from_(from), to_(to) {}
    posix::Result<void> move(std::span<const Request> requests) override {
      for (const Request& r : requests) memcpy(to_ + r.offset, from_ + r.offset, r.length);
      return {};
    }

   private:
    const char* from_;
    char* to_;
  };
  posix::Mapping from_, to_;
};

class DeviceCopyTransport : public Transport {
 public:
  DeviceCopyTransport(const Workload& w, std::shared_ptr<const gpu::Runtime> runtime, char* device)
      : workload_(w), runtime_(std::move(runtime)), device_(device) {}
  posix::Result<std::unique_ptr<Channel>> channel() override;
  bool is_whole() const override { return false; }

 private:
  friend class DeviceCopyChannel;
  const Workload workload_;
  std::shared_ptr<const gpu::Runtime> runtime_;
  char* device_;
};

/// Copies of Workload::chunk, queued on one stream and waited for once.
class DeviceCopyChannel : public Channel {
 public:
  DeviceCopyChannel(const DeviceCopyTransport& t, PinnedMemory pinned, gpu::Stream stream)
      : t_(t), pinned_(std::move(pinned)), stream_(std::move(stream)) {}

  posix::Result<void> move(std::span<const Request> requests) override {
    for (const Request& request : requests) {
      for (uint64_t done = 0; done < request.length; done += t_.workload_.chunk) {
        const uint64_t part = std::min(t_.workload_.chunk, request.length - done);
        if (hip::Error e = copy(t_.device_ + request.offset + done, part); e != hip::kSuccess)
          return tl::unexpected(hip_failure(*t_.runtime_, "hipMemcpyAsync", e));
      }
    }
    if (hip::Error e = hip().hipStreamSynchronize(stream_.handle()); e != hip::kSuccess)
      return tl::unexpected(hip_failure(*t_.runtime_, "hipStreamSynchronize", e));
    return {};
  }

 private:
  const gpu::HipTable& hip() const { return t_.runtime_->hip(); }
  hip::Error copy(char* device, uint64_t length) {
    if (t_.workload_.direction == Direction::write)
      return hip().hipMemcpyAsync(pinned_.data(), device, length, hip::kMemcpyDeviceToHost, stream_.handle());
    return hip().hipMemcpyAsync(device, pinned_.data(), length, hip::kMemcpyHostToDevice, stream_.handle());
  }

  const DeviceCopyTransport& t_;
  PinnedMemory pinned_;
  gpu::Stream stream_;
};

posix::Result<std::unique_ptr<Channel>> DeviceCopyTransport::channel() {
  auto pinned = PinnedMemory::make(runtime_, std::min(workload_.chunk, workload_.size));
  if (!pinned) return tl::unexpected(pinned.error());
  auto stream = gpu::Stream::create(runtime_);
  if (!stream) return tl::unexpected(hip_failure(*runtime_, "hipStreamCreate", stream.error()));
  return std::make_unique<DeviceCopyChannel>(*this, std::move(*pinned), std::move(*stream));
}

}  // namespace

OpenedTransport open_copy_transport(const Workload& w, Session& session) {
  if (w.transport == "memcpy") return MemcpyTransport::open(w);
  if (w.transport != "device_copy") return nullptr;
  auto memory = session.memory(w.span);
  if (!memory) return tl::unexpected(memory.error());
  return std::make_unique<DeviceCopyTransport>(w, session.runtime(), (*memory)->address());
}

}  // namespace bench
