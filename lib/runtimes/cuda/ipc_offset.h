// The offset of an interior pointer, kept in a CUDA IPC handle.
//
// HIP's handles remember where in its allocation the exported pointer lies; CUDA's name the allocation alone, and
// opening one gives its start. The last eight bytes of the driver's handle are zero as far as it has been seen, so the
// offset is put there, under a mark. A handle that uses those bytes itself takes no offset.
#pragma once

#include <cstdint>
#include <cstring>

#include "hip_abi/hip_abi.h"

namespace cuda {

inline constexpr uint64_t kIpcOffsetMark = uint64_t{0x4f48} << 48;  // "HO"
inline constexpr uint64_t kIpcOffsetMask = (uint64_t{1} << 48) - 1;

inline uint64_t ipc_tail(const hip::IpcMemHandle& handle) {
  uint64_t tail;
  memcpy(&tail, handle.reserved + sizeof handle - sizeof tail, sizeof tail);
  return tail;
}

inline void set_ipc_tail(hip::IpcMemHandle& handle, uint64_t tail) {
  memcpy(handle.reserved + sizeof handle - sizeof tail, &tail, sizeof tail);
}

/// False if the handle has no place for the offset.
inline bool put_ipc_offset(hip::IpcMemHandle& handle, uint64_t offset) {
  if (offset == 0) return true;
  if (offset > kIpcOffsetMask || ipc_tail(handle) != 0) return false;
  set_ipc_tail(handle, kIpcOffsetMark | offset);
  return true;
}

/// Takes the offset out again, so that the handle is as the driver made it.
inline uint64_t take_ipc_offset(hip::IpcMemHandle& handle) {
  const uint64_t tail = ipc_tail(handle);
  if ((tail & ~kIpcOffsetMask) != kIpcOffsetMark) return 0;
  set_ipc_tail(handle, 0);
  return tail & kIpcOffsetMask;
}

}  // namespace cuda
