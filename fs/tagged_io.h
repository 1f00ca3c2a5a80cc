// read(2) and write(2) on a tagged descriptor.
#pragma once

#include "filesystem.h"

namespace fs {

/// What part of a request a tag takes. Pure.
struct TagShare {
  int error = 0;  ///< ENOSPC: the request starts outside the window
  uint64_t length = 0;
  uint64_t buffer_offset = 0;
};
TagShare share_of(uint64_t tag_offset, uint64_t tag_length, uint64_t tag_buffer_offset, uint64_t offset,
                  uint64_t length);

/// The part of a file that should be on its way from the disk when a read of a sequence that ends at `offset` has come:
/// what reaches beyond what has been read `ahead` (an offset) already. Empty while enough has. Pure.
struct ReadAhead {
  uint64_t offset = 0, length = 0;
};
ReadAhead read_ahead_of(uint64_t offset, uint64_t ahead);

void read_tagged(fuse_req_t request, std::shared_ptr<OpenFile> file, std::shared_ptr<Tag> tag, size_t size,
                 off_t offset);
void write_tagged(fuse_req_t request, std::shared_ptr<OpenFile> file, std::shared_ptr<Tag> tag, size_t size,
                  off_t offset);

}  // namespace fs
