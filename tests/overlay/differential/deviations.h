// Where the mount is known to differ from a plain directory. Everything else that differs is an error.
#pragma once

#include <string>

#include "step.h"

namespace differential {

struct Conditions {
  bool passthrough = true;  ///< of the mount
  bool xfs = false;         ///< what both trees are on
};

/// In directories, only the kernel knows where lseek goes, and it does not ask the file system below. Whether allocated
/// blocks without data count as a hole depends on which of their pages somebody has read; without passthrough the kernel
/// answers such reads from its own cache, and the file below does not see them.
bool seeks_alike(int fd, int whence, bool passthrough);

/// Kernel passthrough writes with the rights of the thread that registered the file, and the daemon registers as nobody:
/// set-id bits that a file gets while it is open go with the next write, even where the writer's own rights would have
/// kept them, that is with root, and for S_ISGID without group-x with members of the group. (A file that has them when it
/// is opened is written by the daemon, as the caller.) Steps do not write to such files.
bool loses_set_id_bits_to_nobody(int fd);

/// What writes behind the largest file that there can be below, or makes a larger one, is refused there; the kernel, which
/// does not know that, has had set-id bits and capabilities removed by then.
bool loses_privileges_beyond_files(const std::string& path, off_t offset);
bool loses_privileges_beyond_files(int fd, off_t offset);

/// A lone S_ISGID, without group-x, stays when a member of the group changes the file; the daemon knows its callers' further
/// groups as little as it does elsewhere. Steps of such members do not change such files.
bool loses_bit_of_further_group(const std::string& path);

/// chown(2) to neither owner nor group takes set-id bits away, and is the owner's alone then. What reaches the daemon of it
/// says no more than what comes before a stranger's write to such a file, so it lets both pass, or before root's to one
/// with capabilities as well, which keeps the bits.
bool keeps_bits_with_nobody_new(const std::string& path, int flags);

/// Changes a step that would only show a known deviation.
void avoid_known(Step& step);

/// What of an outcome must be the same in both trees.
std::string comparable(const std::string& outcome, const Conditions& conditions);

}  // namespace differential
