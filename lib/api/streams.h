// Streams that were registered with flags, and operations in the order of a stream.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "driver.h"

namespace api {

/// Thread-safe.
class StreamTable {
 public:
  static StreamTable& instance();
  hipFileError_t add(hipStream_t stream, unsigned flags);
  hipFileError_t remove(hipStream_t stream);
  /// 0 for streams that are not registered.
  unsigned flags(hipStream_t stream) const;

 private:
  mutable std::mutex mutex_;
  std::map<hipStream_t, unsigned> flags_;
};

/// Words that a stream can wait on and the CPU can write. Each only ever grows, so a word can serve the next
/// operation as soon as it has been raised for the last. Thread-safe.
class SignalPool {
 public:
  struct Signal {
    uint64_t* word = nullptr;
    uint64_t value = 0;  ///< that the stream waits for
  };
  static SignalPool& instance();
  /// Nothing if the runtime has no memory for it. The device of the stream must be current.
  std::optional<Signal> take(const gpu::Runtime& runtime, int device);
  /// Lets the stream go on.
  void raise(int device, Signal signal);

 private:
  std::mutex mutex_;
  std::map<int, std::vector<Signal>> spare_;  // by device
};

/// Pointers to the parameters of an asynchronous call, which the client keeps valid.
struct AsyncParameters {
  size_t* size;
  hoff_t* file_offset;
  hoff_t* buffer_offset;
  ssize_t* bytes;
};

/// Puts a transfer into a stream. Everything has been checked for the values of now, which `transfer` holds.
hipFileError_t enqueue(Driver& driver, Transfer transfer, const AsyncParameters& parameters, unsigned flags,
                       hipStream_t stream, int device);

}  // namespace api
