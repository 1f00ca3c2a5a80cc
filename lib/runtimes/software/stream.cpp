#include "stream.h"

namespace software {
namespace {

// hipStreamLegacy and hipStreamPerThread are these numbers instead of pointers.
bool is_null_stream(hip::Stream s) { return reinterpret_cast<uintptr_t>(s) <= 1; }
bool is_per_thread(hip::Stream s) { return reinterpret_cast<uintptr_t>(s) == 2; }

}  // namespace

StreamQueue::StreamQueue(int device, unsigned flags)
    : device_(device), flags_(flags), thread_([this] { run(); }) {}

StreamQueue::~StreamQueue() {
  {
    std::lock_guard lock(mutex_);
    closing_ = true;
  }
  work_ready_.notify_all();
  // The last reference may be dropped by work that runs on this very thread.
  if (thread_.get_id() == std::this_thread::get_id())
    thread_.detach();
  else
    thread_.join();
}

void StreamQueue::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    work_ready_.wait(lock, [this] { return closing_ || !queue_.empty(); });
    if (queue_.empty()) return;
    auto work = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    work();
    work = nullptr;
    lock.lock();
    done_++;
    work_done_.notify_all();
  }
}

uint64_t StreamQueue::push(std::function<void()> work) {
  std::lock_guard lock(mutex_);
  queue_.push_back(std::move(work));
  work_ready_.notify_one();
  return ++pushed_;
}

void StreamQueue::wait(uint64_t n) {
  std::unique_lock lock(mutex_);
  work_done_.wait(lock, [&] { return done_ >= n; });
}

uint64_t StreamQueue::last() const {
  std::lock_guard lock(mutex_);
  return pushed_;
}

bool StreamQueue::done(uint64_t n) const {
  std::lock_guard lock(mutex_);
  return done_ >= n;
}

bool StreamQueue::idle() const {
  std::lock_guard lock(mutex_);
  return done_ == pushed_;
}

bool StreamQueue::closing() const {
  std::lock_guard lock(mutex_);
  return closing_;
}

Streams::Streams(int devices) {
  for (int d = 0; d < devices; d++) null_streams_.push_back(std::make_shared<StreamQueue>(d, 0));
}

hip::Error Streams::create(int device, unsigned flags, hip::Stream* out) {
  if (!out || flags & ~hip::kStreamNonBlocking) return hip::kErrorInvalidValue;
  auto queue = std::make_shared<StreamQueue>(device, flags);
  std::lock_guard lock(mutex_);
  auto handle = reinterpret_cast<hip::Stream>(next_handle_++);  // NOLINT(performance-no-int-to-ptr)
  streams_[handle] = std::move(queue);
  *out = handle;
  return hip::kSuccess;
}

hip::Error Streams::destroy(hip::Stream stream) {
  std::shared_ptr<StreamQueue> queue;
  {
    std::lock_guard lock(mutex_);
    auto it = streams_.find(stream);
    if (it == streams_.end()) return hip::kErrorInvalidHandle;
    queue = std::move(it->second);
    streams_.erase(it);
  }
  return hip::kSuccess;  // the queue finishes its work as it is destroyed
}

std::shared_ptr<StreamQueue> Streams::find(hip::Stream stream, int device) {
  if (is_null_stream(stream)) return null_streams_.at(static_cast<size_t>(device));
  if (is_per_thread(stream)) {
    thread_local std::map<int, std::shared_ptr<StreamQueue>> own;
    auto& queue = own[device];
    if (!queue) queue = std::make_shared<StreamQueue>(device, 0);
    return queue;
  }
  std::lock_guard lock(mutex_);
  auto it = streams_.find(stream);
  return it == streams_.end() ? nullptr : it->second;
}

std::vector<std::shared_ptr<StreamQueue>> Streams::on_device(int device, bool blocking_only) {
  std::vector<std::shared_ptr<StreamQueue>> result;
  std::lock_guard lock(mutex_);
  for (auto& [handle, queue] : streams_)
    if (queue->device() == device && (!blocking_only || queue->blocking())) result.push_back(queue);
  return result;
}

uint64_t Streams::push(const std::shared_ptr<StreamQueue>& queue, std::function<void()> work) {
  const auto& null_stream = null_streams_.at(static_cast<size_t>(queue->device()));
  std::vector<std::pair<std::shared_ptr<StreamQueue>, uint64_t>> before;
  if (queue == null_stream) {
    for (auto& other : on_device(queue->device(), true)) before.emplace_back(other, other->last());
  } else if (queue->blocking()) {
    before.emplace_back(null_stream, null_stream->last());
  }
  std::erase_if(before, [](auto& b) { return b.first->idle(); });
  if (before.empty()) return queue->push(std::move(work));
  return queue->push([before = std::move(before), work = std::move(work)] {
    for (auto& [other, number] : before) other->wait(number);
    work();
  });
}

void Streams::drain_blocking(int device) {
  auto queues = on_device(device, true);
  queues.push_back(null_streams_.at(static_cast<size_t>(device)));
  for (auto& queue : queues) queue->wait(queue->last());
}

void Streams::drain(int device) {
  auto queues = on_device(device, false);
  queues.push_back(null_streams_.at(static_cast<size_t>(device)));
  for (auto& queue : queues) queue->wait(queue->last());
}

hip::Error Streams::create_event(hip::Event* out) {
  if (!out) return hip::kErrorInvalidValue;
  std::lock_guard lock(mutex_);
  auto handle = reinterpret_cast<hip::Event>(next_handle_++);  // NOLINT(performance-no-int-to-ptr)
  events_[handle] = std::make_shared<EventState>();
  *out = handle;
  return hip::kSuccess;
}

hip::Error Streams::destroy_event(hip::Event event) {
  std::lock_guard lock(mutex_);
  return events_.erase(event) ? hip::kSuccess : hip::kErrorInvalidHandle;
}

hip::Error Streams::record(hip::Event event, const std::shared_ptr<StreamQueue>& queue) {
  auto time = std::make_shared<std::chrono::steady_clock::time_point>();
  uint64_t number = push(queue, [time] { *time = std::chrono::steady_clock::now(); });
  std::lock_guard lock(mutex_);
  auto it = events_.find(event);
  if (it == events_.end()) return hip::kErrorInvalidHandle;
  it->second = std::make_shared<EventState>(EventState{queue, number, time});
  return hip::kSuccess;
}

std::shared_ptr<EventState> Streams::event(hip::Event event) {
  std::lock_guard lock(mutex_);
  auto it = events_.find(event);
  return it == events_.end() ? nullptr : it->second;
}

}  // namespace software
