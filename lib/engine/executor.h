// Threads that move data, apart from the threads that answer POSIX requests.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "engine/cancel.h"

namespace engine {

/// Two queues: long jobs may take only half of the threads, so that a short one never waits for all the long
/// ones. Thread-safe.
class Executor {
 public:
  using Job = std::function<void()>;

  explicit Executor(unsigned threads);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  /// `token` is cancelled by stop(). Every job is run, also after stop(): it then sees its token cancelled.
  void submit(Job job, std::shared_ptr<CancelToken> token, bool is_long);
  /// Cancels everything with ESHUTDOWN; what is queued is run all the same. Later jobs run in submit(), cancelled.
  void cancel_all();
  /// Waits until nothing is queued or running; false if that takes longer.
  bool wait_idle(std::chrono::seconds patience);
  /// cancel_all(), and waits for the end.
  void stop();

 private:
  struct Item {
    Job job;
    std::shared_ptr<CancelToken> token;
    bool is_long;
  };
  void run();
  bool runnable() const;

  const unsigned most_long_;
  std::mutex mutex_;
  std::condition_variable ready_, idle_;
  std::deque<Item> short_jobs_, long_jobs_;
  std::multiset<std::shared_ptr<CancelToken>> running_;
  unsigned running_long_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace engine
