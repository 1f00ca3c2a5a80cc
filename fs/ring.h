// FUSE over io_uring (Linux 6.14): requests and replies go through queues, one per CPU, instead of read and write of
// /dev/fuse. Forgets and interrupts still come there.
#pragma once

#include <sys/uio.h>

#include <array>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "kernel_abi.h"
#include "posix/error.h"
#include "request_loop.h"

namespace fs {

class RingQueue;
struct RingEntry;

class Ring {
 public:
  /// Makes the queues without telling the kernel, so that a failure can still be met by doing without. `largest`:
  /// bytes of the largest request or reply. ENOSYS, EPERM: io_uring is not to be had.
  static posix::Result<std::unique_ptr<Ring>> create(size_t largest, ServeRequest serve);
  ~Ring();
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  /// To be called once the kernel has agreed. Returns at once.
  void start(int device);
  /// Stops serving. Replies that come later are taken and lost.
  void stop();
  /// Takes a reply, from any thread, if its request came through the ring. `parts` begins with the OutHeader.
  bool answer(const iovec* parts, int count);

 private:
  friend class RingQueue;
  explicit Ring(ServeRequest serve);

  // Requests that are being served, by their number: any thread may answer them.
  struct Shard {
    std::mutex mutex;
    std::vector<std::pair<uint64_t, RingEntry*>> entries;
  };
  Shard& shard_of(uint64_t unique) { return shards_[unique / 2 % shards_.size()]; }
  void expect_answer(uint64_t unique, RingEntry& entry);
  RingEntry* take(uint64_t unique);

  const ServeRequest serve_;
  std::array<Shard, 64> shards_;
  std::vector<std::unique_ptr<RingQueue>> queues_;
};

}  // namespace fs
