#include "dmabuf_probe.h"

#include <cerrno>
#include <cstring>
#include <new>
#include <vector>

namespace check {
namespace {

constexpr size_t kBytes = 64 * 1024;
constexpr size_t kBlock = 4096;   // of any disk
constexpr int kMostTries = 1000;  // the kernel says EAGAIN while it maps the memory anew

struct AlignedDelete {
  void operator()(char* p) const { ::operator delete[](p, std::align_val_t(kBlock)); }
};

DmabufAnswer failed(DmabufStep step, int error) { return {step, error, false}; }

int read_with_patience(DmabufCalls& calls, int file, size_t bytes) {
  int n = -EAGAIN;
  for (int i = 0; i < kMostTries && n == -EAGAIN; i++) n = calls.read_registered(file, bytes);
  return n;
}

const char* what(DmabufStep step) {
  switch (step) {
    case DmabufStep::ring:
      return "io_uring is refused here";
    case DmabufStep::api:
      return "this kernel does not have it (merged for Linux 7.4)";
    case DmabufStep::memory:
      return "the kernel has it, but there is no dma-buf to test it with (/dev/udmabuf)";
    case DmabufStep::file:
      return "the file cannot be read to compare with";
    case DmabufStep::registration:
      return "the kernel has it, but not for this file (block devices of NVMe on PCIe can do it)";
    case DmabufStep::read:
      return "the read of the self-test failed";
    case DmabufStep::compare:
      return "the self-test read wrong bytes";
  }
  return "";
}

}  // namespace

std::string DmabufAnswer::text() const {
  if (failed)
    return std::string("not available: ") + what(*failed) +
           (error ? std::string(": ") + strerror(error) : "");
  return tested ? "passed its self-test; no route uses it" : "the kernel has it; untested, no route uses it";
}

DmabufAnswer probe_dmabuf(DmabufCalls& calls) {
  if (int error = calls.make_ring()) return failed(DmabufStep::ring, error);
  if (int error = calls.register_empty()) return failed(DmabufStep::api, error);
  return {};
}

DmabufAnswer test_dmabuf(DmabufCalls& calls, int file) {
  if (DmabufAnswer answer = probe_dmabuf(calls); answer.failed) return answer;
  if (int error = calls.make_memory(kBytes)) return failed(DmabufStep::memory, error);
  const std::unique_ptr<char[], AlignedDelete> expected(new (std::align_val_t(kBlock)) char[kBytes]);
  const int got = calls.read_plainly(file, expected.get(), kBytes);
  const size_t bytes = got < 0 ? 0 : static_cast<size_t>(got) / kBlock * kBlock;
  if (bytes == 0) return failed(DmabufStep::file, got < 0 ? -got : ENODATA);
  if (int error = calls.register_memory(file)) return failed(DmabufStep::registration, error);
  for (size_t i = 0; i < bytes; i++) calls.memory()[i] = static_cast<char>(~expected[i]);
  const int n = read_with_patience(calls, file, bytes);
  if (n != static_cast<int>(bytes)) return failed(DmabufStep::read, n < 0 ? -n : EIO);
  if (memcmp(calls.memory(), expected.get(), bytes) != 0) return failed(DmabufStep::compare, 0);
  DmabufAnswer answer;
  answer.tested = true;
  return answer;
}

}  // namespace check
