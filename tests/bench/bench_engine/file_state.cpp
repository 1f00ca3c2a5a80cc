#include "file_state.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <vector>

#include "pattern.h"
#include "posix/fd.h"

namespace bench {
namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr double kMostResidentWhenCold = 0.01;

posix::Result<void> read_range(int fd, uint64_t begin, uint64_t end) {
  std::vector<char> sink(kMiB);
  while (begin < end) {
    const ssize_t n =
        pread(fd, sink.data(), std::min<uint64_t>(sink.size(), end - begin), static_cast<off_t>(begin));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return posix::last_failure("read");
    if (n == 0) return posix::failure(EIO, "read: the file is too short");
    begin += static_cast<uint64_t>(n);
  }
  return {};
}

class ReadOnlyMapping {
 public:
  ReadOnlyMapping(int fd, size_t size)
      : size_(size), address_(mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0)) {}
  ~ReadOnlyMapping() {
    if (address_ != MAP_FAILED) munmap(address_, size_);
  }
  ReadOnlyMapping(const ReadOnlyMapping&) = delete;
  ReadOnlyMapping& operator=(const ReadOnlyMapping&) = delete;
  void* address() const { return address_; }

 private:
  size_t size_;
  void* address_;
};

posix::Result<double> resident_share(int fd, uint64_t span) {
  ReadOnlyMapping mapping(fd, span);
  if (mapping.address() == MAP_FAILED) return posix::last_failure("map");
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> pages((span + page - 1) / page);
  if (mincore(mapping.address(), span, pages.data()) < 0) return posix::last_failure("mincore");
  const auto resident = std::count_if(pages.begin(), pages.end(), [](unsigned char p) { return p & 1; });
  return static_cast<double>(resident) / static_cast<double>(pages.size());
}

posix::Result<void> evict(int fd, const std::string& path) {
  if (fdatasync(fd) < 0) return posix::last_failure("sync " + path);
  if (int e = posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED)) return posix::failure(e, "evict " + path);
  return {};
}

posix::Result<void> bring_into(int fd, const std::string& path, uint64_t span, FileState state) {
  if (state == FileState::as_is) return {};
  if (state == FileState::cached) return read_range(fd, 0, span);
  if (state == FileState::fresh) {
    if (ftruncate(fd, 0) < 0) return posix::last_failure("truncate " + path);
    return {};
  }
  if (auto done = evict(fd, path); !done) return done;
  if (state == FileState::cold) return {};
  // No readahead into the ranges that are to stay out.
  if (int e = posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM)) return posix::failure(e, "advise " + path);
  for (uint64_t at = 0; at < span; at += 2 * kMiB)
    if (auto done = read_range(fd, at, std::min(at + kMiB, span)); !done) return done;
  return {};
}

}  // namespace

posix::Result<void> make_file(const std::string& path, uint64_t size) {
  posix::Fd fd(open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!fd) return posix::last_failure("create " + path);
  std::vector<char> block(kMiB);
  for (uint64_t at = 0; at < size; at += block.size()) {
    const size_t length = std::min<uint64_t>(block.size(), size - at);
    fill_pattern(block.data(), length, at, kFileSeed);
    if (pwrite(fd.get(), block.data(), length, static_cast<off_t>(at)) != static_cast<ssize_t>(length))
      return posix::last_failure("write " + path);
  }
  if (fsync(fd.get()) < 0) return posix::last_failure("sync " + path);
  struct stat st;
  constexpr uint64_t kStatBlock = 512;
  if (fstat(fd.get(), &st) < 0) return posix::last_failure("examine " + path);
  if (static_cast<uint64_t>(st.st_blocks) * kStatBlock < size)
    return posix::failure(EIO, path + " is sparse");
  return {};
}

posix::Result<double> prepare_state(const std::string& path, uint64_t span, FileState state) {
  posix::Fd fd(open(path.c_str(), (state == FileState::fresh ? O_RDWR : O_RDONLY) | O_CLOEXEC));
  if (!fd) return posix::last_failure("open " + path);
  if (auto done = bring_into(fd.get(), path, span, state); !done) return tl::unexpected(done.error());
  if (state == FileState::fresh) return 0.0;
  auto share = resident_share(fd.get(), span);
  if (share && state == FileState::cold && *share > kMostResidentWhenCold)
    return posix::failure(
        EBUSY, path + " stays in the page cache to " + std::to_string(static_cast<int>(*share * 100)) + " %");
  return share;
}

}  // namespace bench
