// What the environment asks of the software runtime: how many devices, which features, which calls fail.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "hip_abi/hip_abi.h"

namespace software {

/// Read once, when the runtime is first used; HIP_SOFTWARE_CAPTURING with each call.
///   HIP_SOFTWARE_DEVICES     number of devices, 0 to 16 (default 1; 0: hipErrorNoDevice)
///   HIP_SOFTWARE_MEMORY_MB   memory that each device reports and enforces (default 65536)
///   HIP_SOFTWARE_INTEGRATED  1: devices say that they are integrated (APU)
///   HIP_SOFTWARE_NO_AIS      1: no hipAmdFileRead/hipAmdFileWrite
///   HIP_SOFTWARE_STRICT      1: CPU access to device memory faults
///   HIP_SOFTWARE_NO_WAIT_VALUE 1: no stream wait value
///   HIP_SOFTWARE_CAPTURING   set: streams say that they are being captured
///   HIP_SOFTWARE_FAIL        NAME:N[:ERROR],...: the N-th call of NAME (from 1; * = every call) fails with
///   the
///                            hipError_t number ERROR (default 999)
struct Knobs {
  int devices = 1;
  size_t memory_bytes = size_t{64} << 30;
  bool integrated = false;
  bool ais = true;
  bool strict = false;
  bool wait_value = true;

  static Knobs from_environment();
};

/// Calls that are to fail. Thread-safe.
class Faults {
 public:
  /// Replaces the whole plan; returns false, and plans nothing, if `spec` is malformed.
  bool plan(const std::string& spec);
  /// Counts a call of `name`; the error it shall return, if it is its turn.
  std::optional<hip::Error> next(const char* name);

 private:
  struct Rule {
    long turn;  // 0: every call
    hip::Error error;
  };
  std::mutex mutex_;
  std::multimap<std::string, Rule, std::less<>> rules_;
  std::map<std::string, long, std::less<>> calls_;
};

}  // namespace software
