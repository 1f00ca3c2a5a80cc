// The windows of files that are kept for devices to read from: which, how many, how long.
#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <tuple>
#include <vector>

#include "engine/file_window.h"
#include "storage/file.h"

namespace engine {

/// Thread-safe. A window is opened when its part of a file is read for the second time, so that what is read once costs
/// nothing, and by a thread of its own, as that takes longer than copying: that read goes another way, the next one
/// finds it open. It goes when the file changes, when it has not been used for a while, or when the file has lost its last
/// name. While the budget is used up by windows of late, no others are opened: files that are read in turn and do not
/// all fit would only displace each other.
class FileWindows {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr uint64_t kWindow = 64 << 20;  ///< bytes; a multiple of every page size
  static constexpr uint64_t kLeast = 1 << 20;    ///< shorter requests gain nothing

  /// `most_bytes`: of all windows together. Off without a runtime that registers, or with less than one window.
  FileWindows(std::shared_ptr<const gpu::Runtime> runtime, uint64_t most_bytes,
              std::chrono::milliseconds longest_idle = std::chrono::seconds(60));
  ~FileWindows();
  FileWindows(const FileWindows&) = delete;
  FileWindows& operator=(const FileWindows&) = delete;

  bool on() const { return most_bytes_ >= kWindow; }

  /// Whether all of [offset, offset + length) can be read through windows. Has those opened that are worth it, because
  /// all of their part of the file has been read before; forgets what is stale.
  bool ready(const storage::File& file, uint64_t offset, uint64_t length);
  /// Tells of bytes that were read without windows.
  void count(const storage::File& file, uint64_t offset, uint64_t length);
  /// The open window with the byte at `offset`; null if there is none.
  std::shared_ptr<FileWindow> get(const storage::File& file, uint64_t offset);
  /// Forgets everything about a file.
  void drop(const storage::File& file);
  void drop_all();
  /// Bytes in windows now.
  uint64_t bytes() const;

 private:
  struct FileId {
    dev_t device;
    ino_t inode;
    int64_t birth;
    bool operator<(const FileId& o) const {
      return std::tie(device, inode, birth) < std::tie(o.device, o.inode, o.birth);
    }
  };
  struct Entry {
    std::shared_ptr<FileWindow> window;
    uint64_t bytes_read = 0;  // without it
    bool refused = false;     // by the runtime
    bool wanted = false;      // and to be opened
    Clock::time_point used;
  };
  struct Known {
    FileVersion version;
    posix::Fd fd;                       // while there are windows
    std::map<uint64_t, Entry> entries;  // by number
  };
  using Files = std::map<FileId, Known>;
  using Dropped = std::vector<std::shared_ptr<FileWindow>>;  // unregistered outside the lock

  static FileId id_of(const storage::File& file);
  // With mutex_ held. The file as it is now; what was known of an older version is moved to `dropped`.
  Known& known(const storage::File& file, const FileVersion& version, Dropped& dropped);
  void forget(Known& file, Dropped& dropped);
  void close(Entry& entry, Dropped& dropped);
  bool make_room(uint64_t bytes, Dropped& dropped);
  void want(Known& file, Entry& entry, const storage::File& opened);
  void run();
  void open_wanted(std::unique_lock<std::mutex>& lock);
  void sweep(Dropped& dropped);

  const std::shared_ptr<const gpu::Runtime> runtime_;
  const uint64_t most_bytes_;
  const std::chrono::milliseconds longest_idle_;
  mutable std::mutex mutex_;
  Files files_;
  uint64_t bytes_ = 0;
  std::condition_variable work_;
  std::vector<std::pair<FileId, uint64_t>> wanted_;  // windows to be opened, in order
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace engine
