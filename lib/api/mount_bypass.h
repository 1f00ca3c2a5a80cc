// Files on a hipfile-fuse mount are used where they really are: with nothing of the daemon in the way.
#pragma once

#include <optional>

#include "posix/fd.h"

namespace api {

/// If `fd` is on a hipfile-fuse mount and the file behind it can be opened here, that file, opened the same
/// way.
std::optional<posix::Fd> open_behind_mount(int fd);

}  // namespace api
