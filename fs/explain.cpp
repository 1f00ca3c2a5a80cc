#include "explain.h"

#include <sys/stat.h>

#include <algorithm>

#include "storage/extents.h"

namespace fs {
namespace {

// A directory stands for a file of this size in it.
constexpr uint64_t kTypicalLength = uint64_t{64} << 20;

posix::Result<storage::FileFacts> examine(Filesystem& fs, int fd, bool directory) {
  return directory ? storage::examine_directory(fd, fs.engine().mounts())
                   : storage::examine(fd, fs.engine().mounts());
}

}  // namespace

posix::Result<std::string> explain(Filesystem& fs, const Place& place) {
  struct stat st;
  if (fstat(place.fd(), &st) < 0)
    return posix::last_failure("examine inode " + std::to_string(place.node->inode));
  const bool directory = S_ISDIR(st.st_mode);
  // Some attributes are only told of files that are open.
  auto opened =
      S_ISREG(st.st_mode) ? posix::reopen(place.fd(), O_RDONLY | O_NONBLOCK) : posix::failure(ENODATA, "");
  auto facts = examine(fs, opened ? opened->get() : place.fd(), directory);
  if (!facts) return tl::unexpected(facts.error());
  const uint64_t length = directory ? kTypicalLength : static_cast<uint64_t>(st.st_size);
  const gpu::Runtime* runtime = fs.engine().runtime();
  const int devices = runtime ? runtime->device_count() : 0;
  std::string text;
  for (int device = 0; device < std::max(devices, 1); device++) {
    if (devices > 1) text += "GPU " + std::to_string(device) + "\n";
    text += fs.engine().explain(*facts, length, device).text();
  }
  if (opened)
    if (auto extents = storage::examine_extents(opened->get(), 0, length))
      if (std::string notable = extents->describe(); !notable.empty()) text += "extents: " + notable + "\n";
  text += "runtime: " + (runtime ? runtime->describe() : std::string("none")) + "\n";
  return text;
}

}  // namespace fs
