#include <algorithm>

#include "gpu/stream.h"
#include "transport.h"

namespace bench {
namespace {

constexpr uint64_t kMostOfOne = 1 << 30;  // one operation moves less than 2 GiB

/// One open file and one registered buffer, shared by all threads.
class LibraryTransport : public Transport {
 public:
  static posix::Result<std::unique_ptr<LibraryTransport>> open(const Workload& w, Session& session) {
    if (!session.api()) return tl::unexpected(session.api().error());
    auto memory = session.memory(w.span);
    if (!memory) return tl::unexpected(memory.error());
    auto fd = open_for(w);
    if (!fd) return tl::unexpected(fd.error());
    std::unique_ptr<LibraryTransport> made(
        new LibraryTransport(w, session, (*memory)->address(), std::move(*fd)));
    if (auto registered = made->register_both(); !registered) return tl::unexpected(registered.error());
    return made;
  }

  ~LibraryTransport() override {
    if (buffer_registered_) (void)api().buffer_deregister(buffer_);
    if (handle_) api().handle_deregister(handle_);
  }

  posix::Result<std::unique_ptr<Channel>> channel() override;

  const FileApi& api() const { return *session_.api(); }
  const Workload& workload() const { return workload_; }
  bool writes() const { return workload_.direction == Direction::write; }
  char* buffer() const { return buffer_; }
  hipFileHandle_t handle() const { return handle_; }

 private:
  LibraryTransport(const Workload& w, Session& session, char* buffer, posix::Fd fd)
      : workload_(w), session_(session), buffer_(buffer), fd_(std::move(fd)) {}

  posix::Result<void> register_both() {
    hipFileDescr_t descr{};
    descr.type = hipFileHandleTypeOpaqueFD;
    descr.handle.fd = fd_.get();
    if (auto done = api().check("HandleRegister", api().handle_register(&handle_, &descr)); !done) {
      handle_ = nullptr;
      return done;
    }
    auto done = api().check("BufRegister", api().buffer_register(buffer_, workload_.span, 0));
    buffer_registered_ = done.has_value();
    return done;
  }

  const Workload workload_;
  Session& session_;
  char* buffer_;
  posix::Fd fd_;
  hipFileHandle_t handle_ = nullptr;
  bool buffer_registered_ = false;
};

class SyncChannel : public Channel {
 public:
  explicit SyncChannel(const LibraryTransport& transport) : t_(transport) {}

  posix::Result<void> move(std::span<const Request> requests) override {
    for (const Request& request : requests) {
      for (uint64_t done = 0; done < request.length;) {  // one call moves less than 2 GiB
        const auto at = static_cast<hoff_t>(request.offset + done);
        const size_t left = request.length - done;
        const ssize_t n = t_.writes() ? t_.api().write(t_.handle(), t_.buffer(), left, at, at)
                                      : t_.api().read(t_.handle(), t_.buffer(), left, at, at);
        if (n <= 0) return tl::unexpected(t_.api().failure(t_.writes() ? "Write" : "Read", n));
        done += static_cast<uint64_t>(n);
      }
    }
    return {};
  }

  Route route() override {
    hipFileOutcome_t outcome{};
    if (!t_.api().last_outcome || t_.api().last_outcome(&outcome).err != hipFileSuccess) return {};
    return {tools::route_name(static_cast<uint32_t>(outcome.route)), tools::reason_text(outcome.reason)};
  }

 private:
  const LibraryTransport& t_;
};

class BatchChannel : public Channel {
 public:
  static posix::Result<std::unique_ptr<Channel>> make(const LibraryTransport& transport) {
    const FileApi& api = transport.api();
    if (!api.batch_set_up || !api.batch_submit || !api.batch_get_status || !api.batch_destroy)
      return posix::failure(ENOSYS, "the library has no batches");
    std::unique_ptr<BatchChannel> made(new BatchChannel(transport));
    auto done = api.check("BatchIOSetUp", api.batch_set_up(&made->batch_, transport.workload().depth));
    if (!done) {
      made->batch_ = nullptr;
      return tl::unexpected(done.error());
    }
    return made;
  }
  ~BatchChannel() override {
    if (batch_) t_.api().batch_destroy(batch_);
  }

  posix::Result<void> move(std::span<const Request> requests) override {
    if (requests.size() != 1 || requests[0].length <= kMostOfOne) return submit(requests);
    const Request& whole = requests[0];
    for (uint64_t done = 0; done < whole.length; done += kMostOfOne) {
      Request part = whole;
      part.offset += done;
      part.length = std::min(kMostOfOne, whole.length - done);
      if (auto moved = submit({&part, 1}); !moved) return moved;
    }
    return {};
  }

 private:
  posix::Result<void> submit(std::span<const Request> requests) {
    for (size_t i = 0; i < requests.size(); i++) {
      hipFileIOParams_t& p = parameters_[i];
      p.mode = hipFileBatch;
      p.u.batch.devPtr_base = t_.buffer();
      p.u.batch.file_offset = p.u.batch.devPtr_offset = static_cast<int64_t>(requests[i].offset);
      p.u.batch.size = requests[i].length;
      p.fh = t_.handle();
      p.opcode = t_.writes() ? hipFileBatchWrite : hipFileBatchRead;
      p.cookie = reinterpret_cast<void*>(i);
    }
    const auto count = static_cast<unsigned>(requests.size());
    auto submitted =
        t_.api().check("BatchIOSubmit", t_.api().batch_submit(batch_, count, parameters_.data(), 0));
    if (!submitted) return submitted;
    for (unsigned done = 0; done < count;) {
      unsigned fetched = count - done;
      auto status = t_.api().check(
          "BatchIOGetStatus", t_.api().batch_get_status(batch_, fetched, &fetched, events_.data(), nullptr));
      if (!status) return status;
      for (unsigned i = 0; i < fetched; i++)
        if (auto whole = check(events_[i], requests); !whole) return whole;
      done += fetched;
    }
    return {};
  }

  explicit BatchChannel(const LibraryTransport& transport)
      : t_(transport), parameters_(transport.workload().depth), events_(transport.workload().depth) {}

  posix::Result<void> check(const hipFileIOEvents_t& event, std::span<const Request> requests) const {
    const auto index = reinterpret_cast<size_t>(event.cookie);
    if (event.status == hipFileComplete && index < requests.size() && event.ret == requests[index].length)
      return {};
    return tl::unexpected(t_.api().failure("BatchIOGetStatus", static_cast<ssize_t>(event.ret)));
  }

  const LibraryTransport& t_;
  hipFileBatchHandle_t batch_ = nullptr;
  std::vector<hipFileIOParams_t> parameters_;
  std::vector<hipFileIOEvents_t> events_;
};

class AsyncChannel : public Channel {
 public:
  static posix::Result<std::unique_ptr<Channel>> make(const LibraryTransport& transport,
                                                      const std::shared_ptr<const gpu::Runtime>& runtime) {
    if (!transport.api().read_async || !transport.api().write_async)
      return posix::failure(ENOSYS, "the library has no asynchronous calls");
    auto stream = gpu::Stream::create(runtime);
    if (!stream) return tl::unexpected(hip_failure(*runtime, "hipStreamCreate", stream.error()));
    std::unique_ptr<AsyncChannel> made(new AsyncChannel(transport, runtime, std::move(*stream)));
    if (transport.api().stream_register) {
      constexpr unsigned kFinal =
          HIPFILE_STREAM_FIXED_BUF_OFFSET | HIPFILE_STREAM_FIXED_FILE_OFFSET | HIPFILE_STREAM_FIXED_FILE_SIZE;
      auto done =
          transport.api().check("StreamRegister", transport.api().stream_register(made->stream(), kFinal));
      if (!done) return tl::unexpected(done.error());
      made->registered_ = true;
    }
    return made;
  }
  ~AsyncChannel() override {
    if (registered_ && t_.api().stream_deregister) (void)t_.api().stream_deregister(stream());
  }

  posix::Result<void> move(std::span<const Request> requests) override {
    calls_.clear();
    for (const Request& request : requests)
      for (uint64_t done = 0; done < request.length; done += kMostOfOne) {
        const auto at = static_cast<hoff_t>(request.offset + done);
        calls_.push_back({std::min(kMostOfOne, request.length - done), at, at, 0});
      }
    for (Call& c : calls_) {  // which stay where they are from here on
      auto call = t_.writes() ? t_.api().write_async : t_.api().read_async;
      auto done = t_.api().check(kName, call(t_.handle(), t_.buffer(), &c.size, &c.file_offset,
                                             &c.buffer_offset, &c.bytes, stream()));
      if (!done) return done;
    }
    if (hip::Error e = runtime_->hip().hipStreamSynchronize(stream_.handle()); e != hip::kSuccess)
      return tl::unexpected(hip_failure(*runtime_, "hipStreamSynchronize", e));
    for (const Call& c : calls_)
      if (c.bytes != static_cast<ssize_t>(c.size)) return tl::unexpected(t_.api().failure(kName, c.bytes));
    return {};
  }

 private:
  static constexpr const char* kName = "ReadAsync/WriteAsync";
  struct Call {
    size_t size;
    hoff_t file_offset, buffer_offset;
    ssize_t bytes;
  };

  AsyncChannel(const LibraryTransport& transport, std::shared_ptr<const gpu::Runtime> runtime,
               gpu::Stream stream)
      : t_(transport), runtime_(std::move(runtime)), stream_(std::move(stream)) {}
  hipStream_t stream() const { return reinterpret_cast<hipStream_t>(stream_.handle()); }

  const LibraryTransport& t_;
  std::shared_ptr<const gpu::Runtime> runtime_;
  gpu::Stream stream_;
  bool registered_ = false;
  std::vector<Call> calls_;
};

posix::Result<std::unique_ptr<Channel>> LibraryTransport::channel() {
  if (workload_.transport == "batch") return BatchChannel::make(*this);
  if (workload_.transport == "async") return AsyncChannel::make(*this, session_.runtime());
  return std::make_unique<SyncChannel>(*this);
}

}  // namespace

OpenedTransport open_library_transport(const Workload& w, Session& session) {
  if (w.transport != "sync" && w.transport != "batch" && w.transport != "async") return nullptr;
  return LibraryTransport::open(w, session);
}

}  // namespace bench
