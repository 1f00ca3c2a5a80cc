// Ways to move bytes between a file and device memory: those under test, and the baselines.
#pragma once

#include <memory>
#include <span>

#include "session.h"

namespace bench {

/// By whose report, and in whose words.
struct Route {
  std::string name;
  std::string reason;
};

/// One thread's part of a transport.
class Channel {
 public:
  virtual ~Channel() = default;
  /// Moves all of the requests, at most Workload::depth, and comes back when they are done.
  virtual posix::Result<void> move(std::span<const Request> requests) = 0;
  /// Of the last requests, asked by the thread that made them; empty where it cannot be known.
  virtual Route route() { return {}; }
};

class Transport {
 public:
  virtual ~Transport() = default;
  virtual posix::Result<std::unique_ptr<Channel>> channel() = 0;
  /// The process that works for this one; 0: none.
  virtual pid_t server() const { return 0; }
  /// Whether bytes get from the file to device memory or back; raw limits move only half the way.
  virtual bool is_whole() const { return true; }
};

using OpenedTransport = posix::Result<std::unique_ptr<Transport>>;

/// sync, batch, async: through a hipFile library.
OpenedTransport open_library_transport(const Workload& workload, Session& session);
/// ioctl, ioctl_batch, tagged, round_trip: through a hipfile-fuse mount.
OpenedTransport open_mount_transport(const Workload& workload, Session& session);
/// What a program does by itself, and half of it.
///   pread            buffered, to the heap
///   disk             O_DIRECT, to the heap
///   pread_pageable   buffered, to one heap buffer, and a synchronous copy
///   pread_pinned     buffered, to one pinned buffer, and a copy
///   direct_pinned    O_DIRECT, to one pinned buffer, and a copy
///   fallback         as pread_pageable, with a new buffer for each request, as AMD's hipFile does without P2P
OpenedTransport open_host_transport(const Workload& workload, Session& session);
/// memcpy (host to host) and device_copy (between pinned memory and the device): no file.
OpenedTransport open_copy_transport(const Workload& workload, Session& session);

/// EINVAL for a name that is none of these.
OpenedTransport open_transport(const Workload& workload, Session& session);

/// Opens the workload's path for its direction.
posix::Result<posix::Fd> open_for(const Workload& workload, int flags = 0);

}  // namespace bench
