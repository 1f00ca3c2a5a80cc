// The windows of files that are kept for devices to read from: which, how many, how long.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/file_window.h"
#include "storage/file.h"

namespace engine {

/// How long windows wait.
struct WindowPatience {
  std::chrono::milliseconds idle{60000};  ///< what has not been used for so long is closed
  std::chrono::milliseconds pause{1000};  ///< for a pause in reading, before each is opened
};

/// Thread-safe. A window is opened once as many bytes of its part of a file have been read as it has, so that what is
/// read once costs nothing. A thread of its own opens it, as that takes longer than copying, and waits for a pause in
/// reading, as the two get in each other's way. It goes when the file changes, when it has not been used for a while, or
/// when the file has lost its last name. While the budget is used up by windows of late, no others are opened: files
/// that are read in turn and do not all fit would only displace each other.
class FileWindows {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr uint64_t kWindow = 64 << 20;  ///< bytes; a multiple of every page size
  static constexpr uint64_t kLeast = 1 << 20;    ///< shorter requests gain nothing

  /// `most_bytes`: of all windows together. Off without a runtime that registers, or with less than one window.
  FileWindows(std::shared_ptr<const gpu::Runtime> runtime, uint64_t most_bytes, WindowPatience patience = {});
  ~FileWindows();
  FileWindows(const FileWindows&) = delete;
  FileWindows& operator=(const FileWindows&) = delete;

  /// Whether windows are open for all of [offset, offset + length). Changes nothing.
  bool are_open(const storage::File& file, uint64_t offset, uint64_t length) const;
  /// Has those windows of the range opened that have been read often enough, and forgets what is known of an older
  /// version of the file.
  void ask(const storage::File& file, uint64_t offset, uint64_t length);

  /// A read without windows that is going on.
  class Reading {
   public:
    explicit Reading(FileWindows& windows) : windows_(windows) { windows_.begin_reading(); }
    ~Reading() { windows_.end_reading(); }
    Reading(const Reading&) = delete;
    Reading& operator=(const Reading&) = delete;

   private:
    FileWindows& windows_;
  };
  /// Tells of bytes that were read from the page cache without windows.
  void count(const storage::File& file, uint64_t offset, uint64_t length);
  /// The open window with the byte at `offset`; null if there is none.
  std::shared_ptr<FileWindow> get(const storage::File& file, uint64_t offset);

  void drop_all();
  /// Bytes in windows now.
  uint64_t bytes() const;

 private:
  struct Entry {
    std::shared_ptr<FileWindow> window;
    uint64_t bytes_read = 0;  // without it
    bool wanted = false;      // and to be opened: it is in wanted_
    bool refused = false;     // by the runtime
    Clock::time_point used;
  };
  struct Known {
    FileVersion version;
    posix::Fd fd;                       // while there are windows, or to be some
    std::map<uint64_t, Entry> entries;  // by number
  };
  using Files = std::map<storage::FileId, Known>;
  using Dropped = std::vector<std::shared_ptr<FileWindow>>;  // unregistered outside the lock

  bool takes(const storage::File& file, uint64_t length) const;
  void begin_reading();
  void end_reading();
  // With mutex_ held. The file as it is now; what was known of an older version is moved to `dropped`.
  Known& known(const storage::File& file, const FileVersion& version, Dropped& dropped);
  void forget(Known& file, Dropped& dropped);
  void close(Entry& entry, Dropped& dropped);
  bool make_room(uint64_t bytes, Dropped& dropped);
  bool start_thread();
  void run();
  void open_first(std::unique_lock<std::mutex>& lock);
  void sweep(Dropped& dropped);

  const std::shared_ptr<const gpu::Runtime> runtime_;
  const uint64_t most_bytes_;
  const WindowPatience patience_;
  mutable std::mutex mutex_;
  Files files_;
  uint64_t bytes_ = 0;
  unsigned reading_ = 0;
  std::condition_variable work_, quiet_;
  std::deque<std::pair<storage::FileId, uint64_t>> wanted_;  // windows to be opened, in order
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace engine
