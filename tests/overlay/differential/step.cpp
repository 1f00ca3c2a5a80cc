#include "step.h"

#include <algorithm>
#include <cstdio>
#include <sstream>

namespace differential {
namespace {

std::string quoted(const std::string& text) {
  // Names near NAME_MAX say no more in full.
  if (text.size() > 60) return "\"" + text.substr(0, 8) + "...\" (" + std::to_string(text.size()) + " bytes)";
  return "\"" + text + "\"";
}

std::string octal(mode_t mode) {
  char text[16];
  snprintf(text, sizeof text, "0%o", mode);
  return text;
}

std::string together(int flags, std::span<const Choice> names) {
  std::string text;
  for (const Choice& c : names)
    if (c.value && (flags & c.value) == c.value) {
      text += (text.empty() ? "" : "|") + std::string(c.name);
      flags &= ~c.value;
    }
  return text.empty() ? "O_RDONLY" : text;
}

std::string one_of(int flags, std::span<const Choice> choices) {
  auto found =
      std::find_if(choices.begin(), choices.end(), [&](const Choice& c) { return c.value == flags; });
  return found == choices.end() ? std::to_string(flags) : found->name;
}

std::string time_text(int64_t seconds) {
  if (seconds == kTimeNow) return "now";
  if (seconds == kTimeOmitted) return "omit";
  return std::to_string(seconds);
}

std::vector<std::string> arguments(const Step& s) {
  const unsigned fields = s.operation->fields;
  std::vector<std::string> a;
  if (fields & kSlot) a.push_back("fd " + std::to_string(s.slot));
  if (fields & kSlot2) a.push_back("fd " + std::to_string(s.slot2));
  if (fields & kPath) a.push_back(quoted(s.path));
  if (fields & kPath2) a.push_back(quoted(s.path2));
  if (fields & kAttribute) a.push_back(quoted(s.attribute));
  if (fields & kValue) a.push_back("{" + describe_bytes(s.value) + "}");
  if (fields & kOpenFlags) a.push_back(together(s.flags, s.operation->choices));
  if (fields & kFlags) a.push_back(one_of(s.flags, s.operation->choices));
  if (fields & kMode) a.push_back(octal(s.mode));
  if (fields & kFill) a.push_back(std::string("'") + s.fill + "'");
  if (fields & kOffset) a.push_back("offset " + std::to_string(s.offset));
  if (fields & kOffset2) a.push_back("offset " + std::to_string(s.offset2));
  if (fields & kLength) a.push_back("length " + std::to_string(s.length));
  if (fields & kOwner)
    a.push_back(std::to_string(static_cast<int>(s.uid)) + ":" + std::to_string(static_cast<int>(s.gid)));
  if (fields & kTimes) a.push_back("atime " + time_text(s.atime) + ", mtime " + time_text(s.mtime));
  return a;
}

std::string byte_text(unsigned char byte) {
  char text[8];
  snprintf(text, sizeof text, byte > ' ' && byte < 127 ? "'%c'" : "%d", byte);
  return text;
}

}  // namespace

const std::vector<Worker>& workers() {
  static const std::vector<Worker> all{
      {"root", 0, 0, {}}, {"uid 1000", 1000, 1000, {1001, 2000}}, {"uid 1001", 1001, 1001, {}}};
  return all;
}

std::string describe_bytes(std::string_view bytes) {
  std::string text;
  for (size_t i = 0; i < bytes.size();) {
    const size_t end = std::min(bytes.find_first_not_of(bytes[i], i), bytes.size());
    if (!text.empty()) text += ", ";
    if (end - i > 1) text += std::to_string(end - i) + " x ";
    text += byte_text(static_cast<unsigned char>(bytes[i]));
    i = end;
  }
  return text;
}

std::string to_string(const Step& step) {
  std::string text;
  for (const std::string& a : arguments(step)) text += (text.empty() ? "" : ", ") + a;
  text = std::string(step.operation->name) + "(" + text + ")";
  if (step.base >= 0) text = "in fd " + std::to_string(step.base) + ": " + text;
  if (step.look) text += "; look";
  return text;
}

std::string to_string(const Sequence& sequence) {
  std::ostringstream out;
  for (size_t i = 0; i < sequence.size(); i++) {
    const Step& step = sequence[i];
    char start[64];
    snprintf(start, sizeof start, "%4zu  %-10s", i, workers()[static_cast<size_t>(step.worker)].name);
    out << start << to_string(step) << "\n";
  }
  return out.str();
}

}  // namespace differential
