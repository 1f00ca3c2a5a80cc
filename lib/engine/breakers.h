// What has failed of late, so that not every request tries it in vain.
#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <optional>
#include <shared_mutex>

#include "gpu/memory.h"
#include "storage/file.h"

namespace engine {

/// What a failure speaks against.
enum class Way {
  peer,    ///< peer-to-peer DMA by the driver, between a file and a device
  pages,   ///< direct I/O with memory of a device that is pages, between a file and that memory
  direct,  ///< direct I/O on the file, with whatever memory
};
const char* name(Way way);

struct BreakerPatience {
  std::chrono::seconds first{10};     ///< the first pause; each further one is twice as long
  std::chrono::seconds longest{600};  ///< the longest pause
  unsigned failures = 8;              ///< in a row that may each be of their moment, but not all of them
  unsigned files = 3;                 ///< of one file system, after which others on it are not tried either
};

/// Circuit breakers, one per (file, memory) and one per (file system, memory): what fails is left alone for a pause, then
/// tried again. A device's own memory counts as one, other memory by its address. Thread-safe.
class Breakers {
 public:
  using Clock = std::chrono::steady_clock;
  explicit Breakers(BreakerPatience patience = {}) : patience_(patience) {}

  /// What to leave alone now.
  struct Open {
    bool peer = false, pages = false, direct = false;
  };
  /// Costs nothing while nothing has failed of late, and readers do not wait for each other.
  Open open(const storage::FileId& file, const gpu::Memory& memory,
            std::optional<Clock::time_point> now = std::nullopt) const;
  /// `lasting`: the error is about the file and the memory, so that the next try would fail, too.
  void failed(Way way, const storage::FileId& file, const gpu::Memory& memory, int error, bool lasting,
              Clock::time_point now = Clock::now());
  void worked(Way way, const storage::FileId& file, const gpu::Memory& memory);
  /// False: nothing has failed of late.
  bool any() const { return any_.load(std::memory_order_acquire); }

 private:
  struct Key {
    Way way;
    storage::FileId file;  // of a file system: the device alone
    int device;
    const char* address;
    auto operator<=>(const Key&) const = default;
  };
  struct Breaker {
    unsigned failures = 0;          // since it was last open
    std::chrono::seconds pause{0};  // of the last time it opened; 0: never yet
    Clock::time_point until;
  };
  static Key key(Way way, const storage::FileId& file, const gpu::Memory& memory);
  static Key file_system(Key key);
  // With mutex_ held.
  bool is_open(const Key& of_file, Clock::time_point now) const;
  // Another failure; true if that opens it.
  bool trip(Breaker& breaker, unsigned tolerated, Clock::time_point now) const;

  const BreakerPatience patience_;
  std::atomic<bool> any_{false};
  mutable std::shared_mutex mutex_;
  std::map<Key, Breaker> breakers_;
};

}  // namespace engine
