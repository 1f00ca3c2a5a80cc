#include "knobs.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string_view>

namespace software {
namespace {

long number(const char* name, long otherwise) {
  const char* text = std::getenv(name);
  if (!text) return otherwise;
  long value = otherwise;
  std::from_chars(text, text + std::string_view(text).size(), value);
  return value;
}

bool parse_number(std::string_view text, long& value) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

Knobs Knobs::from_environment() {
  Knobs k;
  k.devices = static_cast<int>(std::clamp(number("HIP_SOFTWARE_DEVICES", 1), 0L, 16L));
  k.memory_bytes = static_cast<size_t>(std::max(number("HIP_SOFTWARE_MEMORY_MB", 65536), 1L)) << 20;
  k.integrated = number("HIP_SOFTWARE_INTEGRATED", 0) != 0;
  k.ais = number("HIP_SOFTWARE_NO_AIS", 0) == 0;
  k.strict = number("HIP_SOFTWARE_STRICT", 0) != 0;
  k.wait_value = number("HIP_SOFTWARE_NO_WAIT_VALUE", 0) == 0;
  return k;
}

bool Faults::plan(const std::string& spec) {
  std::multimap<std::string, Rule, std::less<>> rules;
  std::string_view rest = spec;
  while (!rest.empty()) {
    std::string_view item = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), item.size() + 1));
    size_t first = item.find(':');
    if (first == std::string_view::npos) return false;
    size_t second = item.find(':', first + 1);
    std::string_view turn_text =
        item.substr(first + 1, second == std::string_view::npos ? second : second - first - 1);
    long turn = 0, error = hip::kErrorUnknown;
    if (turn_text != "*" && (!parse_number(turn_text, turn) || turn < 1)) return false;
    if (second != std::string_view::npos && !parse_number(item.substr(second + 1), error)) return false;
    rules.emplace(std::string(item.substr(0, first)), Rule{turn, static_cast<hip::Error>(error)});
  }
  std::lock_guard lock(mutex_);
  rules_ = std::move(rules);
  calls_.clear();
  return true;
}

std::optional<hip::Error> Faults::next(const char* name) {
  std::lock_guard lock(mutex_);
  if (rules_.empty()) return std::nullopt;
  auto [first, last] = rules_.equal_range(std::string_view(name));
  if (first == last) return std::nullopt;
  long turn = ++calls_[name];
  for (auto rule = first; rule != last; ++rule)
    if (rule->second.turn == 0 || rule->second.turn == turn) return rule->second.error;
  return std::nullopt;
}

}  // namespace software
