// Whether the running kernel reads files into registered dma-bufs by io_uring, found out by trying it. Merged for Linux 7.4
// ("io_uring dma-buf support", tag for-7.4/io_uring-dmabuf-20261023), for block devices of NVMe on PCIe. No route uses it.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

namespace check {

/// What is tried, in this order.
enum class DmabufStep {
  ring,          ///< io_uring itself
  api,           ///< the form of registration that takes a dma-buf
  memory,        ///< a dma-buf to try it with (udmabuf)
  file,          ///< the plain read of the file to compare with
  registration,  ///< of the dma-buf for that file
  read,          ///< the read into it
  compare,       ///< what arrived
};

struct DmabufAnswer {
  std::optional<DmabufStep> failed;  ///< nothing: all that was tried worked
  int error = 0;                     ///< errno of what failed; 0 for compare
  bool tested = false;               ///< a file was read into a dma-buf, and its bytes arrived

  /// One line.
  std::string text() const;
};

/// The system calls behind the answer. Those that return int: 0 or an errno, if nothing else is said.
class DmabufCalls {
 public:
  virtual ~DmabufCalls() = default;
  virtual int make_ring() = 0;
  /// An empty slot of the table of buffers again, in the form that takes a dma-buf.
  virtual int register_empty() = 0;
  /// A dma-buf of that size, as memory().
  virtual int make_memory(size_t bytes) = 0;
  virtual char* memory() = 0;
  virtual int register_memory(int file) = 0;
  /// Of the file's first bytes, to `to`; bytes, or -errno.
  virtual int read_plainly(int file, char* to, size_t bytes) = 0;
  /// The same into memory(), by io_uring.
  virtual int read_registered(int file, size_t bytes) = 0;
};

/// Those of this system.
std::unique_ptr<DmabufCalls> make_dmabuf_calls();

/// Whether the kernel has it at all.
DmabufAnswer probe_dmabuf(DmabufCalls& calls);
/// The self-test: with `file`, open for reading with O_DIRECT, whose bytes do not change meanwhile.
DmabufAnswer test_dmabuf(DmabufCalls& calls, int file);

}  // namespace check
