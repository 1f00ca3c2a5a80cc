#include "memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <mutex>

namespace software {
namespace {

constexpr size_t kGranularity = size_t{2} << 20;  // of addresses, as GPUs have it

size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }
size_t page() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }
void* pointer(uintptr_t address) {
  return reinterpret_cast<void*>(address);
}  // NOLINT(performance-no-int-to-ptr)

}  // namespace

std::string memfd_name(const uint64_t (&nonce)[2]) {
  char name[64];
  snprintf(name, sizeof name, "hip-software-%016llx%016llx", static_cast<unsigned long long>(nonce[0]),
           static_cast<unsigned long long>(nonce[1]));
  return name;
}

Memory::Memory(bool strict, size_t bytes_per_device, int devices)
    : strict_(strict), bytes_per_device_(bytes_per_device) {
  for (int d = 0; d < devices; d++) used_[d] = 0;
  for (size_t bytes = size_t{16} << 40; bytes >= size_t{64} << 30; bytes /= 4) {
    void* p = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) continue;
    uintptr_t start = reinterpret_cast<uintptr_t>(p);
    start_ = next_ = round_up(start, kGranularity);
    end_ = start + bytes;
    return;
  }
}

uintptr_t Memory::reserve(size_t bytes) {
  size_t span = round_up(bytes, kGranularity) + kGranularity;  // one granule apart: overruns trap
  if (end_ - next_ < span) return 0;
  uintptr_t address = next_;
  next_ += span;
  return address;
}

hip::Error Memory::map_device(Allocation& a) const {
  int program = strict_ ? PROT_NONE : PROT_READ | PROT_WRITE;
  if (mmap(pointer(a.address), a.mapped, program, MAP_SHARED | MAP_FIXED, a.memfd, 0) == MAP_FAILED)
    return hip::kErrorOutOfMemory;
  a.alias = a.address;
  if (!strict_) return hip::kSuccess;
  void* alias = mmap(nullptr, a.mapped, PROT_READ | PROT_WRITE, MAP_SHARED, a.memfd, 0);
  if (alias == MAP_FAILED) return hip::kErrorOutOfMemory;
  a.alias = reinterpret_cast<uintptr_t>(alias);
  return hip::kSuccess;
}

hip::Error Memory::allocate(Kind kind, int device, size_t size, unsigned flags, void** out) {
  if (!out) return hip::kErrorInvalidValue;
  *out = nullptr;
  if (size == 0) return hip::kSuccess;
  if (size > bytes_per_device_) return hip::kErrorOutOfMemory;
  std::unique_lock lock(mutex_);
  Allocation a;
  a.size = size;
  a.mapped = round_up(size, page());
  a.kind = kind;
  a.device = device;
  a.flags = flags;
  if (kind == Kind::device && used_[device] + a.mapped > bytes_per_device_) return hip::kErrorOutOfMemory;
  a.address = reserve(a.mapped);
  if (!a.address) return hip::kErrorOutOfMemory;
  if (kind == Kind::device) {
    if (getrandom(a.nonce, sizeof a.nonce, 0) != sizeof a.nonce) return hip::kErrorOutOfMemory;
    a.memfd = memfd_create(memfd_name(a.nonce).c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (a.memfd < 0) return hip::kErrorOutOfMemory;
    hip::Error error = hip::kErrorOutOfMemory;
    if (ftruncate(a.memfd, static_cast<off_t>(a.mapped)) == 0 &&
        fcntl(a.memfd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0)
      error = map_device(a);
    if (error != hip::kSuccess) {
      close(a.memfd);
      return error;
    }
    used_[device] += a.mapped;
  } else {
    if (mmap(pointer(a.address), a.mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
             -1, 0) == MAP_FAILED)
      return hip::kErrorOutOfMemory;
    a.alias = a.address;
  }
  a.id = next_id_++;
  allocations_[a.address] = a;
  *out = pointer(a.address);
  return hip::kSuccess;
}

void Memory::forget(std::map<uintptr_t, Allocation>::iterator it) {
  Allocation& a = it->second;
  if (a.imports)
    munmap(pointer(a.address), a.mapped);
  else if (a.kind != Kind::registered)
    mmap(pointer(a.address), a.mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
         0);
  if (a.alias != a.address) munmap(pointer(a.alias), a.mapped);
  if (a.memfd >= 0) close(a.memfd);
  if (a.kind == Kind::device && !a.imports) used_[a.device] -= a.mapped;
  allocations_.erase(it);
}

hip::Error Memory::free(void* address, bool host) {
  if (!address) return hip::kSuccess;
  std::unique_lock lock(mutex_);
  auto it = allocations_.find(reinterpret_cast<uintptr_t>(address));
  if (it == allocations_.end() || it->second.imports) return hip::kErrorInvalidValue;
  if (host ? it->second.kind != Kind::host
           : it->second.kind != Kind::device && it->second.kind != Kind::managed)
    return hip::kErrorInvalidValue;
  forget(it);
  return hip::kSuccess;
}

hip::Error Memory::register_host(void* address, size_t size, unsigned flags, int device) {
  if (!address || size == 0 || size > UINTPTR_MAX - reinterpret_cast<uintptr_t>(address))
    return hip::kErrorInvalidValue;
  Allocation a;
  a.address = a.alias = reinterpret_cast<uintptr_t>(address);
  a.size = a.mapped = size;
  a.kind = Kind::registered;
  a.device = device;
  a.flags = flags;
  std::unique_lock lock(mutex_);
  auto after = allocations_.upper_bound(a.address);
  if (after != allocations_.end() && after->first < a.address + size)
    return hip::kErrorHostMemoryAlreadyRegistered;
  if (after != allocations_.begin() && std::prev(after)->first + std::prev(after)->second.size > a.address)
    return hip::kErrorHostMemoryAlreadyRegistered;
  a.id = next_id_++;
  allocations_[a.address] = a;
  return hip::kSuccess;
}

hip::Error Memory::unregister_host(void* address) {
  std::unique_lock lock(mutex_);
  auto it = allocations_.find(reinterpret_cast<uintptr_t>(address));
  if (it == allocations_.end() || it->second.kind != Kind::registered)
    return hip::kErrorHostMemoryNotRegistered;
  forget(it);
  return hip::kSuccess;
}

hip::Error Memory::import(int memfd, size_t size, int device, void** base) {
  struct stat st;
  if (fstat(memfd, &st) < 0) return hip::kErrorInvalidValue;
  // A file that could shrink would turn a copy into a bus error.
  int seals = fcntl(memfd, F_GET_SEALS);
  if (seals < 0 || !(seals & F_SEAL_SHRINK) || static_cast<size_t>(st.st_size) < size || size == 0)
    return hip::kErrorInvalidValue;
  std::unique_lock lock(mutex_);
  for (auto& [address, a] : allocations_) {
    if (!a.imports || a.import_ino != st.st_ino || a.import_dev != st.st_dev || a.device != device) continue;
    a.imports++;
    *base = pointer(address);
    return hip::kSuccess;
  }
  Allocation a;
  a.size = static_cast<size_t>(st.st_size);
  a.mapped = round_up(a.size, page());
  a.device = device;
  a.imports = 1;
  a.import_dev = st.st_dev;
  a.import_ino = st.st_ino;
  // Outside the arena: its addresses are spent for ever, and a client can register again and again.
  void* place = mmap(nullptr, a.mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED) return hip::kErrorOutOfMemory;
  a.address = reinterpret_cast<uintptr_t>(place);
  a.memfd = fcntl(memfd, F_DUPFD_CLOEXEC, 0);
  if (a.memfd < 0) {
    munmap(place, a.mapped);
    return hip::kErrorOutOfMemory;
  }
  if (hip::Error error = map_device(a); error != hip::kSuccess) {
    close(a.memfd);
    munmap(place, a.mapped);
    return error;
  }
  a.id = next_id_++;
  allocations_[a.address] = a;
  *base = pointer(a.address);
  return hip::kSuccess;
}

hip::Error Memory::close_import(void* base) {
  std::unique_lock lock(mutex_);
  auto it = allocations_.find(reinterpret_cast<uintptr_t>(base));
  if (it == allocations_.end() || !it->second.imports) return hip::kErrorInvalidValue;
  if (it->second.imports > 1)
    it->second.imports--;
  else
    forget(it);
  return hip::kSuccess;
}

std::optional<Allocation> Memory::find(const void* address) const {
  uintptr_t a = reinterpret_cast<uintptr_t>(address);
  std::shared_lock lock(mutex_);
  auto after = allocations_.upper_bound(a);
  if (after == allocations_.begin()) return std::nullopt;
  const Allocation& candidate = std::prev(after)->second;
  if (a - candidate.address >= candidate.size) return std::nullopt;
  return candidate;
}

void* Memory::access(const void* address, size_t size) const {
  auto a = find(address);
  if (!a) {
    auto raw = reinterpret_cast<uintptr_t>(address);
    return raw >= start_ && raw < end_ ? nullptr
                                       : const_cast<void*>(address);  // freed, or between allocations
  }
  size_t offset = reinterpret_cast<uintptr_t>(address) - a->address;
  if (size > a->size - offset) return nullptr;
  return pointer(a->alias + offset);
}

size_t Memory::free_bytes(int device) const {
  std::shared_lock lock(mutex_);
  auto used = used_.find(device);
  return used == used_.end() ? 0 : bytes_per_device_ - used->second;
}

}  // namespace software
