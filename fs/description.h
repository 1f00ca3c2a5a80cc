// Open file descriptions: what a file handle of the kernel stands for here.
#pragma once

#include <dirent.h>
#include <fcntl.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>

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
  /// Where the next read of a sequence begins, how long it is by now, and how far the file has been read ahead.
  std::atomic<uint64_t> next_offset{UINT64_MAX}, in_order{0}, ahead{0};
  std::function<void()> ended;  ///< called when the last request has let the tag go

  Tag() = default;
  ~Tag() {
    if (ended) ended();
  }
  Tag(const Tag&) = delete;
  Tag& operator=(const Tag&) = delete;
};

struct Description {
  /// `d`: what the file was opened with for data, if it was.
  Description(std::shared_ptr<Node> n, PathFd p, DataFd d = nullptr)
      : node(std::move(n)), path(std::move(p)), data(std::move(d)), id(next_id()) {
    node->begin_use(path, data);
  }
  virtual ~Description() { node->end_use(data); }
  Description(const Description&) = delete;
  Description& operator=(const Description&) = delete;

  const std::shared_ptr<Node> node;
  const PathFd path;
  const DataFd data;
  const DescriptionId id;
  std::optional<ProcessKey> opener;  ///< found out only where buffers were registered at that time

 private:
  static DescriptionId next_id() {
    static std::atomic<DescriptionId> last{0};
    return ++last;
  }
};

struct OpenFile : Description {
  /// Without `f` the file is opened for the daemon when it first needs it.
  OpenFile(std::shared_ptr<Node> n, PathFd p, posix::Fd f, int open_flags)
      : Description(std::move(n), std::move(p),
                    f ? std::make_shared<const posix::Fd>(std::move(f)) : nullptr),
        flags(open_flags) {}

  const int flags;
  bool sees_data = false;  ///< reads and writes come to the daemon, so it can be tagged

  std::mutex mutex;                           ///< guards what follows
  std::set<uint64_t> lock_owners;             ///< whose record locks were taken through it
  std::shared_ptr<const storage::File> file;  ///< for the engine; opened with the first request
  std::shared_ptr<Tag> tag;

  bool readable() const { return (flags & O_ACCMODE) != O_WRONLY; }
  bool writable() const { return (flags & O_ACCMODE) != O_RDONLY; }
  std::shared_ptr<Tag> current_tag() {
    std::lock_guard lock(mutex);
    return tag;
  }
  /// The open file; -1 with errno if it cannot be opened. Thread-safe.
  int descriptor() {
    if (data) return data->get();
    std::lock_guard lock(fd_mutex_);
    if (!fd_) fd_ = posix::Fd(open(posix::proc_path(path->get()).c_str(), daemon_flags(flags)));
    return fd_.get();
  }
  /// Flags for the daemon's own open: without those that concern only names, or happen once.
  static int daemon_flags(int flags) {
    return (flags & ~(O_NOFOLLOW | O_CREAT | O_EXCL | O_TRUNC)) | O_CLOEXEC;
  }

 private:
  std::mutex fd_mutex_;
  posix::Fd fd_;
};

struct OpenDirectory : Description {
  using Description::Description;

  std::mutex mutex;  ///< guards what follows: readers of one descriptor share a position
  off_t position = 0;
  dirent* pending = nullptr;  ///< read, but did not fit into the last reply

  /// Its entries; null with errno if it cannot be opened, which is done with the first call. Thread-safe.
  DIR* stream() {
    std::lock_guard lock(stream_mutex_);
    if (!stream_) {
      posix::Fd fd(open(posix::proc_path(path->get()).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
      if (fd) stream_.reset(fdopendir(fd.get()));
      if (stream_) fd.release();
    }
    return stream_.get();
  }
  /// Its descriptor; -1 with errno if it cannot be opened.
  int descriptor() {
    DIR* opened = stream();
    return opened ? dirfd(opened) : -1;
  }

 private:
  std::mutex stream_mutex_;
  std::unique_ptr<DIR, int (*)(DIR*)> stream_{nullptr, closedir};
};

}  // namespace fs
