#include "stream.h"

#include <system_error>

namespace software {
namespace {

// hipStreamLegacy and hipStreamPerThread are these numbers instead of pointers.
bool is_null_stream(hip::Stream s) { return reinterpret_cast<uintptr_t>(s) <= 1; }
bool is_per_thread(hip::Stream s) { return reinterpret_cast<uintptr_t>(s) == 2; }

}  // namespace

StreamQueue::StreamQueue(int device, unsigned flags) : device_(device), flags_(flags) {
  std::thread([state = state_] { run(state); }).detach();
}

StreamQueue::~StreamQueue() {
  std::lock_guard lock(state_->mutex);
  state_->closing = true;
  state_->work_ready.notify_all();
}

void StreamQueue::run(const std::shared_ptr<State>& s) {
  std::unique_lock lock(s->mutex);
  for (;;) {
    s->work_ready.wait(lock, [&] { return s->closing || !s->queue.empty(); });
    if (s->queue.empty()) return;
    auto work = std::move(s->queue.front());
    s->queue.pop_front();
    lock.unlock();
    work();
    work = nullptr;
    lock.lock();
    s->done++;
    s->work_done.notify_all();
  }
}

uint64_t StreamQueue::push(std::function<void()> work) {
  std::lock_guard lock(state_->mutex);
  state_->queue.push_back(std::move(work));
  state_->work_ready.notify_one();
  return ++state_->pushed;
}

void StreamQueue::wait(uint64_t n) {
  auto state = state_;
  std::unique_lock lock(state->mutex);
  state->work_done.wait(lock, [&] { return state->done >= n; });
}

uint64_t StreamQueue::last() const {
  std::lock_guard lock(state_->mutex);
  return state_->pushed;
}

bool StreamQueue::done(uint64_t n) const {
  std::lock_guard lock(state_->mutex);
  return state_->done >= n;
}

bool StreamQueue::idle() const {
  std::lock_guard lock(state_->mutex);
  return state_->done == state_->pushed;
}

std::function<bool()> StreamQueue::closing() const {
  return [state = state_] {
    std::lock_guard lock(state->mutex);
    return state->closing;
  };
}

std::function<void()> StreamQueue::abandon() const {
  return [state = state_] {
    std::lock_guard lock(state->mutex);
    state->done += state->queue.size();
    state->queue.clear();
  };
}

Streams::Streams(int devices) {
  for (int d = 0; d < devices; d++) null_streams_.push_back(make(d, 0));
}

std::shared_ptr<StreamQueue> Streams::make(int device, unsigned flags) {
  auto queue = std::make_shared<StreamQueue>(device, flags);
  std::lock_guard lock(mutex_);
  std::erase_if(all_, [](const auto& q) { return q.expired(); });
  all_.push_back(queue);
  return queue;
}

hip::Error Streams::create(int device, unsigned flags, hip::Stream* out) {
  if (!out || flags & ~hip::kStreamNonBlocking) return hip::kErrorInvalidValue;
  std::shared_ptr<StreamQueue> queue;
  try {
    queue = make(device, flags);
  } catch (const std::system_error&) {  // no thread to be had
    return hip::kErrorOutOfMemory;
  }
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
    if (!queue) queue = make(device, 0);
    return queue;
  }
  std::lock_guard lock(mutex_);
  auto it = streams_.find(stream);
  return it == streams_.end() ? nullptr : it->second;
}

std::vector<std::shared_ptr<StreamQueue>> Streams::on_device(int device, bool blocking_only) {
  std::vector<std::shared_ptr<StreamQueue>> result;
  std::lock_guard lock(mutex_);
  for (auto& weak : all_)
    if (auto queue = weak.lock(); queue && queue->device() == device && (!blocking_only || queue->blocking()))
      result.push_back(std::move(queue));
  return result;
}

uint64_t Streams::push(const std::shared_ptr<StreamQueue>& queue, std::function<void()> work) {
  const auto& null_stream = null_streams_.at(static_cast<size_t>(queue->device()));
  std::vector<std::pair<std::shared_ptr<StreamQueue>, uint64_t>> before;
  if (queue == null_stream) {
    for (auto& other : on_device(queue->device(), true))
      if (other != queue) before.emplace_back(other, other->last());
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
  for (auto& queue : on_device(device, true)) queue->wait(queue->last());
}

void Streams::drain(int device) {
  for (auto& queue : on_device(device, false)) queue->wait(queue->last());
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
  std::shared_ptr<EventState> last;  // dropped after the lock
  std::lock_guard lock(mutex_);
  auto it = events_.find(event);
  if (it == events_.end()) return hip::kErrorInvalidHandle;
  last = std::move(it->second);
  events_.erase(it);
  return hip::kSuccess;
}

hip::Error Streams::record(hip::Event event, const std::shared_ptr<StreamQueue>& queue) {
  auto time = std::make_shared<std::chrono::steady_clock::time_point>();
  uint64_t number = push(queue, [time] { *time = std::chrono::steady_clock::now(); });
  auto state = std::make_shared<EventState>(EventState{queue, number, time});
  std::lock_guard lock(mutex_);
  auto it = events_.find(event);
  if (it == events_.end()) return hip::kErrorInvalidHandle;
  std::swap(it->second, state);  // the former state is dropped after the lock
  return hip::kSuccess;
}

std::shared_ptr<EventState> Streams::event(hip::Event event) {
  std::lock_guard lock(mutex_);
  auto it = events_.find(event);
  return it == events_.end() ? nullptr : it->second;
}

}  // namespace software
