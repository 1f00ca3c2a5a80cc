#include "engine/file_windows.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <string_view>
#include <system_error>

namespace engine {
namespace {

constexpr size_t kMostFiles = 4096;

// Used within this time, a window does not make room for another.
constexpr auto kOfLate = std::chrono::seconds(10);

// Where nobody but this kernel changes files, so that times of change tell of every change.
bool is_local(std::string_view file_system) {
  constexpr std::string_view kLocal[] = {"ext4", "ext3", "ext2", "xfs", "btrfs", "tmpfs"};
  return std::find(std::begin(kLocal), std::end(kLocal), file_system) != std::end(kLocal);
}

uint64_t length_of_window(uint64_t number, const FileVersion& version) {
  const uint64_t begin = number * FileWindows::kWindow;
  return begin >= version.size ? 0 : std::min(FileWindows::kWindow, version.size - begin);
}

}  // namespace

FileWindows::FileWindows(std::shared_ptr<const gpu::Runtime> runtime, uint64_t most_bytes,
                         WindowPatience patience)
    : runtime_(std::move(runtime)),
      most_bytes_(
          runtime_ && runtime_->hip().hipHostRegister && runtime_->hip().hipHostUnregister ? most_bytes : 0),
      patience_(patience) {}

FileWindows::~FileWindows() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_.notify_all();
  quiet_.notify_all();
  if (thread_.joinable()) thread_.join();
}

bool FileWindows::takes(const storage::File& file, uint64_t length) const {
  return most_bytes_ >= kWindow && length >= kLeast && file.facts().kind == storage::FileKind::regular &&
         is_local(file.facts().file_system);
}

void FileWindows::begin_reading() {
  if (most_bytes_ < kWindow) return;
  std::lock_guard lock(mutex_);
  reading_++;
}

void FileWindows::end_reading() {
  if (most_bytes_ < kWindow) return;
  std::lock_guard lock(mutex_);
  if (--reading_ == 0) quiet_.notify_all();
}

FileWindows::Known& FileWindows::known(const storage::File& file, const FileVersion& version,
                                       Dropped& dropped) {
  if (files_.size() >= kMostFiles) std::erase_if(files_, [](const auto& f) { return !f.second.fd; });
  Known& k = files_[file.facts().id];
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

bool FileWindows::are_open(const storage::File& file, uint64_t offset, uint64_t length) const {
  if (!takes(file, length)) return false;
  auto version = version_of(file.own());
  std::lock_guard lock(mutex_);
  auto k = files_.find(file.facts().id);
  if (!version || k == files_.end() || k->second.version != *version) return false;
  for (uint64_t n = offset / kWindow; n <= (offset + length - 1) / kWindow; n++)
    if (auto entry = k->second.entries.find(n); entry == k->second.entries.end() || !entry->second.window)
      return false;
  return true;
}

void FileWindows::ask(const storage::File& file, uint64_t offset, uint64_t length) {
  if (!takes(file, length)) return;
  auto version = version_of(file.own());
  Dropped dropped;
  std::lock_guard lock(mutex_);
  if (!version || files_.count(file.facts().id) == 0) return;
  Known& k = known(file, *version, dropped);
  for (uint64_t n = offset / kWindow; n <= (offset + length - 1) / kWindow; n++) {
    auto it = k.entries.find(n);
    if (it == k.entries.end()) continue;
    Entry& entry = it->second;
    if (entry.window || entry.wanted || entry.refused || entry.bytes_read < length_of_window(n, *version))
      continue;
    if (!k.fd)
      if (auto fd = posix::duplicate(file.own())) k.fd = std::move(*fd);
    if (!k.fd || !start_thread()) return;
    entry.wanted = true;
    wanted_.emplace_back(file.facts().id, n);
  }
  if (!wanted_.empty()) work_.notify_one();
}

bool FileWindows::start_thread() {
  if (thread_.joinable()) return true;
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& e) {
    spdlog::warn("no windows of files: {}", e.what());
  }
  return thread_.joinable();
}

void FileWindows::count(const storage::File& file, uint64_t offset, uint64_t length) {
  if (!takes(file, length)) return;
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
  auto k = files_.find(file.facts().id);
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
  const auto pause = std::max<std::chrono::milliseconds>(patience_.idle / 12, std::chrono::milliseconds(10));
  std::unique_lock lock(mutex_);
  for (;;) {
    work_.wait_for(lock, pause, [this] { return stopping_ || !wanted_.empty(); });
    while (!wanted_.empty() && !stopping_) {
      quiet_.wait_for(lock, patience_.pause, [this] { return stopping_ || reading_ == 0; });
      if (!stopping_) open_first(lock);
    }
    if (stopping_) return;
    Dropped dropped;
    sweep(dropped);
    lock.unlock();
    dropped.clear();
    lock.lock();
  }
}

// Of those that are wanted. Opening takes milliseconds, and is done without the lock; meanwhile the file may be found
// changed or dropped.
void FileWindows::open_first(std::unique_lock<std::mutex>& lock) {
  const auto [id, number] = wanted_.front();
  wanted_.pop_front();
  auto file = files_.find(id);
  if (file == files_.end() || !file->second.fd) return;  // forgotten, and the wish with it
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
  if (file != files_.end() && file->second.version == version) {
    Entry& entry = file->second.entries[number];
    entry.wanted = false;
    if (!opened) {
      entry.refused = opened.error().code == ENOTSUP;
      entry.bytes_read = 0;  // all of it has to be read again first
      spdlog::debug("inode {}, window {}: {}", id.inode, number, opened.error().text());
    } else if ((*opened)->version() == version && !entry.window) {
      entry.window = std::move(*opened);
      entry.used = Clock::now();
      bytes_ += length;
    }
  }
  lock.unlock();
  if (opened) opened->reset();  // not taken: unregistered without the lock
  lock.lock();
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
      if (gone || now - entry.used > patience_.idle) close(entry, dropped);
      any |= entry.window || entry.wanted;
    }
    if (!any) file.fd.reset();
  }
}

}  // namespace engine
