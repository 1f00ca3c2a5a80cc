// Batches: operations that are submitted together and whose ends are fetched as events.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "driver.h"

namespace api {

inline constexpr unsigned kMostBatchOperations = 128;

/// One batch. Thread-safe.
class BatchContext : public std::enable_shared_from_this<BatchContext> {
 public:
  using Clock = std::chrono::steady_clock;

  BatchContext(Driver& driver, unsigned capacity) : driver_(driver), capacity_(capacity) {}

  unsigned capacity() const { return capacity_; }
  /// All of them or none.
  hipFileError_t submit(const hipFileIOParams_t* params, unsigned count);
  /// Waits for `least` events, for nothing being outstanding, or for the deadline; gives up to `most` events.
  unsigned fetch(unsigned least, unsigned most, hipFileIOEvents_t* events,
                 const std::optional<Clock::time_point>& deadline);
  /// What has not started is cancelled.
  void cancel();
  /// Cancels, and waits for what runs.
  void finish();

 private:
  enum class State { waiting, running, ended };
  struct Operation {
    Transfer transfer;  // moved out while it is carried out
    engine::Direction direction = engine::Direction::read;
    uint64_t size = 0;
    void* cookie = nullptr;
    State state = State::waiting;
    std::optional<Clock::time_point> deadline;
    size_t place = 0;  // in outstanding_
  };
  using Part = std::vector<std::shared_ptr<Operation>>;
  using Run = std::span<const std::shared_ptr<Operation>>;
  using Job = std::pair<engine::Executor::Source, Part>;

  /// Operations that are being carried out; those that follow each other in file and buffer as one.
  struct Runs {
    Part operations;
    std::vector<size_t> ends;  // of each run
    std::vector<Transfer> transfers;

    Run run(size_t i) const {
      const size_t begin = i == 0 ? 0 : ends[i - 1];
      return Run(operations).subspan(begin, ends[i] - begin);
    }
  };

  tl::expected<Transfer, hipFileError_t> check(const hipFileIOParams_t* params, const Part& before) const;
  static std::vector<Job> jobs_of(const Part& operations);
  std::vector<Job> run_at_once(const Part& operations);
  void run_part(const Part& part, const engine::CancelToken& token);
  Runs start_all(const Part& part, uint64_t longest);
  void put_off(const Part& operations);
  // With mutex_ held.
  void add(std::shared_ptr<Operation> operation);
  bool start(Operation& operation, Clock::time_point now);
  void end_run(Run run, const engine::Outcome& outcome);
  void end(Operation& operation, hipFileStatus_t status, ssize_t result);
  // Ends operations that have not started, with what `ending` says of each; nothing: it goes on waiting.
  template <typename Ending>
  void end_waiting(Ending ending);
  std::optional<Clock::time_point> next_expiry() const;

  Driver& driver_;
  const unsigned capacity_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::shared_ptr<Operation>> outstanding_;  // in any order
  std::deque<hipFileIOEvents_t> ended_;
  bool timed_ = false;         // some have deadlines
  size_t awaited_ = SIZE_MAX;  // events, by who waits for the fewest
};

/// Batches by handle. Thread-safe.
class BatchTable {
 public:
  static BatchTable& instance();
  hipFileBatchHandle_t add(unsigned capacity);
  std::shared_ptr<BatchContext> find(hipFileBatchHandle_t handle) const;
  std::shared_ptr<BatchContext> remove(hipFileBatchHandle_t handle);

 private:
  BatchTable();
  mutable std::mutex mutex_;
  std::map<hipFileBatchHandle_t, std::shared_ptr<BatchContext>> batches_;
  uintptr_t last_ = 0x2000;
};

}  // namespace api
