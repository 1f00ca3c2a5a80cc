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
  work_.notify_all();
  if (thread_.joinable()) thread_.join();
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

bool FileWindows::ready(const storage::File& file, uint64_t offset, uint64_t length) {
  if (!on() || length < kLeast || file.facts().kind != storage::FileKind::regular ||
      !is_local(file.facts().file_system))
    return false;
  auto version = version_of(file.own());
  if (!version) return false;
  Dropped dropped;
  std::lock_guard lock(mutex_);
  if (files_.find(id_of(file)) == files_.end()) return false;
  Known& k = known(file, *version, dropped);
  bool all = true;
  for (uint64_t n = offset / kWindow; n <= (offset + length - 1) / kWindow; n++) {
    auto it = k.entries.find(n);
    if (it == k.entries.end()) return false;
    if (it->second.window) continue;
    all = false;
    if (it->second.bytes_read >= length_of_window(n, *version) && !it->second.refused && !it->second.wanted) {
      want(k, it->second, file);
      wanted_.emplace_back(id_of(file), n);
    }
  }
  if (!all) work_.notify_one();
  return all;
}

// With mutex_ held.
void FileWindows::want(Known& k, Entry& entry, const storage::File& file) {
  if (!k.fd)
    if (auto fd = posix::duplicate(file.own())) k.fd = std::move(*fd);
  entry.wanted = true;
  entry.used = Clock::now();
  if (thread_.joinable()) return;
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& e) {
    spdlog::warn("no windows of files: {}", e.what());
  }
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

std::shared_ptr<FileWindow> FileWindows::get(const storage::File& file, uint64_t offset) {
  std::lock_guard lock(mutex_);
  auto k = files_.find(id_of(file));
  if (k == files_.end()) return nullptr;
  auto entry = k->second.entries.find(offset / kWindow);
  if (entry == k->second.entries.end()) return nullptr;
  entry->second.used = Clock::now();
  return entry->second.window;
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

void FileWindows::run() {
  const auto pause = std::max<std::chrono::milliseconds>(longest_idle_ / 12, std::chrono::milliseconds(10));
  std::unique_lock lock(mutex_);
  for (;;) {
    work_.wait_for(lock, pause, [this] { return stopping_ || !wanted_.empty(); });
    if (stopping_) return;
    while (!wanted_.empty() && !stopping_) open_wanted(lock);
    Dropped dropped;
    sweep(dropped);
    lock.unlock();
    dropped.clear();
    lock.lock();
  }
}

// The first of those that are wanted. Opening takes milliseconds, and is done without the lock.
void FileWindows::open_wanted(std::unique_lock<std::mutex>& lock) {
  const auto [id, number] = wanted_.front();
  wanted_.erase(wanted_.begin());
  auto file = files_.find(id);
  if (file == files_.end() || !file->second.fd) return;
  const FileVersion version = file->second.version;
  const uint64_t length = length_of_window(number, version);
  Dropped dropped;
  auto fd = posix::duplicate(file->second.fd.get());
  const bool room = fd && length > 0 && make_room(length, dropped);
  lock.unlock();
  dropped.clear();
  auto opened = room ? FileWindow::open(runtime_, fd->get(), number * kWindow, length)
                     : posix::failure(ENOSPC, "no room for another window");
  lock.lock();
  file = files_.find(id);
  if (file == files_.end() || file->second.version != version) {
    lock.unlock();
    opened = posix::failure(ESTALE, "the file has changed");
    lock.lock();
    return;
  }
  Entry& entry = file->second.entries[number];
  entry.wanted = false;
  if (!opened) {
    entry.refused = opened.error().code == ENOTSUP;
    entry.bytes_read = 0;  // all of it has to be read again first
    spdlog::debug("inode {}, window {}: {}", id.inode, number, opened.error().text());
  } else if ((*opened)->version() == version && !entry.window) {
    entry.window = *opened;
    entry.used = Clock::now();
    bytes_ += length;
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
      any |= entry.window != nullptr || entry.wanted;
    }
    if (!any) file.fd.reset();
  }
}

}  // namespace engine
