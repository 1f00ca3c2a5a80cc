// What a command did, line by line, and whether it was right.
#pragma once

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "client.h"

namespace vm {

class Report {
 public:
  void line(const Client& client, const std::string& memory, const char* what, const Done& done) {
    printf("%-8s %-8s %-12s %8lld  %-7s %s\n", client.name(), memory.c_str(), what,
           static_cast<long long>(done.result), tools::route_name(done.route),
           tools::reason_text(done.reason).c_str());
  }
  bool check(bool holds, const std::string& otherwise) {
    if (!holds) fail(otherwise);
    return holds;
  }
  void fail(const std::string& what) {
    failures_++;
    printf("  FAILED: %s\n", what.c_str());
  }
  /// `what` are the bytes of `expected`.
  bool check_same(const char* got, size_t size, const std::vector<char>& expected, const std::string& what) {
    const size_t common = std::min(size, expected.size());
    const auto at = static_cast<size_t>(std::mismatch(got, got + common, expected.data()).first - got);
    if (at == common && size == expected.size()) return true;
    size_t wrong = 0;
    for (size_t i = at; i < common; i++) wrong += got[i] != expected[i];
    fail(what + " differs: " + std::to_string(size) + " bytes, of which " + std::to_string(wrong) +
         " are wrong, the first at " + std::to_string(at));
    return false;
  }
  bool check_bytes(const Done& done, size_t expected) {
    if (done.result < 0) fail(std::strerror(static_cast<int>(-done.result)));
    return check(done.result == static_cast<int64_t>(expected), "not " + std::to_string(expected) + " bytes");
  }
  /// Of the program: 0 if nothing failed.
  int status() const { return failures_ ? 1 : 0; }

 private:
  int failures_ = 0;
};

}  // namespace vm
