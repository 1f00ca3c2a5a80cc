// Threads that move data, apart from the threads that answer POSIX requests.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "engine/cancel.h"

namespace fs {

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
  void submit(Job job, std::shared_ptr<engine::CancelToken> token, bool is_long);
  /// Cancels everything with ESHUTDOWN, runs what is queued, and waits for the end. Later jobs run in
  /// submit().
  void stop();

 private:
  struct Item {
    Job job;
    std::shared_ptr<engine::CancelToken> token;
    bool is_long;
  };
  void run();
  bool runnable() const;

  const unsigned most_long_;
  std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<Item> short_jobs_, long_jobs_;
  std::multiset<std::shared_ptr<engine::CancelToken>> running_;
  unsigned running_long_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace fs
