// The kernel's way of writing sets of CPUs: 0-3,8.
#pragma once

#include <set>
#include <string>

namespace fs {

/// Empty if the text is no such list.
std::set<unsigned> parse_cpu_list(const std::string& text);

/// Those of /sys/devices/system/cpu/`which`: possible, present, online. Empty if that cannot be read.
std::set<unsigned> cpus(const std::string& which);

}  // namespace fs
