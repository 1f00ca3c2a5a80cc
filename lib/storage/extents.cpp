#include "storage/extents.h"

#include <linux/fiemap.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

namespace storage {
namespace {

constexpr unsigned kExtentsPerCall = 256, kMostCalls = 16;

// What FIEMAP reads and writes: a head, and extents behind it.
class Map {
 public:
  fiemap& head() { return *reinterpret_cast<fiemap*>(bytes_.data()); }
  const fiemap_extent& extent(unsigned i) { return head().fm_extents[i]; }

 private:
  alignas(fiemap) std::array<char, sizeof(fiemap) + kExtentsPerCall * sizeof(fiemap_extent)> bytes_{};
};

// Adds what of an extent lies in [at, end), and moves `at` behind it.
void add(ExtentFacts& facts, const fiemap_extent& extent, uint64_t& at, uint64_t end) {
  const uint64_t first = std::max<uint64_t>(extent.fe_logical, at);
  const uint64_t last = std::min<uint64_t>(extent.fe_logical + extent.fe_length, end);
  if (last <= first) return;
  facts.hole_bytes += first - at;
  at = last;
  const uint64_t length = last - first;
  facts.extents++;
  auto has = [&extent](uint32_t flag) { return (extent.fe_flags & flag) != 0; };
  if (has(FIEMAP_EXTENT_UNWRITTEN))
    facts.unwritten_bytes += length;
  else
    facts.data_bytes += length;
  if (has(FIEMAP_EXTENT_SHARED)) facts.shared_bytes += length;
  if (has(FIEMAP_EXTENT_ENCODED) || has(FIEMAP_EXTENT_DATA_ENCRYPTED)) facts.encoded_bytes += length;
  if (has(FIEMAP_EXTENT_DELALLOC)) facts.delayed_bytes += length;
  if (has(FIEMAP_EXTENT_DATA_INLINE)) facts.inline_data = true;
}

posix::Result<ExtentFacts> by_fiemap(int fd, uint64_t offset, uint64_t end) {
  ExtentFacts facts;
  uint64_t at = offset;
  Map map;
  for (unsigned call = 0; call < kMostCalls; call++) {
    fiemap& head = map.head();
    head = {};
    head.fm_start = at;
    head.fm_length = end - at;
    head.fm_extent_count = kExtentsPerCall;
    if (ioctl(fd, FS_IOC_FIEMAP, &head) < 0) return posix::last_failure("map extents");
    bool last = head.fm_mapped_extents < kExtentsPerCall;
    for (unsigned i = 0; i < head.fm_mapped_extents; i++) {
      add(facts, map.extent(i), at, end);
      if (map.extent(i).fe_flags & FIEMAP_EXTENT_LAST) last = true;
    }
    if (last || at == end) {
      facts.hole_bytes += end - at;
      return facts;
    }
  }
  facts.complete = false;
  return facts;
}

posix::Result<ExtentFacts> by_seeking(int fd, uint64_t offset, uint64_t end) {
  ExtentFacts facts;
  facts.mapped = false;
  for (uint64_t at = offset; at < end;) {
    const off_t data = lseek(fd, static_cast<off_t>(at), SEEK_DATA);
    if (data < 0 && errno != ENXIO) return posix::last_failure("seek data");
    const uint64_t first = data < 0 ? end : std::min(static_cast<uint64_t>(data), end);
    facts.hole_bytes += first - at;
    if (first == end) break;
    const off_t hole = lseek(fd, static_cast<off_t>(first), SEEK_HOLE);
    if (hole < 0) return posix::last_failure("seek hole");
    at = std::min(static_cast<uint64_t>(hole), end);
    facts.data_bytes += at - first;
    if (++facts.extents == kExtentsPerCall * kMostCalls && at < end) {
      facts.complete = false;
      break;
    }
  }
  return facts;
}

}  // namespace

std::string ExtentFacts::describe() const {
  const std::pair<uint64_t, const char*> parts[] = {{hole_bytes, "holes"},
                                                    {unwritten_bytes, "allocated but not written"},
                                                    {shared_bytes, "shared with other files"},
                                                    {encoded_bytes, "compressed or encrypted"},
                                                    {delayed_bytes, "not on disk yet"}};
  std::string text = inline_data ? "among metadata" : "";
  for (const auto& [bytes, what] : parts)
    if (bytes > 0) text += (text.empty() ? "" : ", ") + std::to_string(bytes) + " bytes " + what;
  if (!text.empty() && !complete) text += ", and more";
  return text;
}

posix::Result<ExtentFacts> examine_extents(int fd, uint64_t offset, uint64_t length) {
  struct stat st;
  if (fstat(fd, &st) < 0) return posix::last_failure("examine descriptor " + std::to_string(fd));
  const auto size = static_cast<uint64_t>(st.st_size);
  if (!S_ISREG(st.st_mode) || offset >= size || length == 0) return ExtentFacts();
  const uint64_t end = length > size - offset ? size : offset + length;
  auto facts = by_fiemap(fd, offset, end);
  if (facts || (facts.error().code != EOPNOTSUPP && facts.error().code != ENOTTY)) return facts;
  const off_t position = lseek(fd, 0, SEEK_CUR);
  facts = by_seeking(fd, offset, end);
  lseek(fd, position, SEEK_SET);
  return facts;
}

}  // namespace storage
