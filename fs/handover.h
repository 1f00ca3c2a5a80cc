// The socket through which clients hand over descriptors that the daemon may not fetch itself.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "posix/fd.h"

namespace fs {

/// Thread-safe.
class Handover {
 public:
  /// Listens on `path`, which must not exist, or be a socket that nobody listens on any more.
  static posix::Result<std::unique_ptr<Handover>> listen(const std::string& path);
  ~Handover();
  Handover(const Handover&) = delete;
  Handover& operator=(const Handover&) = delete;

  const std::string& path() const { return path_; }
  /// The descriptor behind a token that this user was given; the token is used up.
  posix::Result<posix::Fd> redeem(uint64_t token, uid_t uid);

 private:
  using Clock = std::chrono::steady_clock;
  struct Waiting {
    posix::Fd fd;
    uid_t uid;
    Clock::time_point until;
  };
  Handover(std::string path, posix::Fd socket, posix::Fd stop);
  struct Connection {
    posix::Fd fd;
    Clock::time_point until;
  };
  void run();
  void accept_one();
  void serve(const posix::Fd& connection);
  int keep(posix::Fd fd, uid_t uid, uint64_t& token);
  void expire();

  const std::string path_;
  posix::Fd socket_, stop_;
  std::mutex mutex_;
  std::map<uint64_t, Waiting> waiting_;
  std::vector<Connection> connections_;  ///< of the thread alone
  std::thread thread_;
};

}  // namespace fs
