#include "engine/small_copies.h"

#include <algorithm>

namespace engine {
namespace {

constexpr unsigned kLeaders = 4;  // enough to hide the latency of one behind another's
constexpr size_t kWorthALaunch = 4;
constexpr int kSpins = 4000;  // some 20 us: what a copy takes

void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

// Awake at first, as the device is quick.
void SmallCopies::Waiting::wait() {
  for (int i = 0; i < kSpins; i++) {
    if (turn.load(std::memory_order_acquire) != Turn::waits) return;
    pause_cpu();
  }
  turn.wait(Turn::waits, std::memory_order_acquire);
}

void SmallCopies::Waiting::set(Turn next) {
  turn.store(next, std::memory_order_release);
  turn.notify_one();
}

SmallCopies::Device& SmallCopies::device_of(int device) {
  std::lock_guard lock(mutex_);
  return devices_[device];
}

SmallCopies::Result SmallCopies::copy(SmallLanes::Use& lane, int device, const kernels::Segment& segment) {
  Device& d = device_of(device);
  Waiting mine;
  mine.segment = segment;
  bool waits;
  {
    std::lock_guard lock(d.mutex);
    waits = d.leading == kLeaders;
    if (waits)
      d.waiting.push_back(&mine);
    else
      d.leading++;
  }
  if (waits) {
    mine.wait();
    if (mine.turn.load(std::memory_order_acquire) == Turn::done) return mine.result;
  }
  lead(lane, device, mine);
  pass_on(d);
  return mine.result;
}

void SmallCopies::lead(SmallLanes::Use& lane, int device, Waiting& mine) {
  std::vector<kernels::Segment> segments{mine.segment};
  for (const Waiting* other : mine.group) segments.push_back(other->segment);
  mine.result = run(lane, device, segments);
  for (Waiting* other : mine.group) {
    other->result = mine.result;
    other->set(Turn::done);  // it may be gone from here on
  }
}

// The first of those that wait leads next, for as many as a lane can list.
void SmallCopies::pass_on(Device& d) {
  Waiting* next = nullptr;
  {
    std::lock_guard lock(d.mutex);
    if (d.waiting.empty()) {
      d.leading--;
      return;
    }
    next = d.waiting.front();
    const size_t others = std::min(d.waiting.size(), SmallLanes::kListed) - 1;
    const auto first = d.waiting.begin() + 1, last = first + static_cast<std::ptrdiff_t>(others);
    next->group.assign(first, last);
    d.waiting.erase(d.waiting.begin(), last);
  }
  next->set(Turn::leads);
}

SmallCopies::Result SmallCopies::run(SmallLanes::Use& lane, int device,
                                     std::span<const kernels::Segment> segments) {
  Result r;
  auto stream = lane.stream(device);
  if (!stream) {
    r.error = stream.error();
    return r;
  }
  const auto& hip = runtime_->hip();
  bool launched = false;
  if (segments.size() >= kWorthALaunch && kernels_)
    if (auto kernels = kernels_->of(device)) {
      std::copy(segments.begin(), segments.end(), lane.list());
      launched = (*kernels)->copy({lane.list(), segments.size()}, *stream) == hip::kSuccess;
      if (!launched) hip.hipGetLastError();
    }
  for (size_t i = 0; i < segments.size() && !launched && r.error == hip::kSuccess; i++)
    r.error = hip.hipMemcpyAsync(segments[i].destination, segments[i].source, segments[i].length,
                                 hip::kMemcpyHostToDevice, *stream);
  if (hip::Error e = hip.hipStreamSynchronize(*stream); e != hip::kSuccess) {
    r.settled = false;
    if (r.error == hip::kSuccess) r.error = e;
  }
  return r;
}

}  // namespace engine
