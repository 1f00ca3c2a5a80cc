// The commands of hipfile_fuse.h.
#pragma once

#include "filesystem.h"

namespace fs {

/// Whether a command number is one of ours, of whatever size.
bool is_gpu_command(unsigned command);

/// Checks and carries out one command, and answers it, at once or later.
void serve_gpu_ioctl(fuse_req_t request, Filesystem& fs, std::shared_ptr<Description> description,
                     unsigned command, const void* in, size_t in_size);

}  // namespace fs
