#include "test_file.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "posix/fd.h"
#include "posix/mapping.h"

namespace vm {

std::vector<char> fresh_bytes(size_t size) {
  static std::mt19937_64 random(1);
  std::vector<char> bytes(size);
  for (size_t at = 0; at < size; at += sizeof(uint64_t)) {
    const uint64_t word = random();
    memcpy(&bytes[at], &word, std::min(sizeof word, size - at));
  }
  return bytes;
}

posix::Result<void> write_file(const std::string& path, const std::vector<char>& bytes) {
  posix::Fd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!fd) return posix::last_failure("create " + path);
  if (pwrite(fd.get(), bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()) ||
      fsync(fd.get()) < 0)
    return posix::last_failure("write " + path);
  posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED);
  return {};
}

std::vector<char> file_bytes(const std::string& path) {
  posix::Fd fd(open(path.c_str(), O_RDWR | O_CLOEXEC));
  struct stat st;
  if (!fd || fsync(fd.get()) < 0 || fstat(fd.get(), &st) < 0) return {};
  posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED);
  std::vector<char> bytes(static_cast<size_t>(st.st_size));
  const bool whole = pread(fd.get(), bytes.data(), bytes.size(), 0) == st.st_size;
  posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED);
  return whole ? bytes : std::vector<char>();
}

posix::Result<size_t> cached_bytes(const std::string& path) {
  posix::Fd fd(open(path.c_str(), O_RDWR | O_CLOEXEC));
  struct stat st;
  if (!fd || fstat(fd.get(), &st) < 0) return posix::last_failure("examine " + path);
  auto mapping = posix::Mapping::shared(fd.get(), static_cast<size_t>(st.st_size));
  if (!mapping) return tl::unexpected(mapping.error());
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> present((mapping->size() + page - 1) / page);
  if (mincore(mapping->data(), mapping->size(), present.data()) < 0)
    return posix::last_failure("mincore of " + path);
  return page * static_cast<size_t>(
                    std::count_if(present.begin(), present.end(), [](unsigned char p) { return p & 1; }));
}

}  // namespace vm
