// user.hipfile.explain: which way a file's data would go to a GPU, as an extended attribute that is nowhere stored.
#pragma once

#include <string>
#include <string_view>

#include "filesystem.h"

namespace fs {

/// Whether an extended attribute is this one. It is not listed, so that programs that copy attributes do not copy it, and
/// cannot be set.
inline bool is_explanation(std::string_view name) { return name == "user.hipfile.explain"; }

/// The engine's verdict on a read of the whole file into device memory, for each GPU; for a directory, that of a file in
/// it. Reads sysfs and the mount table, so it may wait for a disk.
posix::Result<std::string> explain(Filesystem& fs, const Place& place);

}  // namespace fs
