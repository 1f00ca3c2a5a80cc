#include "engine/file_window.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

#include "storage/page_cache.h"

namespace engine {
namespace {

constexpr int64_t kSecond = 1000000000;

// A write around the cache is over after this, whatever happens: the block layer gives a command up after 30 s.
constexpr int64_t kLongestWrite = 60 * kSecond;

// Time stamps of files come from this clock, which ticks every few milliseconds.
constexpr int64_t kCoarse = kSecond / 10;

int64_t nanoseconds(const timespec& t) { return t.tv_sec * kSecond + t.tv_nsec; }

enum class Writers { none, some, unknown };

// A read lease is to be had only where nobody has the file open for writing. It is given back at once.
Writers writers_of(int fd) {
  if (fcntl(fd, F_SETLEASE, F_RDLCK) == 0) {
    fcntl(fd, F_SETLEASE, F_UNLCK);
    return Writers::none;
  }
  return errno == EAGAIN || errno == EBUSY ? Writers::some : Writers::unknown;
}

}  // namespace

posix::Result<FileVersion> version_of(int fd) {
  struct stat st;
  if (fstat(fd, &st) < 0) return posix::last_failure("stat a file");
  return FileVersion{static_cast<uint64_t>(st.st_size), nanoseconds(st.st_ctim), nanoseconds(st.st_mtim),
                     st.st_nlink};
}

bool is_quiet(int fd, const FileVersion& version) {
  if ((fcntl(fd, F_GETFL) & O_ACCMODE) != O_RDONLY) return false;
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  const int64_t age = nanoseconds(now) - version.change_nanoseconds;
  switch (writers_of(fd)) {
    case Writers::none:
      return age > kCoarse;
    case Writers::some:
      return false;
    case Writers::unknown:  // another user's file
      return age > kLongestWrite;
  }
  return false;
}

posix::Result<std::shared_ptr<FileWindow>> FileWindow::open(
    const std::shared_ptr<const gpu::Runtime>& runtime, int fd, uint64_t offset, uint64_t length) {
  auto version = version_of(fd);
  if (!version) return tl::unexpected(version.error());
  if (!is_quiet(fd, *version)) return posix::failure(EBUSY, "a file that may be being written");
  auto cached = storage::residency(fd, offset, length);
  if (!cached || !cached->all()) return posix::failure(EAGAIN, "a range that is not cached");
  auto mapping = posix::Mapping::shared_read_only(fd, length, static_cast<off_t>(offset));
  if (!mapping) return tl::unexpected(mapping.error());
  std::shared_ptr<FileWindow> window(new FileWindow);
  window->runtime_ = runtime;
  window->mapping_ = std::move(*mapping);
  window->offset_ = offset;
  window->length_ = length;
  window->version_ = *version;
  hip::Error error = runtime->hip().hipHostRegister(window->mapping_.data(), length,
                                                    hip::kHostRegisterPortable | hip::kHostRegisterReadOnly);
  if (error != hip::kSuccess) {
    runtime->hip().hipGetLastError();
    return posix::failure(ENOTSUP, "register file pages: " + runtime->error_name(error));
  }
  window->registered_ = true;
  // The pages are the file's only if it is the same file still.
  auto after = version_of(fd);
  if (!after || *after != *version) return posix::failure(EBUSY, "a file that is being written");
  return window;
}

FileWindow::~FileWindow() {
  if (registered_) runtime_->hip().hipHostUnregister(mapping_.data());
}

}  // namespace engine
