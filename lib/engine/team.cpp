#include "engine/team.h"

#include <algorithm>
#include <system_error>

namespace engine {

Team::~Team() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  called_.notify_all();
  for (auto& thread : threads_) thread.join();
}

void Team::Job::call(unsigned helpers) {
  unsigned wake = 0;
  {
    std::lock_guard lock(team_.mutex_);
    helpers = std::min(helpers, team_.most_);
    if (helpers <= wanted_) return;
    wake = helpers - wanted_;
    wanted_ = helpers;
    if (!listed_) team_.jobs_.push_back(this);
    listed_ = true;
    try {
      while (team_.threads_.size() < helpers) team_.threads_.emplace_back([&team = team_] { team.run(); });
    } catch (const std::system_error&) {  // those that there are help
    }
    wake = std::min(wake, team_.idle_);
  }
  for (; wake > 0; wake--) team_.called_.notify_one();
}

void Team::Job::finish() {
  std::unique_lock lock(team_.mutex_);
  wanted_ = 0;
  if (listed_) team_.jobs_.remove(this);
  listed_ = false;
  left_.wait(lock, [this] { return present_ == 0; });
}

// The job with the fewest helpers of those that want more.
Team::Job* Team::next_job() {
  Job* best = nullptr;
  for (Job* job : jobs_)
    if (job->present_ < job->wanted_ && (!best || job->present_ < best->present_)) best = job;
  return best;
}

bool Team::Job::should_leave() const {
  std::lock_guard lock(team_.mutex_);
  if (team_.idle_ > 0) return false;
  return std::any_of(team_.jobs_.begin(), team_.jobs_.end(), [&](const Job* other) {
    return other->present_ < other->wanted_ && other->present_ + 1 < present_;
  });
}

void Team::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    Job* job = next_job();
    if (!job) {
      if (stopping_) return;
      idle_++;
      called_.wait(lock);
      idle_--;
      continue;
    }
    job->present_++;
    lock.unlock();
    const bool more = job->work_(*job);
    lock.lock();
    if (!more) job->wanted_ = 0;
    if (--job->present_ == 0) job->left_.notify_all();
  }
}

}  // namespace engine
