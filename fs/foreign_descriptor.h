// Descriptors that clients hand in and that turn out to be no memory.
#pragma once

#include "posix/fd.h"

namespace fs {

/// Closes a descriptor on a thread that nobody waits for: closing a file of a client's own file system asks that file
/// system, which need never answer. False if too many are waiting already; the descriptor is then kept open for good.
bool dispose(posix::Fd fd);

}  // namespace fs
