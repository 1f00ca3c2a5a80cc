// The parts of the FUSE protocol that not every libfuse from 3.14 on speaks (Linux include/uapi/linux/fuse.h, 7.45).
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

struct WriteIn {
  uint64_t fh, offset;
  uint32_t size, write_flags;
  uint64_t lock_owner;
  uint32_t flags, padding;
};
static_assert(sizeof(WriteIn) == 40);
struct SetxattrIn {
  uint32_t size, flags, setxattr_flags, padding;
};
struct CreateIn {
  uint32_t flags, mode, umask, open_flags;
};
struct StatxIn {
  uint32_t getattr_flags, reserved;
  uint64_t fh;
  uint32_t sx_flags, sx_mask;
};
struct StatxTime {
  int64_t sec;
  uint32_t nsec;
  int32_t reserved;
};
struct Statx {
  uint32_t mask, blksize;
  uint64_t attributes;
  uint32_t nlink, uid, gid;
  uint16_t mode, spare0;
  uint64_t ino, size, blocks, attributes_mask;
  StatxTime atime, btime, ctime, mtime;
  uint32_t rdev_major, rdev_minor, dev_major, dev_minor;
  uint64_t spare2[14];
};
struct StatxOut {
  uint64_t attr_valid;
  uint32_t attr_valid_nsec, flags;
  uint64_t spare[2];
  Statx stat;
};
static_assert(sizeof(SetxattrIn) == 16 && sizeof(StatxIn) == 24 && sizeof(Statx) == 256 &&
              sizeof(StatxOut) == 288);

inline constexpr uint32_t kOpSetxattr = 21, kOpInit = 26, kOpTmpfile = 51, kOpStatx = 52;

inline constexpr int32_t kNotifyIncEpoch = 8;

inline constexpr uint32_t kSetxattrAclKillSgid = 1;

inline constexpr uint64_t kInitSetxattrExt = 1ull << 29;
inline constexpr uint64_t kInitHandleKillprivV2 = 1ull << 28;
inline constexpr uint64_t kInitExt = 1ull << 30;
inline constexpr uint64_t kInitWritebackCache = 1ull << 16;
inline constexpr uint64_t kInitDirectIoAllowMmap = 1ull << 36;
inline constexpr uint64_t kInitPassthrough = 1ull << 37;
inline constexpr uint64_t kInitNoExportSupport = 1ull << 38;
inline constexpr uint64_t kInitOverIoUring = 1ull << 41;

inline constexpr uint32_t kOpenDirectIo = 1u << 0;
inline constexpr uint32_t kOpenKeepCache = 1u << 1;
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

// FUSE over io_uring (Linux 6.14).
struct RingEntryHeader {
  uint64_t flags, commit_id;
  uint32_t payload_size, padding;
  uint64_t reserved;
};
struct RingRequestHeader {
  char in_out[128];  ///< InHeader on the way in, OutHeader on the way out
  char op_in[128];   ///< the operation's fixed arguments
  RingEntryHeader entry;
};
struct RingCommand {
  uint64_t flags, commit_id;
  uint16_t queue;
  uint8_t padding[6];
};
static_assert(sizeof(RingRequestHeader) == 288 && sizeof(RingCommand) == 24);
inline constexpr uint32_t kRingRegister = 1, kRingCommitAndFetch = 2;

}  // namespace fs::kernel
