// Says once which way data goes, and why not a better one.
#pragma once

#include <sys/types.h>

#include <mutex>
#include <set>

#include "engine/route.h"

namespace engine {

/// Remembers what has been said. Thread-safe.
class RouteLog {
 public:
  struct Way {
    dev_t source = 0;  ///< the file system's
    int device = -1;   ///< HIP ordinal
    bool writes = false;
    Route route = Route::none;
    Reason reason = Reason::none;
    auto operator<=>(const Way&) const = default;
  };
  /// Smaller requests tell little: they are small.
  static constexpr uint64_t kLeast = 1 << 20;

  /// Whether this is to be said, because it has not been before.
  bool is_new(const Way& way) {
    std::lock_guard lock(mutex_);
    return said_.size() < kMost && said_.insert(way).second;
  }

 private:
  static constexpr size_t kMost = 1024;
  std::mutex mutex_;
  std::set<Way> said_;
};

}  // namespace engine
