#include "gpu/large_bar.h"

#include <atomic>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace gpu {
namespace {

// BAR memory is write-combining, which only this fence drains.
void drain_stores() {
#if defined(__x86_64__)
  _mm_sfence();
#endif
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

}  // namespace

std::optional<LargeBar> LargeBar::of(const Runtime& runtime, int device) {
  if (runtime.kind() != RuntimeKind::amd) return std::nullopt;
  int large = 0;
  if (runtime.hip().hipDeviceGetAttribute(&large, hip::kAttributeIsLargeBar, device) != hip::kSuccess ||
      !large) {
    runtime.hip().hipGetLastError();
    return std::nullopt;
  }
  // This attribute is a pointer, whatever its type says.
  union {
    int words[2];
    unsigned* address;
  } host_data_path = {{0, 0}};
  if (runtime.hip().hipDeviceGetAttribute(host_data_path.words, hip::kAttributeHdpMemFlushCntl, device) !=
      hip::kSuccess) {
    runtime.hip().hipGetLastError();
    host_data_path.address = nullptr;
  }
  return LargeBar(host_data_path.address);
}

// Stores travel as posted writes: a load from the device comes back only after they have arrived.
void LargeBar::flush(const char* last) const {
  drain_stores();
  if (host_data_path_) {
    *host_data_path_ = 1;
    (void)*host_data_path_;
  } else {
    (void)*static_cast<const volatile char*>(last);
  }
}

}  // namespace gpu
