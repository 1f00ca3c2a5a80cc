#include "locks.h"

#include <fcntl.h>

#include <chrono>

namespace fs {
namespace {

constexpr auto kBetweenAttempts = std::chrono::milliseconds(2);

}  // namespace

RecordLocks::Description RecordLocks::find(const Key& key) {
  std::lock_guard lock(mutex_);
  auto it = descriptions_.find(key);
  return it == descriptions_.end() ? nullptr : it->second;
}

// Locks for writing need it open for writing, which the caller has been allowed, or will be refused, by the kernel.
posix::Result<RecordLocks::Description> RecordLocks::find_or_open(const Key& key, const posix::Fd& path) {
  if (auto found = find(key)) return found;
  auto fd = posix::reopen(path.get(), O_RDWR);
  if (!fd) fd = posix::reopen(path.get(), O_RDONLY);
  if (!fd) return tl::unexpected(fd.error());
  std::lock_guard lock(
      mutex_);  // another thread of the owner may have been first: its description holds his locks
  return descriptions_.try_emplace(key, std::make_shared<const posix::Fd>(std::move(*fd))).first->second;
}

int RecordLocks::apply(const Node& node, const posix::Fd& path, uint64_t owner, int command,
                       struct flock& lock) {
  const Key key{node.id, owner};
  if (command == F_OFD_SETLK && lock.l_type == F_UNLCK && !find(key)) return 0;
  auto description = find_or_open(key, path);
  if (!description) return description.error().code;
  lock.l_pid = 0;
  if (fcntl((*description)->get(), command, &lock) == 0) return 0;
  return errno == EACCES ? EAGAIN : errno;
}

void RecordLocks::release(const Node& node, uint64_t owner) {
  Description dropped;  // closed outside the lock
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
