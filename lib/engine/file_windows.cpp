#include "engine/file_windows.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <set>
#include <string>
#include <system_error>

namespace engine {
namespace {

constexpr size_t kMostFiles = 4096;

// Used within this time, a window does not make room for another.
constexpr auto kOfLate = std::chrono::seconds(10);

// Where nobody but this kernel changes files, so that times of change tell of every change.
bool is_local(const std::string& file_system) {
  static const std::set<std::string> local{"ext4", "ext3", "ext2", "xfs", "btrfs", "tmpfs"};
  return local.count(file_system) > 0;
}

uint64_t length_of_window(uint64_t number, const FileVersion& version) {
  const uint64_t begin = number * FileWindows::kWindow;
  return begin >= version.size ? 0 : std::min(FileWindows::kWindow, version.size - begin);
}

}  // namespace

FileWindows::FileWindows(std::shared_ptr<const gpu::Runtime> runtime, uint64_t most_bytes,
                         std::chrono::milliseconds longest_idle)
    : runtime_(std::move(runtime)),
      most_bytes_(
          runtime_ && runtime_->hip().hipHostRegister && runtime_->hip().hipHostUnregister ? most_bytes : 0),
      longest_idle_(longest_idle) {}

FileWindows::~FileWindows() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  stop_.notify_all();
  if (sweeper_.joinable()) sweeper_.join();
}

FileWindows::FileId FileWindows::id_of(const storage::File& file) {
  const storage::FileFacts& facts = file.facts();
  return {facts.device, facts.inode, facts.birth_nanoseconds};
}

FileWindows::Known& FileWindows::known(const storage::File& file, const FileVersion& version,
                                       Dropped& dropped) {
  if (files_.size() >= kMostFiles) std::erase_if(files_, [](const auto& f) { return !f.second.fd; });
  Known& k = files_[id_of(file)];
  if (k.version != version) {
    forget(k, dropped);
    k.version = version;
  }
  return k;
}

void FileWindows::close(Entry& entry, Dropped& dropped) {
  if (!entry.window) return;
  bytes_ -= entry.window->length();
  dropped.push_back(std::move(entry.window));
  entry.window = nullptr;
}

void FileWindows::forget(Known& file, Dropped& dropped) {
  for (auto& [number, entry] : file.entries) close(entry, dropped);
  file.entries.clear();
  file.fd.reset();
}

bool FileWindows::worth_it(const storage::File& file, uint64_t offset, uint64_t length) {
  if (!on() || length < kLeast || file.facts().kind != storage::FileKind::regular ||
      !is_local(file.facts().file_system))
    return false;
  auto version = version_of(file.own());
  if (!version) return false;
  Dropped dropped;
  std::lock_guard lock(mutex_);
  auto found = files_.find(id_of(file));
  if (found == files_.end()) return false;
  Known& k = known(file, *version, dropped);
  uint64_t to_open = 0;
  for (uint64_t n = offset / kWindow; n <= (offset + length - 1) / kWindow; n++) {
    auto it = k.entries.find(n);
    if (it == k.entries.end() || it->second.refused) return false;
    if (it->second.window) continue;
    if (it->second.bytes_read < length_of_window(n, *version)) return false;
    to_open += length_of_window(n, *version);
  }
  return to_open == 0 || make_room(to_open, dropped);
}

bool FileWindows::all_open(const storage::File& file, uint64_t offset, uint64_t length) const {
  std::lock_guard lock(mutex_);
  auto k = files_.find(id_of(file));
  if (k == files_.end()) return false;
  for (uint64_t n = offset / kWindow; n <= (offset + length - 1) / kWindow; n++)
    if (auto it = k->second.entries.find(n); it == k->second.entries.end() || !it->second.window)
      return false;
  return true;
}

void FileWindows::count(const storage::File& file, uint64_t offset, uint64_t length) {
  if (!on() || length < kLeast) return;
  auto version = version_of(file.own());
  if (!version) return;
  Dropped dropped;
  std::lock_guard lock(mutex_);
  Known& k = known(file, *version, dropped);
  const uint64_t end = offset + length;
  for (uint64_t n = offset / kWindow; n <= (end - 1) / kWindow; n++)
    k.entries[n].bytes_read += std::min(end, (n + 1) * kWindow) - std::max(offset, n * kWindow);
}

posix::Result<std::shared_ptr<FileWindow>> FileWindows::get(const storage::File& file, uint64_t offset) {
  const uint64_t number = offset / kWindow;
  auto version = version_of(file.own());
  if (!version) return tl::unexpected(version.error());
  const uint64_t length = length_of_window(number, *version);
  if (length == 0) return posix::failure(EAGAIN, "a window behind the end of the file");
  Dropped dropped;
  {
    std::lock_guard lock(mutex_);
    Entry& entry = known(file, *version, dropped).entries[number];
    entry.used = Clock::now();
    if (entry.window) return entry.window;
    if (!make_room(length, dropped)) return posix::failure(ENOSPC, "no room for a window");
  }
  auto opened = FileWindow::open(runtime_, file, number * kWindow, length);
  std::lock_guard lock(mutex_);
  Known& k = known(file, *version, dropped);
  Entry& entry = k.entries[number];
  if (!opened) {
    entry.refused = opened.error().code == ENOTSUP;
    entry.bytes_read = 0;
    spdlog::debug("inode {}: {}", file.facts().inode, opened.error().text());
    return opened;
  }
  if (entry.window) return entry.window;
  if (!k.fd) {
    auto fd = posix::duplicate(file.own());
    if (!fd) return opened;  // used once, not kept
    k.fd = std::move(*fd);
  }
  if ((*opened)->version() != *version) return opened;
  entry.window = *opened;
  entry.used = Clock::now();
  bytes_ += length;
  start_sweeping();
  return opened;
}

// Closes what has not been used of late, the oldest first.
bool FileWindows::make_room(uint64_t bytes, Dropped& dropped) {
  while (bytes_ + bytes > most_bytes_) {
    Entry* oldest = nullptr;
    for (auto& [id, file] : files_)
      for (auto& [number, entry] : file.entries)
        if (entry.window && (!oldest || entry.used < oldest->used)) oldest = &entry;
    if (!oldest || Clock::now() - oldest->used < kOfLate) return false;
    close(*oldest, dropped);
  }
  return true;
}

void FileWindows::drop(const storage::File& file) {
  Dropped dropped;
  std::lock_guard lock(mutex_);
  auto it = files_.find(id_of(file));
  if (it == files_.end()) return;
  forget(it->second, dropped);
  files_.erase(it);
}

void FileWindows::drop_all() {
  Dropped dropped;
  std::lock_guard lock(mutex_);
  for (auto& [id, file] : files_) forget(file, dropped);
  files_.clear();
}

uint64_t FileWindows::bytes() const {
  std::lock_guard lock(mutex_);
  return bytes_;
}

void FileWindows::start_sweeping() {
  if (sweeper_.joinable()) return;
  try {
    sweeper_ = std::thread([this] { run_sweeper(); });
  } catch (const std::system_error& e) {
    spdlog::warn("windows of files are kept until the file changes: {}", e.what());
  }
}

void FileWindows::run_sweeper() {
  const auto pause = std::max<std::chrono::milliseconds>(longest_idle_ / 12, std::chrono::milliseconds(10));
  std::unique_lock lock(mutex_);
  while (!stop_.wait_for(lock, pause, [this] { return stopping_; })) {
    Dropped dropped;
    sweep(dropped);
    lock.unlock();
    dropped.clear();
    lock.lock();
  }
}

// A window keeps its file on the disk, so it goes with the file's last name.
void FileWindows::sweep(Dropped& dropped) {
  const auto now = Clock::now();
  for (auto& [id, file] : files_) {
    if (!file.fd) continue;
    auto version = version_of(file.fd.get());
    const bool gone = !version || *version != file.version || version->links == 0;
    bool any = false;
    for (auto& [number, entry] : file.entries) {
      if (gone || now - entry.used > longest_idle_) close(entry, dropped);
      any |= entry.window != nullptr;
    }
    if (!any) file.fd.reset();
  }
}

}  // namespace engine
