#include "executor.h"

#include <algorithm>
#include <cerrno>

namespace fs {

Executor::Executor(unsigned threads) : most_long_(std::max(1u, threads / 2)) {
  for (unsigned i = 0; i < std::max(2u, threads); i++) threads_.emplace_back([this] { run(); });
}

Executor::~Executor() { stop(); }

void Executor::submit(Job job, std::shared_ptr<engine::CancelToken> token, bool is_long) {
  {
    std::lock_guard lock(mutex_);
    if (!stopping_) {
      (is_long ? long_jobs_ : short_jobs_).push_back({std::move(job), std::move(token), is_long});
      ready_.notify_one();
      return;
    }
  }
  token->cancel(ESHUTDOWN);
  job();
}

void Executor::stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    for (auto& token : running_) token->cancel(ESHUTDOWN);
    for (auto* queue : {&short_jobs_, &long_jobs_})
      for (auto& item : *queue) item.token->cancel(ESHUTDOWN);
  }
  ready_.notify_all();
  for (auto& t : threads_)
    if (t.joinable()) t.join();
}

bool Executor::runnable() const {
  return !short_jobs_.empty() || (!long_jobs_.empty() && (running_long_ < most_long_ || stopping_));
}

void Executor::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    ready_.wait(lock, [this] { return stopping_ || runnable(); });
    if (!runnable()) return;
    auto& queue = short_jobs_.empty() ? long_jobs_ : short_jobs_;
    Item item = std::move(queue.front());
    queue.pop_front();
    auto position = running_.insert(item.token);
    running_long_ += item.is_long;
    lock.unlock();
    item.job();
    item.job = nullptr;
    lock.lock();
    running_.erase(position);
    running_long_ -= item.is_long;
    if (item.is_long) ready_.notify_one();
  }
}

}  // namespace fs
