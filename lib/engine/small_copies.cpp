#include "engine/small_copies.h"

#include <algorithm>

namespace engine {
namespace {

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

SmallCopies::SmallCopies(std::shared_ptr<const gpu::Runtime> runtime, kernels::PerDevice* kernels,
                         int devices)
    : runtime_(std::move(runtime)),
      kernels_(kernels),
      devices_(std::make_unique<Device[]>(static_cast<size_t>(devices))) {
  for (int device = 0; device < devices; device++)
    for (size_t i = 0; i < kLeaders; i++) devices_[static_cast<size_t>(device)].free.push_back(i);
}

SmallCopies::Result SmallCopies::copy(SmallLanes::Use& lane, int device, const kernels::Segment& segment) {
  Device& d = devices_[static_cast<size_t>(device)];
  Waiting mine;
  mine.segment = segment;
  bool waits;
  {
    std::lock_guard lock(d.mutex);
    waits = d.free.empty();
    if (waits) {
      d.waiting.push_back(&mine);
    } else {
      mine.stream = d.free.back();
      d.free.pop_back();
    }
  }
  if (waits) {
    mine.wait();
    if (mine.turn.load(std::memory_order_acquire) == Turn::done) return mine.result;
  }
  lead(lane, device, d, mine);
  pass_on(d, mine.stream);
  return mine.result;
}

void SmallCopies::lead(SmallLanes::Use& lane, int device, Device& d, Waiting& mine) {
  std::array<kernels::Segment, SmallLanes::kListed> segments;  // on the stack: nothing may be thrown here
  segments[0] = mine.segment;
  const std::span others(mine.group.data(), mine.group_size);
  for (size_t i = 0; i < others.size(); i++) segments[i + 1] = others[i]->segment;
  mine.result = run(lane, device, d.streams[mine.stream], {segments.data(), others.size() + 1});
  for (Waiting* other : others) {
    other->result = mine.result;
    other->set(Turn::done);  // it may be gone from here on
  }
}

// The first of those that wait leads next, for as many as a lane can list.
void SmallCopies::pass_on(Device& d, size_t stream) {
  Waiting* next = nullptr;
  {
    std::lock_guard lock(d.mutex);
    if (d.waiting.empty()) {
      d.free.push_back(stream);
      return;
    }
    next = d.waiting.front();
    next->stream = stream;
    const size_t others = std::min(d.waiting.size(), SmallLanes::kListed) - 1;
    const auto first = d.waiting.begin() + 1, last = first + static_cast<std::ptrdiff_t>(others);
    std::copy(first, last, next->group.begin());
    next->group_size = others;
    d.waiting.erase(d.waiting.begin(), last);
  }
  next->set(Turn::leads);
}

hip::Error SmallCopies::make(std::optional<gpu::Stream>& stream) const {
  if (stream) return hip::kSuccess;
  auto made = gpu::Stream::create(runtime_);
  if (!made) return made.error();
  stream.emplace(std::move(*made));
  return hip::kSuccess;
}

void SmallCopies::prepare(int device) {
  Device& d = devices_[static_cast<size_t>(device)];
  std::lock_guard lock(d.mutex);
  for (size_t i : d.free)  // who leads makes its own
    if (make(d.streams[i]) != hip::kSuccess) return;
}

SmallCopies::Result SmallCopies::run(SmallLanes::Use& lane, int device, std::optional<gpu::Stream>& own,
                                     std::span<const kernels::Segment> segments) {
  Result r;
  if ((r.error = make(own)) != hip::kSuccess) return r;
  const hip::Stream stream = own->handle();
  const auto& hip = runtime_->hip();
  bool launched = false;
  if (segments.size() >= kWorthALaunch && kernels_)
    if (auto kernels = kernels_->of(device)) {
      std::copy(segments.begin(), segments.end(), lane.list());
      launched = (*kernels)->copy({lane.list(), segments.size()}, stream) == hip::kSuccess;
      if (!launched) hip.hipGetLastError();
    }
  for (size_t i = 0; i < segments.size() && !launched && r.error == hip::kSuccess; i++)
    r.error = hip.hipMemcpyAsync(segments[i].destination, segments[i].source, segments[i].length,
                                 hip::kMemcpyHostToDevice, stream);
  if (hip::Error e = hip.hipStreamSynchronize(stream); e != hip::kSuccess) {
    r.settled = false;
    if (r.error == hip::kSuccess) r.error = e;
  }
  return r;
}

}  // namespace engine
