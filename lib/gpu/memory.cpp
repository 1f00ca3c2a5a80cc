#include "gpu/memory.h"

#include <cstdint>

namespace gpu {
namespace {

// hipMemoryType counts from 0 = host before HIP 6, from 0 = unregistered since.
enum class Type { unknown, host, device, managed };

Type translate(int major, const hip::PointerAttributes& a) {
  if (a.is_managed) return Type::managed;
  if (major < 6)
    return a.type == 0   ? Type::host
           : a.type == 1 ? Type::device
           : a.type == 4 ? Type::managed
                         : Type::unknown;
  return a.type == 1 ? Type::host : a.type == 2 ? Type::device : a.type == 3 ? Type::managed : Type::unknown;
}

MemoryKind kind_of(Type type) {
  switch (type) {
    case Type::device:
      return MemoryKind::device;
    case Type::managed:
      return MemoryKind::managed;
    case Type::host:
      return MemoryKind::host;
    case Type::unknown:
      break;
  }
  return MemoryKind::pageable;
}

size_t unknown_length(const void* address) { return SIZE_MAX - reinterpret_cast<uintptr_t>(address); }

}  // namespace

tl::expected<Memory, hip::Error> describe(const Runtime& runtime, const void* address) {
  hip::PointerAttributes attributes{};
  hip::Error error = runtime.hip().hipPointerGetAttributes(&attributes, address);
  if (error != hip::kSuccess) {
    runtime.hip().hipGetLastError();
    return tl::unexpected(error);
  }
  Type type = translate(runtime.major(), attributes);
  Memory m;
  m.address = static_cast<char*>(const_cast<void*>(address));
  m.device = attributes.device;
  m.kind = kind_of(type);
  if (m.kind == MemoryKind::pageable) {
    m.device = -1;
    m.pages = true;
    m.length = unknown_length(address);
    return m;
  }
  int integrated = 0;
  if (m.kind == MemoryKind::device && !runtime.device_memory_is_pages())
    runtime.hip().hipDeviceGetAttribute(&integrated, hip::kAttributeIntegrated, m.device);
  m.pages = m.kind != MemoryKind::device || runtime.device_memory_is_pages() ||
            (integrated && runtime.kind() != RuntimeKind::cuda);
  void* base = nullptr;
  size_t size = 0;
  error = runtime.hip().hipMemGetAddressRange(&base, &size, m.address);
  if (error == hip::kSuccess) {
    m.length = size - static_cast<size_t>(m.address - static_cast<char*>(base));
  } else {
    runtime.hip().hipGetLastError();
    if (m.kind == MemoryKind::device) return tl::unexpected(error);
    m.length = unknown_length(address);
  }
  return m;
}

}  // namespace gpu
