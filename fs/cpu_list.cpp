#include "cpu_list.h"

#include <charconv>
#include <fstream>
#include <sstream>

namespace fs {

std::set<unsigned> parse_cpu_list(const std::string& text) {
  constexpr unsigned kMost = 1 << 16;
  std::set<unsigned> set;
  std::istringstream ranges(text);
  for (std::string range; std::getline(ranges, range, ',');) {
    unsigned first = 0, last = 0;
    const char* const end = range.data() + range.size();
    auto read = std::from_chars(range.data(), end, first);
    if (read.ec != std::errc()) return {};
    last = first;
    if (read.ptr != end && *read.ptr == '-') read = std::from_chars(read.ptr + 1, end, last);
    if (read.ec != std::errc() || read.ptr != end || last < first || last >= kMost) return {};
    while (first <= last) set.insert(first++);
  }
  return set;
}

std::set<unsigned> cpus(const std::string& which) {
  std::string text;
  std::getline(std::ifstream("/sys/devices/system/cpu/" + which) >> std::ws, text);
  return parse_cpu_list(text);
}

}  // namespace fs
