// Open file descriptions: what a file handle of the kernel stands for here.
#pragma once

#include <dirent.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "buffers.h"
#include "node_table.h"
#include "storage/file.h"

namespace fs {

/// A window of a file bound to a window of a buffer.
struct Tag {
  std::weak_ptr<Buffer> buffer;  ///< gone: the tag's requests fail
  uint64_t buffer_offset = 0;
  uint64_t file_offset = 0;
  uint64_t length = 0;
  bool tee = false;
  bool write = false;
  std::atomic<uint64_t> bytes_read{0}, bytes_written{0}, requests{0}, failures{0};
  std::atomic<uint32_t> route{0}, reason{0};
  std::function<void()> ended;  ///< called when the last request has let the tag go

  Tag() = default;
  ~Tag() {
    if (ended) ended();
  }
  Tag(const Tag&) = delete;
  Tag& operator=(const Tag&) = delete;
};

struct Description {
  explicit Description(std::shared_ptr<Node> n) : node(std::move(n)), id(next_id()) {}
  virtual ~Description() = default;

  std::shared_ptr<Node> node;
  const DescriptionId id;
  std::optional<ProcessKey> opener;  ///< found out only where buffers were registered at that time

 private:
  static DescriptionId next_id() {
    static std::atomic<DescriptionId> last{0};
    return ++last;
  }
};

struct OpenFile : Description {
  OpenFile(std::shared_ptr<Node> n, posix::Fd f, int open_flags)
      : Description(std::move(n)), fd(std::move(f)), flags(open_flags) {}

  posix::Fd fd;
  const int flags;
  bool sees_data = false;  ///< reads and writes come to the daemon, so it can be tagged

  std::mutex mutex;                           ///< guards what follows
  std::shared_ptr<const storage::File> file;  ///< for the engine; opened with the first request
  std::shared_ptr<Tag> tag;

  bool readable() const { return (flags & O_ACCMODE) != O_WRONLY; }
  bool writable() const { return (flags & O_ACCMODE) != O_RDONLY; }
  std::shared_ptr<Tag> current_tag() {
    std::lock_guard lock(mutex);
    return tag;
  }
};

struct OpenDirectory : Description {
  OpenDirectory(std::shared_ptr<Node> n, DIR* d) : Description(std::move(n)), stream(d, closedir) {}

  std::mutex mutex;  ///< guards what follows: readers of one descriptor share a position
  std::unique_ptr<DIR, int (*)(DIR*)> stream;
  off_t position = 0;
  dirent* pending = nullptr;  ///< read, but did not fit into the last reply
};

}  // namespace fs
