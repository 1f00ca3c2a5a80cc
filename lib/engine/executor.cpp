#include "engine/executor.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace engine {

Executor::Executor(unsigned threads) : most_long_(std::max(1u, threads / 2)) {
  threads = std::max(2u, threads);
  std::lock_guard lock(mutex_);  // they count each other
  threads_.reserve(threads);
  try {
    while (threads_.size() < threads) threads_.emplace_back([this] { run(); });
  } catch (const std::system_error&) {  // fewer do
    if (threads_.empty()) throw;
  }
}

Executor::~Executor() { stop(); }

void Executor::submit(Job job, std::shared_ptr<CancelToken> token, bool is_long, Source source) {
  {
    std::lock_guard lock(mutex_);
    if (!stopping_) {
      queues_[source].jobs(is_long).push_back(
          {std::move(job), std::move(token), is_long, source, submitted_++});
      start_extra_threads();
      ready_.notify_one();
      return;
    }
  }
  token->cancel(ESHUTDOWN);
  job();
}

void Executor::cancel_all() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    for (auto& token : running_) token->cancel(ESHUTDOWN);
    for (auto& [source, queue] : queues_)
      for (auto* jobs : {&queue.short_jobs, &queue.long_jobs})
        for (auto& item : *jobs) item.token->cancel(ESHUTDOWN);
  }
  ready_.notify_all();
}

bool Executor::wait_idle(std::chrono::seconds patience) {
  std::unique_lock lock(mutex_);
  return idle_.wait_for(lock, patience, [this] { return queues_.empty(); });
}

void Executor::stop() {
  cancel_all();
  for (auto& t : threads_)
    if (t.joinable()) t.join();
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [this] { return extra_.empty(); });
  for (auto& t : ended_) t.join();
  ended_.clear();
}

unsigned Executor::extra_threads() const {
  std::lock_guard lock(mutex_);
  return static_cast<unsigned>(extra_.size());
}

// The source with the fewest jobs running, and of these the one that has waited longest.
Executor::Queue* Executor::choose(Kind kind, bool is_long) {
  if (is_long && kind == Kind::regular && !may_run_long()) return nullptr;
  Queue* best = nullptr;
  auto rank = [is_long](Queue& q) { return std::pair(q.running, q.jobs(is_long).front().number); };
  for (auto& [source, queue] : queues_) {
    if (queue.jobs(is_long).empty() || (kind == Kind::extra && queue.running > 0)) continue;
    if (!best || rank(queue) < rank(*best)) best = &queue;
  }
  return best;
}

std::optional<Executor::Item> Executor::take(Kind kind) {
  for (bool is_long : {false, true}) {
    Queue* queue = choose(kind, is_long);
    if (!queue) continue;
    Item item = std::move(queue->jobs(is_long).front());
    queue->jobs(is_long).pop_front();
    queue->running++;
    (kind == Kind::regular ? busy_ : busy_extra_)++;
    running_long_ += kind == Kind::regular && is_long;
    return item;
  }
  return std::nullopt;
}

// For sources with nothing running, as far as threads that are free will not take their jobs at once.
void Executor::start_extra_threads() {
  if (stopping_) return;
  size_t for_any = 0, for_extra = 0;
  for (auto& [source, queue] : queues_) {
    if (queue.running > 0 || queue.empty()) continue;
    (!queue.short_jobs.empty() || may_run_long() ? for_any : for_extra)++;
  }
  const size_t free = threads_.size() - busy_;
  const size_t wanted = busy_extra_ + for_extra + (for_any > free ? for_any - free : 0);
  while (extra_.size() < std::min<size_t>(wanted, kMostExtra)) {
    for (auto& t : ended_) t.join();  // they have let go of the mutex for the last time
    ended_.clear();
    try {
      extra_.emplace_front();
      extra_.front() = std::thread([this, self = extra_.begin()] { run_extra(self); });
    } catch (const std::system_error&) {  // the job waits for one of the others
      extra_.pop_front();
      return;
    }
  }
}

void Executor::carry_out(Item item, Kind kind, std::unique_lock<std::mutex>& lock) {
  auto position = running_.insert(item.token);
  lock.unlock();
  try {
    item.job();
  } catch (const std::exception& e) {
    spdlog::error("a job ended by an exception: {}", e.what());
  }
  item.job = nullptr;
  lock.lock();
  running_.erase(position);
  (kind == Kind::regular ? busy_ : busy_extra_)--;
  if (kind == Kind::regular && item.is_long) {
    running_long_--;
    ready_.notify_one();
  }
  auto queue = queues_.find(item.source);
  if (--queue->second.running == 0 && queue->second.empty()) queues_.erase(queue);
  if (queues_.empty()) idle_.notify_all();
}

void Executor::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    std::optional<Item> item = take(Kind::regular);
    start_extra_threads();
    if (item)
      carry_out(std::move(*item), Kind::regular, lock);
    else if (stopping_)
      return;
    else
      ready_.wait(lock);
  }
}

void Executor::run_extra(std::list<std::thread>::iterator self) {
  std::unique_lock lock(mutex_);
  while (std::optional<Item> item = take(Kind::extra)) {
    start_extra_threads();
    carry_out(std::move(*item), Kind::extra, lock);
  }
  ended_.splice(ended_.end(), extra_, self);
  idle_.notify_all();
}

}  // namespace engine
