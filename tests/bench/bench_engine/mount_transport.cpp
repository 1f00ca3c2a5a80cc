#include <sys/ioctl.h>

#include <algorithm>

#include "posix/mapping.h"
#include "transport.h"

namespace bench {
namespace {

constexpr size_t kReadBytes = 16 << 20;  // of one read(2) on a tagged descriptor, at most

uint32_t op_of(const Workload& w) {
  return w.direction == Direction::write ? HIPFILE_FUSE_OP_WRITE : HIPFILE_FUSE_OP_READ;
}

Route route_of(uint32_t route, uint32_t reason) {
  return {tools::route_name(route), tools::reason_text(reason)};
}

posix::Error short_of(int64_t result, const char* what) {
  return {result < 0 ? static_cast<int>(-result) : ENODATA, what};
}

class MountTransport : public Transport {
 public:
  MountTransport(const Workload& w, const MountRegistration& registration, posix::Fd fd)
      : workload_(w), registration_(registration), fd_(std::move(fd)) {}
  posix::Result<std::unique_ptr<Channel>> channel() override;
  pid_t server() const override { return registration_.daemon; }
  bool is_whole() const override { return workload_.transport != "round_trip"; }

  const Workload& workload() const { return workload_; }
  uint64_t buffer() const { return registration_.buffer_id; }
  int fd() const { return fd_.get(); }

 private:
  const Workload workload_;
  const MountRegistration& registration_;
  posix::Fd fd_;
};

class IoctlChannel : public Channel {
 public:
  explicit IoctlChannel(const MountTransport& transport) : t_(transport) {}

  posix::Result<void> move(std::span<const Request> requests) override {
    for (const Request& request : requests) {
      for (uint64_t done = 0; done < request.length;) {
        last_ = {};
        last_.version = HIPFILE_FUSE_ABI_VERSION;
        last_.op = op_of(t_.workload());
        last_.buffer_id = t_.buffer();
        last_.buffer_offset = last_.file_offset = request.offset + done;
        last_.length = request.length - done;
        if (ioctl(t_.fd(), HIPFILE_FUSE_IOC_IO, &last_) < 0) return posix::last_failure("IO");
        if (last_.result <= 0) return tl::unexpected(short_of(last_.result, "IO"));
        done += static_cast<uint64_t>(last_.result);
      }
    }
    return {};
  }
  Route route() override { return route_of(last_.route, last_.reason); }

 private:
  const MountTransport& t_;
  hipfile_fuse_io last_{};
};

class IoctlBatchChannel : public Channel {
 public:
  explicit IoctlBatchChannel(const MountTransport& transport)
      : t_(transport), batch_(HIPFILE_FUSE_BATCH_BYTES(transport.workload().depth) / sizeof(uint64_t)) {}

  posix::Result<void> move(std::span<const Request> requests) override {
    auto& header = *reinterpret_cast<hipfile_fuse_batch*>(batch_.data());
    header = {};
    header.version = HIPFILE_FUSE_ABI_VERSION;
    header.count = static_cast<uint32_t>(requests.size());
    for (size_t i = 0; i < requests.size(); i++) {
      hipfile_fuse_batch_entry& e = entries()[i];
      e = {};
      e.op = op_of(t_.workload());
      e.buffer_id = t_.buffer();
      e.buffer_offset = e.file_offset = requests[i].offset;
      e.length = requests[i].length;
    }
    if (ioctl(t_.fd(), HIPFILE_FUSE_IOC_BATCH(t_.workload().depth), &header) < 0)
      return posix::last_failure("BATCH");
    for (size_t i = 0; i < requests.size(); i++)
      if (entries()[i].result != static_cast<int64_t>(requests[i].length))
        return tl::unexpected(short_of(entries()[i].result, "entry of BATCH"));
    return {};
  }
  Route route() override { return route_of(entries()[0].route, entries()[0].reason); }

 private:
  hipfile_fuse_batch_entry* entries() {
    return reinterpret_cast<hipfile_fuse_batch_entry*>(reinterpret_cast<hipfile_fuse_batch*>(batch_.data()) +
                                                       1);
  }
  const MountTransport& t_;
  std::vector<uint64_t> batch_;
};

/// read(2) and write(2) on a tagged descriptor of this thread's own.
class TaggedChannel : public Channel {
 public:
  static posix::Result<std::unique_ptr<Channel>> make(const MountTransport& transport) {
    const Workload& w = transport.workload();
    auto fd = open_for(w);
    if (!fd) return tl::unexpected(fd.error());
    auto bytes = posix::Mapping::anonymous(std::min<uint64_t>(w.size, kReadBytes));
    if (!bytes) return tl::unexpected(bytes.error());
    memset(bytes->data(), 1, bytes->size());
    hipfile_fuse_tag tag{};
    tag.version = HIPFILE_FUSE_ABI_VERSION;
    tag.flags = w.direction == Direction::write ? HIPFILE_FUSE_TAG_WRITE : 0;
    tag.buffer_id = transport.buffer();
    tag.length = w.span;
    if (ioctl(fd->get(), HIPFILE_FUSE_IOC_TAG, &tag) < 0) return posix::last_failure("TAG");
    return std::make_unique<TaggedChannel>(w, std::move(*fd), std::move(*bytes));
  }
  TaggedChannel(const Workload& w, posix::Fd fd, posix::Mapping bytes)
      : writes_(w.direction == Direction::write), fd_(std::move(fd)), bytes_(std::move(bytes)) {}

  posix::Result<void> move(std::span<const Request> requests) override {
    for (const Request& request : requests) {
      for (uint64_t done = 0; done < request.length;) {
        const size_t part = std::min<uint64_t>(bytes_.size(), request.length - done);
        const auto at = static_cast<off_t>(request.offset + done);
        const ssize_t n =
            writes_ ? pwrite(fd_.get(), bytes_.data(), part, at) : pread(fd_.get(), bytes_.data(), part, at);
        if (n < 0) return posix::last_failure(writes_ ? "write" : "read");
        if (n == 0) return posix::failure(ENODATA, "read");
        done += static_cast<uint64_t>(n);
      }
    }
    return {};
  }
  Route route() override {
    hipfile_fuse_untag ended{};
    ended.version = HIPFILE_FUSE_ABI_VERSION;
    if (ioctl(fd_.get(), HIPFILE_FUSE_IOC_UNTAG, &ended) < 0) return {};
    return route_of(ended.route, ended.reason);
  }

 private:
  bool writes_;
  posix::Fd fd_;
  posix::Mapping bytes_;
};

/// A request to the daemon that does nothing.
class RoundTripChannel : public Channel {
 public:
  explicit RoundTripChannel(const MountTransport& transport) : t_(transport) {}
  posix::Result<void> move(std::span<const Request> requests) override {
    for (size_t i = 0; i < requests.size(); i++) {
      hipfile_fuse_untag untag{};
      untag.version = HIPFILE_FUSE_ABI_VERSION;
      if (ioctl(t_.fd(), HIPFILE_FUSE_IOC_UNTAG, &untag) == 0 || errno != ENODATA)
        return posix::last_failure("UNTAG of a descriptor that is not tagged");
    }
    return {};
  }

 private:
  const MountTransport& t_;
};

posix::Result<std::unique_ptr<Channel>> MountTransport::channel() {
  if (workload_.transport == "ioctl_batch") return std::make_unique<IoctlBatchChannel>(*this);
  if (workload_.transport == "tagged") return TaggedChannel::make(*this);
  if (workload_.transport == "round_trip") return std::make_unique<RoundTripChannel>(*this);
  return std::make_unique<IoctlChannel>(*this);
}

}  // namespace

OpenedTransport open_mount_transport(const Workload& w, Session& session) {
  if (w.transport != "ioctl" && w.transport != "ioctl_batch" && w.transport != "tagged" &&
      w.transport != "round_trip")
    return nullptr;
  if (w.transport == "ioctl_batch" && w.depth > HIPFILE_FUSE_BATCH_MAX)
    return posix::failure(EINVAL, "more entries than a BATCH can have");
  if (auto memory = session.memory(w.span); !memory) return tl::unexpected(memory.error());
  auto registration = session.registration(w.path);
  if (!registration) return tl::unexpected(registration.error());
  auto fd = open_for(w);
  if (!fd) return tl::unexpected(fd.error());
  return std::make_unique<MountTransport>(w, **registration, std::move(*fd));
}

}  // namespace bench
