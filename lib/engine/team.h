// Threads that help requests with copies at memory speed, shared by all requests.
#pragma once

#include <condition_variable>
#include <functional>
#include <list>
#include <mutex>
#include <thread>
#include <vector>

namespace engine {

/// A request that has much to copy carries on by itself and calls for help; threads that are idle join it, so that many
/// requests share the threads and none waits for them. Thread-safe.
class Team {
 public:
  /// Threads are started when help is first called for. 0: nobody ever helps.
  explicit Team(unsigned threads) : most_(threads) {}
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  unsigned size() const { return most_; }

  /// Work that others may join. Used by the thread that made it.
  class Job {
   public:
    /// `work` is run by each thread that joins, at the same time. It returns false when there is nothing left to
    /// join for, and true when it left for another job's sake. It must not throw.
    Job(Team& team, std::function<bool(const Job&)> work) : team_(team), work_(std::move(work)) {}
    /// Waits for those who joined.
    ~Job() { finish(); }
    Job(const Job&) = delete;
    Job& operator=(const Job&) = delete;

    /// Asks for up to `helpers` threads. Further calls raise that number, never lower it.
    void call(unsigned helpers);
    /// For a thread that joined: whether it should go, because another job has fewer helpers.
    bool should_leave() const;
    /// Nobody joins any more; returns when those who did have left.
    void finish();

   private:
    friend class Team;
    Team& team_;
    const std::function<bool(const Job&)> work_;
    unsigned wanted_ = 0, present_ = 0;
    bool listed_ = false;
    std::condition_variable left_;
  };

 private:
  void run();
  Job* next_job();  // with mutex_ held

  const unsigned most_;
  mutable std::mutex mutex_;
  std::condition_variable called_;
  std::list<Job*> jobs_;
  std::vector<std::thread> threads_;
  unsigned idle_ = 0;
  bool stopping_ = false;
};

}  // namespace engine
