// Threads that move data, apart from the threads that answer POSIX requests.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "engine/cancel.h"

namespace engine {

/// Long jobs may take only half of the threads, so that a short one never waits for all the long ones. And a source that
/// has stopped holds up no other one: a free thread takes a job of the source with the fewest running, and a source with
/// none running gets an extra thread where no other is free. Thread-safe.
class Executor {
 public:
  using Job = std::function<void()>;
  /// What a job may have to wait for: the file system of its file (st_dev). 0: nothing in particular.
  using Source = dev_t;
  /// Extra threads at the same time.
  static constexpr unsigned kMostExtra = 16;

  explicit Executor(unsigned threads);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  /// `token` is cancelled by stop(). Every job is run, also after stop(): it then sees its token cancelled.
  void submit(Job job, std::shared_ptr<CancelToken> token, bool is_long, Source source = 0);
  /// Cancels everything with ESHUTDOWN; what is queued is run all the same. Later jobs run in submit(), cancelled.
  void cancel_all();
  /// Waits until nothing is queued or running; false if that takes longer.
  bool wait_idle(std::chrono::seconds patience);
  /// cancel_all(), and waits for the end.
  void stop();
  /// Extra threads that there are now.
  unsigned extra_threads() const;

 private:
  enum class Kind { regular, extra };
  struct Item {
    Job job;
    std::shared_ptr<CancelToken> token;
    bool is_long;
    Source source;
    uint64_t number;
  };
  struct Queue {
    std::deque<Item> short_jobs, long_jobs;
    unsigned running = 0;

    std::deque<Item>& jobs(bool is_long) { return is_long ? long_jobs : short_jobs; }
    bool empty() const { return short_jobs.empty() && long_jobs.empty(); }
  };

  void run();
  void run_extra(std::list<std::thread>::iterator self);
  // All with mutex_ held.
  bool may_run_long() const { return running_long_ < most_long_ || stopping_; }
  Queue* choose(Kind kind, bool is_long);
  std::optional<Item> take(Kind kind);
  void start_extra_threads();
  void carry_out(Item item, Kind kind, std::unique_lock<std::mutex>& lock);

  const unsigned most_long_;
  mutable std::mutex mutex_;
  std::condition_variable ready_, idle_;
  std::map<Source, Queue> queues_;  // of sources with jobs that wait or run
  std::multiset<std::shared_ptr<CancelToken>> running_;
  uint64_t submitted_ = 0;
  unsigned busy_ = 0, busy_extra_ = 0;  // threads with a job
  unsigned running_long_ = 0;           // on regular threads
  bool stopping_ = false;
  std::vector<std::thread> threads_;
  std::list<std::thread> extra_, ended_;
};

}  // namespace engine
