#include "gpu_io.h"

#include <spdlog/spdlog.h>
#include <sys/stat.h>

namespace fs {
namespace {

constexpr uint64_t kLong = 4 * 1024 * 1024;

// A write by anyone but root takes the set-id bits away. The engine's threads may be root to the file system,
// so it is done here.
void drop_set_id_bits(OpenFile& file, const Caller& caller) {
  struct stat st;
  if (caller.uid == 0 || fstat(file.descriptor(), &st) < 0) return;
  mode_t drop = st.st_mode & S_ISUID;
  if (st.st_mode & S_IXGRP) drop |= st.st_mode & S_ISGID;
  if (drop && fchmod(file.descriptor(), st.st_mode & ~drop & 07777) < 0)
    spdlog::warn("set-id bits of inode {} stay: {}", file.node->inode, strerror(errno));
}

// Size and times have changed; with passthrough the kernel keeps no data of its own. Dropping data waits for pages that
// only a served mount unlocks, so it is left alone when the mount ends.
void invalidate_written(Filesystem& fs, OpenFile& file, const GpuIo& io, const engine::Outcome& outcome,
                        const engine::CancelToken& cancel) {
  bool passthrough;
  {
    std::lock_guard lock(file.node->mutex);
    passthrough = file.node->backing_id != 0;
  }
  if (passthrough || cancel.reason() == ESHUTDOWN)
    fs.session().invalidate(file.node->id, 0, 0);
  else
    fs.session().invalidate(file.node->id, static_cast<off_t>(io.file_offset),
                            static_cast<off_t>(outcome.bytes));
}

void interrupted(fuse_req_t, void* token) { static_cast<engine::CancelToken*>(token)->cancel(EINTR); }

}  // namespace

posix::Result<std::shared_ptr<const storage::File>> engine_file(Filesystem& fs, OpenFile& file) {
  std::lock_guard lock(file.mutex);
  if (file.file) return file.file;
  auto copy = posix::duplicate(file.descriptor());
  if (!copy) return tl::unexpected(copy.error());
  auto opened = storage::File::open(std::move(*copy), fs.engine().mounts());
  if (opened) file.file = *opened;
  return opened;
}

bool is_long(uint64_t length) { return length > kLong; }

namespace {

void log_failure(Filesystem& fs, const OpenFile& file, const GpuIo& io, const engine::Outcome& outcome) {
  if (!outcome.error || outcome.error == EINTR) return;
  const bool writing = io.direction == engine::Direction::write;
  spdlog::info("{} of {} bytes at {} of inode {} ended after {} by route {}: {}{}",
               writing ? "write" : "read", io.length, io.file_offset, file.node->inode, outcome.bytes,
               engine::name(outcome.route), strerror(outcome.error),
               outcome.hip_error != hip::kSuccess && fs.engine().runtime()
                   ? " (" + fs.engine().runtime()->error_name(outcome.hip_error) + ")"
                   : "");
}

engine::Request request_of(const storage::File& file, const GpuIo& io) {
  return {io.direction, &file, io.buffer->memory(), io.buffer_offset, io.file_offset, io.length};
}

std::vector<engine::Request> requests_of(const storage::File& file, std::span<const GpuIo> reads) {
  std::vector<engine::Request> requests;
  requests.reserve(reads.size());
  for (const GpuIo& io : reads) requests.push_back(request_of(file, io));
  return requests;
}

}  // namespace

engine::Outcome carry_out(Filesystem& fs, OpenFile& file, const GpuIo& io,
                          const engine::CancelToken& cancel) {
  engine::Outcome outcome;
  auto opened = engine_file(fs, file);
  if (!opened) {
    outcome.error = opened.error().code;
    spdlog::warn("inode {}: {}", file.node->inode, opened.error().text());
    return outcome;
  }
  if (io.direction == engine::Direction::read) {
    outcome = fs.engine().run(request_of(**opened, io), cancel);
  } else {
    auto lane = fs.engine().lease();  // made with the daemon's rights: what it starts serves others later
    drop_set_id_bits(file, io.caller);
    AsWriter as(io.caller);
    outcome = fs.engine().run(request_of(**opened, io), cancel, std::move(lane));
  }
  if (io.direction == engine::Direction::write && outcome.bytes > 0)
    invalidate_written(fs, file, io, outcome, cancel);
  log_failure(fs, file, io, outcome);
  return outcome;
}

std::optional<engine::Outcome> carry_out_at_once(Filesystem& fs, OpenFile& file, const GpuIo& io) try {
  auto opened = engine_file(fs, file);
  if (!opened) return std::nullopt;
  auto outcome = fs.engine().run_at_once(request_of(**opened, io));
  if (outcome) log_failure(fs, file, io, *outcome);
  return outcome;
} catch (const std::exception&) {  // the executor tells of it, should it fail there, too
  return std::nullopt;
}

std::vector<engine::Outcome> carry_out_reads(Filesystem& fs, OpenFile& file, std::span<const GpuIo> reads,
                                             const engine::CancelToken& cancel) {
  auto opened = engine_file(fs, file);
  if (!opened) {
    engine::Outcome failed;
    failed.error = opened.error().code;
    spdlog::warn("inode {}: {}", file.node->inode, opened.error().text());
    return std::vector<engine::Outcome>(reads.size(), failed);
  }
  auto outcomes = fs.engine().run_all(requests_of(**opened, reads), cancel);
  for (size_t i = 0; i < reads.size(); i++) log_failure(fs, file, reads[i], outcomes[i]);
  return outcomes;
}

std::vector<std::optional<engine::Outcome>> carry_out_reads_at_once(Filesystem& fs, OpenFile& file,
                                                                    std::span<const GpuIo> reads) {
  auto opened = engine_file(fs, file);
  if (!opened) return std::vector<std::optional<engine::Outcome>>(reads.size());
  auto outcomes = fs.engine().run_all_at_once(requests_of(**opened, reads));
  for (size_t i = 0; i < reads.size(); i++)
    if (outcomes[i]) log_failure(fs, file, reads[i], *outcomes[i]);
  return outcomes;
}

engine::Outcome carry_out_safely(Filesystem& fs, OpenFile& file, const GpuIo& io,
                                 const engine::CancelToken& cancel) {
  try {
    return carry_out(fs, file, io, cancel);
  } catch (const std::exception& e) {
    spdlog::error("request on inode {}: {}", file.node->inode, e.what());
    engine::Outcome failed;
    failed.error = ENOMEM;
    return failed;
  }
}

InterruptGuard::InterruptGuard(fuse_req_t request, std::shared_ptr<engine::CancelToken> token)
    : request_(request), token_(std::move(token)) {
  fuse_req_interrupt_func(request_, interrupted, token_.get());
}

void InterruptGuard::disarm() { fuse_req_interrupt_func(request_, nullptr, nullptr); }

}  // namespace fs
