// Shared mappings. A worker has one at a time; it may outlive its descriptor and the file's names.
#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <csetjmp>
#include <csignal>
#include <cstring>

#include "tree.h"

namespace differential {
namespace {

constexpr Choice kProtection[] = {{PROT_READ | PROT_WRITE, "PROT_READ|PROT_WRITE"},
                                  {PROT_READ | PROT_WRITE, "PROT_READ|PROT_WRITE"},
                                  {PROT_READ, "PROT_READ"}};

// Behind the end of the file there is SIGBUS, in both trees or in neither. What `touch` does must not need destructors.
sigjmp_buf bus_error;
template <typename Touch>
bool touched(Touch touch) {
  struct sigaction handler {
  }, before;
  handler.sa_handler = [](int) { siglongjmp(bus_error, 1); };
  sigaction(SIGBUS, &handler, &before);
  volatile bool done = false;
  if (sigsetjmp(bus_error, 1) == 0) {
    touch();
    done = true;
  }
  sigaction(SIGBUS, &before, nullptr);
  return done;
}

// The part of the mapping that the step means.
std::span<char> part(const Mapping& mapping, const Step& s) {
  if (s.offset < 0 || static_cast<size_t>(s.offset) >= mapping.size()) return {};
  const auto offset = static_cast<size_t>(s.offset);
  return {mapping.data() + offset, std::min(s.length, mapping.size() - offset)};
}

// From a description of its own. A mapping keeps its description, and with it the locks, except with passthrough: there
// the kernel keeps the file below instead.
std::string run_map(Tree& t, const Step& s) {
  posix::Fd own(open(posix::proc_path(t.fd(s.slot)).c_str(),
                     (s.flags & PROT_WRITE ? O_RDWR : O_RDONLY) | O_NONBLOCK | O_CLOEXEC));
  return result_text(t.mapping.map(own.get(), s.length, s.flags));
}
std::string run_unmap(Tree& t, const Step&) { return result_text(t.mapping.reset()); }

std::string run_load(Tree& t, const Step& s) {
  auto bytes = part(t.mapping, s);
  std::vector<char> copy(bytes.size());
  if (!touched([&] { memcpy(copy.data(), bytes.data(), bytes.size()); })) return "SIGBUS";
  return describe_bytes({copy.data(), copy.size()});
}

std::string run_store(Tree& t, const Step& s) {
  if (!t.mapping.writable()) return "no mapping to write to";
  auto bytes = part(t.mapping, s);
  if (bytes.empty()) return "nothing there";
  const bool stored = touched([&] { memset(bytes.data(), s.fill, bytes.size()); });
  // At once: without passthrough the kernel alone knows of it until then, and that is known.
  const int status = msync(t.mapping.data(), t.mapping.size(), MS_SYNC);
  return stored ? result_text(status) : "SIGBUS";
}

const Operation kOperations[] = {
    {"map", 8, kSlot | kLength | kFlags, kProtection, run_map},
    {"unmap", 1, 0, {}, run_unmap},
    {"load", 3, kOffset | kLength, {}, run_load},
    {"store", 5, kFill | kOffset | kLength, {}, run_store},
};

}  // namespace

int Mapping::map(int fd, size_t size, int protection) {
  void* at = mmap(nullptr, size, protection, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) return -1;
  reset();
  data_ = static_cast<char*>(at);
  size_ = size;
  writable_ = protection & PROT_WRITE;
  return 0;
}

int Mapping::reset() {
  int status = data_ ? munmap(data_, size_) : 0;
  data_ = nullptr;
  size_ = 0;
  writable_ = false;
  return status;
}

std::span<const Operation> mapping_operations() { return kOperations; }

}  // namespace differential
