#include "locks.h"

#include <fcntl.h>

#include <chrono>

namespace fs {
namespace {

constexpr auto kBetweenAttempts = std::chrono::milliseconds(2);

}  // namespace

std::shared_ptr<posix::Fd> RecordLocks::description_of(const Key& key, const posix::Fd& path, bool make) {
  std::lock_guard lock(mutex_);
  auto it = descriptions_.find(key);
  if (it != descriptions_.end()) return it->second;
  if (!make) return nullptr;
  // Locks for writing need it open for writing, which the caller has been allowed, or will be refused, by the kernel.
  const std::string name = posix::proc_path(path.get());
  posix::Fd fd(open(name.c_str(), O_RDWR | O_CLOEXEC));
  if (!fd) fd = posix::Fd(open(name.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return nullptr;
  return descriptions_[key] = std::make_shared<posix::Fd>(std::move(fd));
}

int RecordLocks::apply(const Node& node, const posix::Fd& path, uint64_t owner, int command,
                       struct flock& lock) {
  const bool only_unlocks = command == F_OFD_SETLK && lock.l_type == F_UNLCK;
  auto description = description_of({node.id, owner}, path, !only_unlocks);
  if (!description) return only_unlocks ? 0 : errno;
  lock.l_pid = 0;
  if (fcntl(description->get(), command, &lock) == 0) return 0;
  return errno == EACCES ? EAGAIN : errno;
}

void RecordLocks::release(const Node& node, uint64_t owner) {
  std::shared_ptr<posix::Fd> dropped;  // closed outside the lock
  std::lock_guard lock(mutex_);
  auto it = descriptions_.find({node.id, owner});
  if (it == descriptions_.end()) return;
  dropped = std::move(it->second);
  descriptions_.erase(it);
}

LockWaits::~LockWaits() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void LockWaits::wait(Attempt attempt, Answer answer, std::shared_ptr<engine::CancelToken> token) {
  std::lock_guard lock(mutex_);
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  waiters_.push_back({std::move(attempt), std::move(answer), std::move(token)});
  changed_.notify_all();
}

void LockWaits::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopping_ || !waiters_.empty(); });
    for (auto it = waiters_.begin(); it != waiters_.end();) {
      const int error = stopping_ || it->token->reason() ? EINTR : it->attempt();
      if (error == EAGAIN) {
        ++it;
      } else {
        it->answer(error);
        it = waiters_.erase(it);
      }
    }
    if (stopping_) return;
    changed_.wait_for(lock, kBetweenAttempts, [this] { return stopping_; });
  }
}

}  // namespace fs
