// The calls that were made, for the tests to ask.
#include <map>
#include <mutex>
#include <string>

#include "driver.h"
#include "fake_cuda.h"

namespace {

struct Record {
  int calls = 0;
  std::string last;
};
std::mutex record_mutex;
std::map<std::string, Record>& records() {
  static auto* all = new std::map<std::string, Record>;
  return *all;
}

}  // namespace

void fake_cuda::record_text(const char* name, const char* arguments) {
  std::lock_guard lock(record_mutex);
  Record& r = records()[name];
  r.calls++;
  r.last = arguments;
}

CUDA_EXPORT int fakeCudaCalls(const char* name) {
  std::lock_guard lock(record_mutex);
  auto it = records().find(name);
  return it == records().end() ? 0 : it->second.calls;
}
CUDA_EXPORT const char* fakeCudaLast(const char* name) {
  thread_local std::string copy;
  std::lock_guard lock(record_mutex);
  auto it = records().find(name);
  copy = it == records().end() ? "" : it->second.last;
  return copy.c_str();
}
