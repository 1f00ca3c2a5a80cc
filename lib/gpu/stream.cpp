#include "gpu/stream.h"

namespace gpu {

tl::expected<Stream, hip::Error> Stream::create(std::shared_ptr<const Runtime> runtime) {
  hip::Stream handle = nullptr;
  if (hip::Error e = runtime->hip().hipStreamCreateWithFlags(&handle, hip::kStreamNonBlocking);
      e != hip::kSuccess)
    return tl::unexpected(e);
  return Stream(std::move(runtime), handle);
}

Stream::~Stream() {
  if (handle_) runtime_->hip().hipStreamDestroy(handle_);
}

tl::expected<Event, hip::Error> Event::create(std::shared_ptr<const Runtime> runtime, Wait wait) {
  hip::Event handle = nullptr;
  const unsigned flags = hip::kEventDisableTiming | (wait == Wait::asleep ? hip::kEventBlockingSync : 0);
  if (hip::Error e = runtime->hip().hipEventCreateWithFlags(&handle, flags); e != hip::kSuccess)
    return tl::unexpected(e);
  return Event(std::move(runtime), handle);
}

Event::~Event() {
  if (handle_) runtime_->hip().hipEventDestroy(handle_);
}

hip::Error Event::record(const Stream& stream) const {
  return runtime_->hip().hipEventRecord(handle_, stream.handle());
}
hip::Error Event::query() const { return runtime_->hip().hipEventQuery(handle_); }
hip::Error Event::synchronize() const { return runtime_->hip().hipEventSynchronize(handle_); }

}  // namespace gpu
