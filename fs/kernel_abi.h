// The parts of the FUSE protocol that libfuse before 3.17 does not speak (Linux
// include/uapi/linux/fuse.h, 7.45).
#pragma once

#include <linux/ioctl.h>

#include <cstddef>
#include <cstdint>

namespace fs::kernel {

struct InHeader {
  uint32_t len, opcode;
  uint64_t unique, nodeid;
  uint32_t uid, gid, pid;
  uint16_t total_extlen, padding;
};
struct OutHeader {
  uint32_t len;
  int32_t error;
  uint64_t unique;
};
struct InitIn {
  uint32_t major, minor, max_readahead, flags, flags2, unused[11];
};
struct InitOut {
  uint32_t major, minor, max_readahead, flags;
  uint16_t max_background, congestion_threshold;
  uint32_t max_write, time_gran;
  uint16_t max_pages, map_alignment;
  uint32_t flags2, max_stack_depth;
  uint16_t request_timeout, unused[11];
};
static_assert(sizeof(InitOut) == 64 && offsetof(InitOut, flags2) == 32 &&
              offsetof(InitOut, max_stack_depth) == 36);

struct Attr {
  uint64_t ino, size, blocks, atime, mtime, ctime;
  uint32_t atimensec, mtimensec, ctimensec, mode, nlink, uid, gid, rdev, blksize, flags;
};
struct EntryOut {
  uint64_t nodeid, generation, entry_valid, attr_valid;
  uint32_t entry_valid_nsec, attr_valid_nsec;
  Attr attr;
};
struct OpenOut {
  uint64_t fh;
  uint32_t open_flags;
  int32_t backing_id;
};
struct CreateOut {
  EntryOut entry;
  OpenOut open;
};
static_assert(sizeof(OpenOut) == 16 && sizeof(CreateOut) == 144);

inline constexpr uint32_t kOpInit = 26;

inline constexpr uint64_t kInitHandleKillprivV2 = 1ull << 28;
inline constexpr uint64_t kInitExt = 1ull << 30;
inline constexpr uint64_t kInitWritebackCache = 1ull << 16;
inline constexpr uint64_t kInitDirectIoAllowMmap = 1ull << 36;
inline constexpr uint64_t kInitPassthrough = 1ull << 37;
inline constexpr uint64_t kInitNoExportSupport = 1ull << 38;

inline constexpr uint32_t kOpenDirectIo = 1u << 0;
inline constexpr uint32_t kOpenNoFlush = 1u << 5;
inline constexpr uint32_t kOpenParallelDirectWrites = 1u << 6;
inline constexpr uint32_t kOpenPassthrough = 1u << 7;

struct BackingMap {
  int32_t fd;
  uint32_t flags;
  uint64_t padding;
};
inline constexpr unsigned long kIocBackingOpen = _IOW(229, 1, BackingMap);
inline constexpr unsigned long kIocBackingClose = _IOW(229, 2, uint32_t);

}  // namespace fs::kernel
