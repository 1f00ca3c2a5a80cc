// Carries out one workload and says what it took.
#pragma once

#include "transport.h"

namespace bench {

struct Measurement {
  double seconds = 0;  ///< from the first request to the end of the last
  uint64_t bytes = 0;
  uint64_t operations = 0;        ///< requests that were made
  double cpu_seconds = 0;         ///< of this process, in all of its threads
  double server_cpu_seconds = 0;  ///< of the mount's daemon, if it took part
  double p50_us = 0, p99_us = 0;  ///< of handing over up to `depth` requests until they are done
  double resident = 0;            ///< share of the file in the page cache before, 0 to 1
  uint64_t verified_bytes = 0;
  Route route;  ///< of the first thread's last request
};

posix::Result<Measurement> measure(const Workload& workload, Session& session);

}  // namespace bench
