#include "tagged_io.h"

#include <sys/stat.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <vector>

#include "gpu_io.h"

namespace fs {
namespace {

constexpr uint64_t kAhead = 8 << 20;     // a few ms of a fast disk
constexpr uint64_t kSequence = 2 << 20;  // one read(2) of a MiB may come as two requests, and is none yet

// Zeros of any length a read can have, as the same few pages again and again. They are pages of our own: the kernel finds
// its zero page only in the slow way.
class Zeros {
 public:
  explicit Zeros(size_t size) {
    for (; size > 0; size -= parts_[count_++].iov_len)
      parts_[count_] = {const_cast<char*>(pages), std::min(size, sizeof pages)};
  }
  const iovec* parts() const { return parts_.data(); }
  int count() const { return static_cast<int>(count_); }

 private:
  // fs.fuse.max_pages_limit is at most 65535 pages, and writev(2) takes 1024 parts.
  static constexpr size_t kPartsAtMost = 1000;
  alignas(kPage) static constexpr char pages[(65535 / kPartsAtMost + 1) * kPage] = {};
  std::array<iovec, kPartsAtMost> parts_;
  size_t count_ = 0;
};

void reply_read(fuse_req_t request, Filesystem& fs, const Tag& tag, const GpuIo& io,
                const engine::Outcome& outcome) {
  const auto bytes = static_cast<size_t>(outcome.bytes);
  if (!tag.tee) {
    const Zeros nothing(bytes);
    fuse_reply_iov(request, nothing.parts(), nothing.count());
    return;
  }
  std::vector<char> copy(bytes);
  if (int error = fs.engine().fetch(io.buffer->memory(), io.buffer_offset, copy.data(), bytes))
    fuse_reply_err(request, error);
  else
    fuse_reply_buf(request, copy.data(), bytes);
}

// Reads of a tagged descriptor come one by one, a MiB at most: the disk would rest in between. What is to be on its way
// when this one has come.
ReadAhead due_ahead(Tag& tag, const GpuIo& io) {
  const uint64_t end = io.file_offset + io.length;
  const bool follows = tag.next_offset.exchange(end) == io.file_offset;
  if (!follows) {
    tag.in_order = 0;
    tag.ahead = 0;
  }
  if ((tag.in_order += io.length) < kSequence) return {};
  const ReadAhead next = read_ahead_of(end, tag.ahead);
  if (next.length > 0) tag.ahead = next.offset + next.length;
  return next;
}

void start_read_ahead(Filesystem& fs, const std::shared_ptr<OpenFile>& file, const ReadAhead& range) {
  if (range.length == 0) return;
  auto job = [&fs, file, range] {
    if (auto opened = engine_file(fs, *file)) fs.engine().read_ahead(**opened, range.offset, range.length);
  };
  fs.executor().submit(std::move(job), std::make_shared<engine::CancelToken>(), false, file->node->device);
}

void account(Tag& tag, engine::Direction direction, const engine::Outcome& outcome) {
  tag.requests++;
  (direction == engine::Direction::read ? tag.bytes_read : tag.bytes_written) += outcome.bytes;
  if (outcome.error) tag.failures++;
  tag.route = static_cast<uint32_t>(outcome.route);
  tag.reason = static_cast<uint32_t>(outcome.reason);
}

void answer(fuse_req_t request, Filesystem& fs, Tag& tag, const GpuIo& io, const engine::Outcome& outcome) {
  account(tag, io.direction, outcome);
  if (outcome.result() < 0)
    fuse_reply_err(request, outcome.error);
  else if (io.direction == engine::Direction::read)
    reply_read(request, fs, tag, io, outcome);
  else
    fuse_reply_write(request, static_cast<size_t>(outcome.bytes));
}

void serve(fuse_req_t request, std::shared_ptr<OpenFile> file, std::shared_ptr<Tag> tag,
           engine::Direction direction, uint64_t size, uint64_t offset) {
  Filesystem& fs = filesystem_of(request);
  GpuIo io{direction, tag->buffer.lock(), 0, offset, 0, caller_of(request)};
  if (!io.buffer) return void(fuse_reply_err(request, ENXIO));
  TagShare share = share_of(tag->file_offset, tag->length, tag->buffer_offset, offset, size);
  if (share.error) {
    // At or past the end of the file a read is at end of file, wherever the window lies.
    struct stat st;
    if (direction == engine::Direction::read && fstat(file->descriptor(), &st) == 0 && S_ISREG(st.st_mode) &&
        offset >= static_cast<uint64_t>(st.st_size))
      return void(fuse_reply_buf(request, nullptr, 0));
    return void(fuse_reply_err(request, share.error));
  }
  io.buffer_offset = share.buffer_offset;
  io.length = share.length;
  if (direction == engine::Direction::read) start_read_ahead(fs, file, due_ahead(*tag, io));
  if (auto outcome = carry_out_at_once(fs, *file, io)) return answer(request, fs, *tag, io, *outcome);
  const dev_t source = file->node->device;
  auto token = std::make_shared<engine::CancelToken>();
  auto job = [&fs, request, file = std::move(file), tag = std::move(tag), io = std::move(io), token,
              guard = InterruptGuard(request, token)]() mutable {
    prepare_thread();
    const engine::Outcome outcome = carry_out_safely(fs, *file, io, *token);
    guard.disarm();
    answer(request, fs, *tag, io, outcome);
  };
  fs.executor().submit(std::move(job), token, false, source);
}

}  // namespace

ReadAhead read_ahead_of(uint64_t offset, uint64_t ahead) {
  const uint64_t begin = std::max(offset, ahead), end = offset + kAhead;
  if (begin + kAhead / 2 > end) return {};
  return {begin, end - begin};
}

TagShare share_of(uint64_t tag_offset, uint64_t tag_length, uint64_t tag_buffer_offset, uint64_t offset,
                  uint64_t length) {
  TagShare share;
  if (offset < tag_offset || offset - tag_offset >= tag_length) {
    share.error = ENOSPC;
    return share;
  }
  const uint64_t skip = offset - tag_offset;
  share.length = std::min(length, tag_length - skip);
  share.buffer_offset = tag_buffer_offset + skip;
  return share;
}

void read_tagged(fuse_req_t request, std::shared_ptr<OpenFile> file, std::shared_ptr<Tag> tag, size_t size,
                 off_t offset) {
  serve(request, std::move(file), std::move(tag), engine::Direction::read, size,
        static_cast<uint64_t>(offset));
}

void write_tagged(fuse_req_t request, std::shared_ptr<OpenFile> file, std::shared_ptr<Tag> tag, size_t size,
                  off_t offset) {
  serve(request, std::move(file), std::move(tag), engine::Direction::write, size,
        static_cast<uint64_t>(offset));
}

}  // namespace fs
