#include <algorithm>
#include <array>
#include <optional>

#include "gpu/stream.h"
#include "posix/mapping.h"
#include "transport.h"

namespace bench {
namespace {

struct Method {
  const char* name;
  bool direct;  // O_DIRECT
  bool pinned;  // the buffer
  bool copies;  // between the buffer and the device
  bool fresh;   // a new buffer for every request
};

constexpr std::array kMethods{
    Method{"pread", false, false, false, false},         Method{"disk", true, false, false, false},
    Method{"pread_pageable", false, false, true, false}, Method{"pread_pinned", false, true, true, false},
    Method{"direct_pinned", true, true, true, false},    Method{"fallback", false, false, true, true},
};

class HostTransport : public Transport {
 public:
  HostTransport(const Workload& w, const Method& method, Session& session, char* device, posix::Fd fd)
      : workload_(w), method_(method), runtime_(session.runtime()), device_(device), fd_(std::move(fd)) {}
  posix::Result<std::unique_ptr<Channel>> channel() override;
  bool is_whole() const override { return method_.copies; }

  const Workload& workload() const { return workload_; }
  const Method& method() const { return method_; }
  const gpu::Runtime& runtime() const { return *runtime_; }
  char* device() const { return device_; }
  int fd() const { return fd_.get(); }

 private:
  const Workload workload_;
  const Method method_;
  std::shared_ptr<const gpu::Runtime> runtime_;
  char* device_;
  posix::Fd fd_;
};

/// Fills a buffer with as many pieces as fit, and moves them on: neighbours with one copy, all waited for once.
class HostChannel : public Channel {
 public:
  HostChannel(const HostTransport& t, gpu::Stream stream, std::optional<PinnedMemory> pinned,
              posix::Mapping pageable)
      : t_(t), stream_(std::move(stream)), pinned_(std::move(pinned)), pageable_(std::move(pageable)) {
    pieces_.reserve(t.workload().depth);
  }

  posix::Result<void> move(std::span<const Request> requests) override {
    for (const Request& request : requests) {
      for (uint64_t done = 0; done < request.length;) {
        if (used_ == t_.workload().chunk)
          if (auto moved = flush(); !moved) return moved;
        const uint64_t part = std::min(t_.workload().chunk - used_, request.length - done);
        pieces_.push_back({request.offset + done, part, used_});
        used_ += part;
        done += part;
      }
      if (!t_.method().fresh) continue;
      if (auto moved = flush(); !moved) return moved;
      auto another = posix::Mapping::anonymous(t_.workload().chunk);
      if (!another) return tl::unexpected(another.error());
      pageable_ = std::move(*another);
    }
    return flush();
  }

 private:
  struct Piece {
    uint64_t offset, length, at;
  };

  char* buffer() const { return pinned_ ? pinned_->data() : pageable_.data(); }
  bool writes() const { return t_.workload().direction == Direction::write; }

  posix::Result<void> flush() {
    auto done = writes() ? copy_all().and_then([&] { return file_all(); })
                         : file_all().and_then([&] { return copy_all(); });
    pieces_.clear();
    used_ = 0;
    return done;
  }

  posix::Result<void> file_all() {
    for (const Piece& piece : pieces_) {
      for (uint64_t done = 0; done < piece.length;) {
        char* at = buffer() + piece.at + done;
        const auto offset = static_cast<off_t>(piece.offset + done);
        const size_t left = piece.length - done;
        const ssize_t n = writes() ? pwrite(t_.fd(), at, left, offset) : pread(t_.fd(), at, left, offset);
        if (n < 0) return posix::last_failure(writes() ? "pwrite" : "pread");
        if (n == 0) return posix::failure(ENODATA, "pread");
        done += static_cast<uint64_t>(n);
      }
    }
    return {};
  }

  posix::Result<void> copy_all() {
    if (!t_.method().copies) return {};
    for (size_t i = 0; i < pieces_.size();) {
      Piece run = pieces_[i++];
      while (i < pieces_.size() && pieces_[i].offset == run.offset + run.length)
        run.length += pieces_[i++].length;
      if (hip::Error e = copy(run); e != hip::kSuccess)
        return tl::unexpected(hip_failure(t_.runtime(), "copy", e));
    }
    if (!pinned_) return {};
    hip::Error e = t_.runtime().hip().hipStreamSynchronize(stream_.handle());
    if (e != hip::kSuccess) return tl::unexpected(hip_failure(t_.runtime(), "hipStreamSynchronize", e));
    return {};
  }

  hip::Error copy(const Piece& run) {
    char *host = buffer() + run.at, *device = t_.device() + run.offset;
    char *to = writes() ? host : device, *from = writes() ? device : host;
    const auto kind = writes() ? hip::kMemcpyDeviceToHost : hip::kMemcpyHostToDevice;
    const gpu::HipTable& hip = t_.runtime().hip();
    return pinned_ ? hip.hipMemcpyAsync(to, from, run.length, kind, stream_.handle())
                   : hip.hipMemcpy(to, from, run.length, kind);
  }

  const HostTransport& t_;
  gpu::Stream stream_;
  std::optional<PinnedMemory> pinned_;
  posix::Mapping pageable_;
  std::vector<Piece> pieces_;
  uint64_t used_ = 0;
};

posix::Result<std::unique_ptr<Channel>> HostTransport::channel() {
  auto stream = gpu::Stream::create(runtime_);
  if (!stream) return tl::unexpected(hip_failure(*runtime_, "hipStreamCreate", stream.error()));
  std::optional<PinnedMemory> pinned;
  posix::Mapping pageable;
  if (method_.pinned) {
    auto made = PinnedMemory::make(runtime_, workload_.chunk);
    if (!made) return tl::unexpected(made.error());
    pinned.emplace(std::move(*made));
  } else {
    auto made = posix::Mapping::anonymous(workload_.chunk);
    if (!made) return tl::unexpected(made.error());
    pageable = std::move(*made);
    if (!method_.fresh) memset(pageable.data(), 1, pageable.size());
  }
  return std::make_unique<HostChannel>(*this, std::move(*stream), std::move(pinned), std::move(pageable));
}

}  // namespace

OpenedTransport open_host_transport(const Workload& w, Session& session) {
  auto method =
      std::find_if(kMethods.begin(), kMethods.end(), [&](const Method& m) { return w.transport == m.name; });
  if (method == kMethods.end()) return nullptr;
  auto memory = session.memory(method->copies ? w.span : 1);
  if (!memory) return tl::unexpected(memory.error());
  auto fd = open_for(w, method->direct ? O_DIRECT : 0);
  if (!fd) return tl::unexpected(fd.error());
  return std::make_unique<HostTransport>(w, *method, session, (*memory)->address(), std::move(*fd));
}

}  // namespace bench
