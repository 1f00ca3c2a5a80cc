#include "engine/executor.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace engine {

Executor::Executor(unsigned threads) : most_long_(std::max(1u, threads / 2)) {
  threads = std::max(2u, threads);
  threads_.reserve(threads);
  try {
    while (threads_.size() < threads) threads_.emplace_back([this] { run(); });
  } catch (const std::system_error&) {  // fewer do
    if (threads_.empty()) throw;
  }
}

Executor::~Executor() { stop(); }

void Executor::submit(Job job, std::shared_ptr<CancelToken> token, bool is_long) {
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

void Executor::cancel_all() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    for (auto& token : running_) token->cancel(ESHUTDOWN);
    for (auto* queue : {&short_jobs_, &long_jobs_})
      for (auto& item : *queue) item.token->cancel(ESHUTDOWN);
  }
  ready_.notify_all();
}

bool Executor::wait_idle(std::chrono::seconds patience) {
  std::unique_lock lock(mutex_);
  return idle_.wait_for(lock, patience,
                        [this] { return running_.empty() && short_jobs_.empty() && long_jobs_.empty(); });
}

void Executor::stop() {
  cancel_all();
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
    try {
      item.job();
    } catch (const std::exception& e) {
      spdlog::error("a job ended by an exception: {}", e.what());
    }
    item.job = nullptr;
    lock.lock();
    running_.erase(position);
    running_long_ -= item.is_long;
    if (item.is_long) ready_.notify_one();
    if (running_.empty()) idle_.notify_all();
  }
}

}  // namespace engine
