#include "workload.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace bench {

NLOHMANN_JSON_SERIALIZE_ENUM(Direction, {{Direction::read, "read"}, {Direction::write, "write"}})
NLOHMANN_JSON_SERIALIZE_ENUM(FileState, {{FileState::as_is, "as_is"},
                                         {FileState::cached, "cached"},
                                         {FileState::half, "half"},
                                         {FileState::cold, "cold"},
                                         {FileState::fresh, "fresh"}})

namespace {

template <typename T>
void take(const nlohmann::json& object, const char* key, T& value) {
  if (auto found = object.find(key); found != object.end()) value = found->get<T>();
}

constexpr uint64_t kAlignment = 512;  // of direct I/O, at the least
// A prime, so that multiples of it modulo any smaller count of blocks visit each block once.
constexpr uint64_t kStride = 2654435761;

const char* problem_of(const Workload& w) {
  if (w.transport.empty()) return "no transport";
  if (w.span == 0 || w.size == 0 || w.size > w.span) return "size and span: 0 < size <= span";
  if (w.size % kAlignment || w.span % kAlignment) return "size and span are multiples of 512";
  if (w.span / w.size >= kStride) return "too many requests";
  if (w.threads == 0 || w.depth == 0 || w.chunk == 0) return "threads, depth and chunk are at least 1";
  if (w.threads > w.span / w.size) return "more threads than requests";
  return nullptr;
}

}  // namespace

posix::Result<Workload> parse_workload(const std::string& line) {
  Workload w;
  try {
    const auto object = nlohmann::json::parse(line);
    take(object, "transport", w.transport);
    take(object, "path", w.path);
    w.source = w.path;
    take(object, "source", w.source);
    take(object, "direction", w.direction);
    take(object, "state", w.state);
    take(object, "span", w.span);
    w.size = w.span;
    take(object, "size", w.size);
    take(object, "threads", w.threads);
    take(object, "depth", w.depth);
    take(object, "chunk", w.chunk);
    take(object, "random", w.random);
    take(object, "interleaved", w.interleaved);
    take(object, "operations", w.operations);
    take(object, "seconds", w.seconds);
    take(object, "warm_passes", w.warm_passes);
    take(object, "warm_requests", w.warm_requests);
    take(object, "direct", w.direct);
    take(object, "sync", w.sync);
    take(object, "verify", w.verify);
  } catch (const nlohmann::json::exception& e) {
    return posix::failure(EINVAL, std::string("workload (") + e.what() + ")");
  }
  if (const char* problem = problem_of(w)) return posix::failure(EINVAL, std::string("workload: ") + problem);
  return w;
}

std::vector<std::vector<Request>> plan_requests(const Workload& w) {
  const uint64_t blocks = w.span / w.size;
  const uint64_t count = w.operations ? std::clamp<uint64_t>(w.operations, w.threads, blocks) : blocks;
  std::vector<std::vector<Request>> plan(w.threads);
  for (unsigned thread = 0; thread < w.threads; thread++) {
    const uint64_t first = w.interleaved ? thread : count * thread / w.threads;
    const uint64_t last = w.interleaved ? count : count * (thread + 1) / w.threads;
    for (uint64_t i = first; i < last; i += w.interleaved ? w.threads : 1)
      plan[thread].push_back({(w.random ? i * kStride % blocks : i) * w.size, w.size});
  }
  return plan;
}

}  // namespace bench
