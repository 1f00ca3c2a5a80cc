// Moving bytes between an open file of the mount and a registered buffer.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "filesystem.h"

namespace fs {

struct GpuIo {
  engine::Direction direction = engine::Direction::read;
  std::shared_ptr<Buffer> buffer;
  uint64_t buffer_offset = 0;  ///< the range has been checked against the buffer
  uint64_t file_offset = 0;
  uint64_t length = 0;
  Caller caller;
};

/// The file as the engine uses it, opened with the first request.
posix::Result<std::shared_ptr<const storage::File>> engine_file(Filesystem& fs, OpenFile& file);

/// Carries a request out on the calling thread.
engine::Outcome carry_out(Filesystem& fs, OpenFile& file, const GpuIo& io, const engine::CancelToken& cancel);

/// Carries reads out on the calling thread; small ones share one submission.
std::vector<engine::Outcome> carry_out_reads(Filesystem& fs, OpenFile& file, std::span<const GpuIo> reads,
                                             const engine::CancelToken& cancel);

/// Those of them that carry_out_at_once() would carry out, in one go; nothing for the others.
std::vector<std::optional<engine::Outcome>> carry_out_reads_at_once(Filesystem& fs, OpenFile& file,
                                                                    std::span<const GpuIo> reads);

/// Carries one request out; what is thrown becomes an error of the request.
engine::Outcome carry_out_safely(Filesystem& fs, OpenFile& file, const GpuIo& io,
                                 const engine::CancelToken& cancel);

/// Carries a request out on a thread that others need, if it is a small read that waits for no disk. Otherwise nothing:
/// then it is the executor's.
std::optional<engine::Outcome> carry_out_at_once(Filesystem& fs, OpenFile& file, const GpuIo& io);
/// Whether a request counts as long for the executor.
bool is_long(uint64_t length);

/// Cancels a token when the kernel says that the caller was interrupted, until disarmed. To be disarmed
/// before the request is answered: afterwards libfuse may still be about to call back.
class InterruptGuard {
 public:
  InterruptGuard(fuse_req_t request, std::shared_ptr<engine::CancelToken> token);
  void disarm();

 private:
  fuse_req_t request_;
  std::shared_ptr<engine::CancelToken> token_;
};

}  // namespace fs
