// What kind of memory a pointer is.
#pragma once

#include <cstddef>

#include "gpu/hip.h"

namespace gpu {

enum class MemoryKind {
  device,    ///< VRAM, or what the runtime calls device memory
  managed,   ///< hipMallocManaged
  host,      ///< pinned or pageable host memory
  peer,      ///< memory of another PCI device, mapped (p2pmem)
  pageable,  ///< host memory that the runtime does not know; never handed to it
};

/// Whether the runtime is to copy from and to such memory: it knows it, and it is not host memory that files are read
/// straight into.
inline bool copies_to(MemoryKind kind) { return kind == MemoryKind::device || kind == MemoryKind::managed; }

/// A range of memory that bytes can be moved to and from.
struct Memory {
  char* address = nullptr;
  size_t length = 0;
  MemoryKind kind = MemoryKind::device;
  int device = -1;     ///< HIP ordinal; -1 for memory that no GPU owns
  bool pages = false;  ///< CPU-addressable pages: the kernel can read files straight into it
};

/// The memory from `address` to the end of its allocation. Host memory whose end the runtime does not say
/// reaches to the end of the address space. Fails with what the runtime says.
tl::expected<Memory, hip::Error> describe(const Runtime& runtime, const void* address);

}  // namespace gpu
