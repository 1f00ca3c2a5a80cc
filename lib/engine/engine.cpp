#include "engine/engine.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "engine/preallocation.h"
#include "engine/small_reads.h"
#include "engine/transfer.h"
#include "engine/window_transfer.h"
#include "kernels/code_objects.h"
#include "storage/page_cache.h"

namespace engine {
namespace {

constexpr unsigned kCallers = 16;

// Of a read that is only to bring the data in. To be told of a range (WILLNEED), the kernel takes twice the CPU time for it:
// then it reads into single pages, and cuts the range to the largest request of the disk.
constexpr uint64_t kReadAheadStep = 1 << 20;

// Besides the thread that asks.
unsigned copy_threads(const Config& config) {
  if (config.copy_threads > 0) return config.copy_threads - 1;
  return std::clamp(std::thread::hardware_concurrency(), 1u, kMostCopyThreads) - 1;
}

uint64_t window_budget(const gpu::Runtime* runtime, const Config& config) {
  if (!runtime || runtime->kind() == gpu::RuntimeKind::amd) return 0;
  if (config.window_bytes) return *config.window_bytes;
  if (runtime->kind() != gpu::RuntimeKind::cuda) return 0;
  return static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) / 8;
}

// The software runtime runs no device code.
std::unique_ptr<kernels::PerDevice> kernels_for(const gpu::Runtime* runtime) {
  const auto functions = runtime ? kernels::Functions::from(runtime->hip()) : kernels::Functions();
  if (!functions.complete() || runtime->kind() == gpu::RuntimeKind::software) return nullptr;
  const auto image = runtime->kind() == gpu::RuntimeKind::cuda ? kernels::ptx() : kernels::amdgpu_bundle();
  return image.empty() ? nullptr : std::make_unique<kernels::PerDevice>(functions, image);
}

// By the device, from the page cache.
bool is_window(const TransferContext& context, const Segment& segment) {
  return segment.route == Route::cached && !context.memory_is_pages;
}

}  // namespace

Engine::Engine(std::shared_ptr<const gpu::Runtime> runtime, const Config& config)
    : runtime_(std::move(runtime)),
      config_(config),
      mounts_(config.system_root),
      devices_(runtime_ ? runtime_->device_count() : 0),
      pool_(runtime_ ? std::make_unique<gpu::PinnedPool>(runtime_, config_.slot_bytes, config_.pool_bytes)
                     : nullptr),
      lanes_(runtime_, config_.depth, config_.io_uring),
      small_lanes_(pool_.get()),
      kernels_(kernels_for(runtime_.get())),
      small_copies_(runtime_, kernels_.get(), devices_),
      windows_(runtime_, window_budget(runtime_.get(), config_)),
      team_(copy_threads(config_)),
      callers_(runtime_ && runtime_->has_ais() ? kCallers : 0),
      prepared_(std::make_unique<std::once_flag[]>(static_cast<size_t>(devices_))) {
  if (runtime_ && runtime_->kind() == gpu::RuntimeKind::amd)
    for (int device = 0; device < devices_; device++)
      large_bars_.push_back(gpu::LargeBar::of(*runtime_, device));
}

Situation Engine::standing(const storage::FileFacts& file, const gpu::Memory& memory) const {
  Situation s;
  s.file = file.kind;
  s.offset_align = file.offset_align;
  s.memory_align = file.memory_align;
  s.runtime_has_ais = runtime_ && runtime_->has_ais();
  if (s.runtime_has_ais) {  // else nobody asks
    s.file_objection = refuse_file(file, policy());
    if (const gpu::DeviceFacts* facts = device_facts(memory.device))
      s.device_objection = refuse_device(*facts);
  }
  s.stores = large_bar(memory.device) != nullptr;
  s.allowed = config_.routes;
  if (!runtime_) s.allowed.remove(Route::staged);
  const Breakers::Open open = breakers_.open(file.id, memory);
  s.peer_failed_before = open.peer;
  s.pages_failed_before = open.pages;
  s.direct_failed_before = open.direct;
  return s;
}

Situation Engine::situation(const Request& r, const storage::FileFacts& file) const {
  Situation s = standing(file, r.memory);
  s.direction = r.direction;
  s.file_offset = r.file_offset;
  s.length = r.length;
  s.address = reinterpret_cast<uint64_t>(r.memory.address) + r.memory_offset;
  s.memory = r.memory.kind;
  s.memory_is_pages = r.memory.pages;
  s.windows = r.direction == Direction::read && !r.memory.pages && r.memory.kind == gpu::MemoryKind::device &&
              windows_.are_open(*r.file, r.file_offset, r.length);
  s.allowed = s.allowed & r.routes;
  return s;
}

// A read is planned for what the file holds now. So the last, partial block goes through the page cache, and
// memory behind the file's last byte is left alone: direct I/O would fill the whole block.
uint64_t Engine::readable_length(const Request& r) {
  struct stat st;
  if (r.direction == Direction::write || r.file->facts().kind != storage::FileKind::regular ||
      fstat(r.file->own(), &st) < 0)
    return r.length;
  const auto size = static_cast<uint64_t>(st.st_size);
  return r.file_offset >= size ? 0 : std::min(r.length, size - r.file_offset);
}

struct Engine::Progress {
  Request rest;  // what has not been moved yet
  Outcome outcome;
  RouteSet failed_now;
  bool planned = false, used_windows = false;
};

Outcome Engine::run(const Request& whole, const CancelToken& cancel, std::unique_ptr<Lane> lane) {
  Progress p{whole, {}, {}};
  p.rest.length = readable_length(whole);
  p.failed_now.add(Route::store);  // the short way, which was tried before
  const bool reads_device = whole.direction == Direction::read && !whole.memory.pages;
  if (reads_device) windows_.ask(*whole.file, whole.file_offset, p.rest.length);
  while (attempt(p, *lane, cancel)) {
  }
  lanes_.give_back(std::move(lane));
  Outcome& outcome = p.outcome;
  if (reads_device && !p.used_windows &&
      outcome.by_route[static_cast<size_t>(Route::cached)] == outcome.bytes)
    windows_.count(*whole.file, whole.file_offset, outcome.bytes);
  auto most = std::max_element(outcome.by_route.begin(), outcome.by_route.end());
  if (*most > 0) outcome.route = static_cast<Route>(most - outcome.by_route.begin());
  if (outcome.route == Route::cached && outcome.reason == Reason::none)
    outcome.reason = Reason::in_page_cache;
  tell(whole, outcome);
  return outcome;
}

void Engine::tell(const Request& r, const Outcome& outcome) {
  const bool writes = r.direction == Direction::write;
  if (r.length < RouteLog::kLeast || outcome.bytes == 0 || !spdlog::should_log(spdlog::level::info) ||
      !route_log_.is_new({r.file->facts().id.device, r.memory.device, writes, outcome.route, outcome.reason}))
    return;
  std::string verdict;
  for (char c : explain(r).text()) verdict += c == '\n' ? std::string(" | ") : std::string(1, c);
  const dev_t source = r.file->facts().id.device;
  spdlog::info("{} of device {}:{}, GPU {}: by route {} ({}); as it stands: | {}",
               writes ? "writes" : "reads", major(source), minor(source), r.memory.device,
               name(outcome.route), text(outcome.reason), verdict);
}

TransferContext Engine::context_of(const Request& r, Lane& lane, const CancelToken& cancel) {
  return {lane,
          lanes_,
          team_,
          callers_,
          runtime_.get(),
          pool_.get(),
          *r.file,
          r.memory.address + r.memory_offset,
          r.memory.device,
          r.memory.pages,
          r.direction,
          r.file_offset,
          cancel,
          config_.cache_use};
}

bool Engine::attempt(Progress& p, Lane& lane, const CancelToken& cancel) {
  Request& rest = p.rest;
  Outcome& outcome = p.outcome;
  Situation s = situation(rest, rest.file->facts());
  s.failed_now = p.failed_now;
  const Plan plan = engine::plan(s);
  if (!p.planned || plan.reason == Reason::failed) outcome.reason = plan.reason;
  p.planned = true;
  if (plan.segments.empty()) {
    if (outcome.error == 0 && rest.length > 0) outcome.error = EOPNOTSUPP;
    return false;
  }
  outcome.hip_error = hip::kSuccess;
  const TransferContext context = context_of(rest, lane, cancel);
  std::optional<Preallocation> space;
  if (rest.direction == Direction::write && plan.is_direct())
    space.emplace(*rest.file, rest.file_offset, rest.length);
  for (const Segment& segment : plan.segments) {
    p.used_windows |= is_window(context, segment);
    const SegmentResult done = carry_out(context, segment);
    learn(rest, segment, done);
    rest.advance(done.done);
    if (space) space->wrote(done.done);
    outcome.bytes += done.done;
    outcome.error = done.error;
    outcome.route = done.last == Route::none ? segment.route : done.last;
    if (done.hip_error != hip::kSuccess) outcome.hip_error = done.hip_error;
    for (size_t i = 0; i < kRoutes; i++) outcome.by_route[i] += done.by_route[i];
    if (done.direct_refused && segment.route == Route::pages) outcome.reason = Reason::failed;
    if (done.route_failed) {
      p.failed_now.add(segment.route);
      if (segment.route == Route::pages) p.failed_now.add(Route::cached);
      return true;
    }
    if (done.done < segment.length) return false;
  }
  return false;
}

SegmentResult Engine::carry_out(const TransferContext& context, const Segment& segment) {
  if (segment.route == Route::peer) return run_peer(context, segment);
  if (is_window(context, segment)) return run_windows(context, segment, windows_);
  std::optional<FileWindows::Reading> reading;
  if (context.direction == Direction::read && !context.memory_is_pages) reading.emplace(windows_);
  return run_transfer(context, segment);
}

void Engine::learn(const Request& r, const Segment& segment, const SegmentResult& done) {
  const storage::FileId& file = r.file->facts().id;
  const uint64_t moved = done.by_route[static_cast<size_t>(segment.route)];
  if (segment.route == Route::peer) {
    if (done.route_failed)
      breakers_.failed(Way::peer, file, r.memory, done.error, done.lasting);
    else if (moved > 0)
      breakers_.worked(Way::peer, file, r.memory);
    return;
  }
  if (segment.route == Route::pages) {
    // Of the memory, the file, or the two together.
    if (done.direct_refused)
      breakers_.failed(Way::pages, file, r.memory, done.direct_refused, done.direct_refused != EFAULT);
    else if (moved > 0)
      breakers_.worked(Way::pages, file, r.memory);
    return;
  }
  // With memory of our own, so it is the file.
  if (done.direct_refused) breakers_.failed(Way::direct, file, r.memory, done.direct_refused, true);
}

const gpu::LargeBar* Engine::large_bar(int device) const {
  const auto index = static_cast<size_t>(device);
  return device >= 0 && index < large_bars_.size() && large_bars_[index] ? &*large_bars_[index] : nullptr;
}

// What is read once does not go through the page cache only to be small.
std::optional<Engine::Short> Engine::short_way_of(const Request& r) const {
  if (r.length > kSmall || config_.cache_use == CacheUse::once) return std::nullopt;
  const Situation s = situation(r, r.file->facts());
  auto way = short_way(s);
  return way ? std::optional(Short{*way, best_refusal(s)}) : std::nullopt;
}

std::optional<Outcome> Engine::run_short(const Request& r, const Short& how, Patience patience) {
  char* to = r.memory.address + r.memory_offset;
  Outcome outcome;
  outcome.route = how.way == ShortWay::store ? Route::store : Route::cached;
  outcome.reason = how.reason;
  std::optional<SmallResult> done;
  switch (how.way) {
    case ShortWay::store:
      done = read_small_by_store(*large_bar(r.memory.device), *r.file, to, r.length, r.file_offset, patience);
      break;
    case ShortWay::pages:
      done = read_small_into_pages(*r.file, to, r.length, r.file_offset, patience);
      break;
    case ShortWay::pinned:
      if (r.memory.device < 0 || r.memory.device >= devices_) return std::nullopt;
      done = read_small_into_device(*runtime_, small_lanes_, small_copies_, *r.file, r.memory.device, to,
                                    r.length, r.file_offset, patience);
      break;
  }
  if (!done) return std::nullopt;
  outcome.bytes = outcome.by_route[static_cast<size_t>(outcome.route)] = done->bytes;
  outcome.error = done->error;
  outcome.hip_error = done->hip_error;
  return outcome;
}

std::vector<std::optional<Outcome>> Engine::run_short(const std::vector<Request>& requests,
                                                      Patience patience) {
  std::vector<std::optional<Outcome>> outcomes(requests.size());
  struct Read {
    size_t index;
    Short how;
  };
  std::map<std::pair<bool, int>, std::vector<Read>> groups;  // by what reads have to share
  for (size_t i = 0; i < requests.size(); i++) {
    const auto how = short_way_of(requests[i]);
    if (!how) continue;
    if (how->way == ShortWay::store)  // stores have nothing to share
      outcomes[i] = run_short(requests[i], *how, patience);
    else
      groups[{requests[i].memory.pages, requests[i].memory.device}].push_back({i, *how});
  }
  for (auto& [key, group] : groups) {
    const auto [pages, device] = key;
    if (group.size() == 1) {
      const auto& [index, how] = group[0];
      outcomes[index] = run_short(requests[index], how, patience);
      continue;
    }
    std::vector<SmallRead> reads;
    reads.reserve(group.size());
    for (const Read& read : group) {
      const Request& r = requests[read.index];
      reads.push_back({r.file, r.memory.address + r.memory_offset, r.file_offset,
                       static_cast<uint32_t>(r.length), 0, hip::kSuccess});
    }
    auto lane = lanes_.borrow();
    run_small_reads({*lane, runtime_.get(), pool_.get(), kernels_.get(), team_}, pages, device, reads,
                    patience);
    lanes_.give_back(std::move(lane));
    for (size_t n = 0; n < group.size(); n++) {
      // Else an error, or the file has just become shorter.
      if (reads[n].result != static_cast<int64_t>(reads[n].length)) continue;
      Outcome& outcome = outcomes[group[n].index].emplace();
      outcome.route = Route::cached;
      outcome.reason = group[n].how.reason;
      outcome.bytes = outcome.by_route[static_cast<size_t>(Route::cached)] = reads[n].length;
    }
  }
  return outcomes;
}

std::vector<Outcome> Engine::run_all(const std::vector<Request>& requests, const CancelToken& cancel) {
  std::vector<std::optional<Outcome>> at_first(requests.size());
  if (!cancel.reason()) at_first = run_short(requests, Patience::any);
  std::vector<Outcome> outcomes;
  outcomes.reserve(requests.size());
  for (size_t i = 0; i < requests.size(); i++)
    outcomes.push_back(at_first[i] ? *at_first[i] : run(requests[i], cancel));
  return outcomes;
}

std::vector<std::optional<Outcome>> Engine::run_all_at_once(const std::vector<Request>& requests) {
  uint64_t bytes = 0;
  for (const Request& r : requests) bytes += r.length;
  if (bytes > kAtOnce) return std::vector<std::optional<Outcome>>(requests.size());
  return run_short(requests, Patience::none);
}

void Engine::prepare(int device) {
  if (device < 0 || device >= devices_) return;
  std::call_once(prepared_[static_cast<size_t>(device)], [&] {
    gpu::DeviceGuard guard(*runtime_, device);
    if (guard.status() != hip::kSuccess) return;
    small_copies_.prepare(device);
    std::vector<std::unique_ptr<Lane>> lanes;
    while (lanes.size() < team_.size() + 1) {
      lanes.push_back(lanes_.borrow());
      if (!lanes.back()->stream(device)) break;  // the request will say so
    }
    for (auto& lane : lanes) lanes_.give_back(std::move(lane));
  });
}

void Engine::read_ahead(const storage::File& file, uint64_t offset, uint64_t length) const {
  if (config_.cache_use == CacheUse::once || file.buffered() < 0) return;
  std::array<char, 64 << 10> scratch;
  std::array<iovec, kReadAheadStep / scratch.size()> parts;
  for (uint64_t at = offset, end = offset + length; at < end; at += kReadAheadStep) {
    const uint64_t step = std::min(kReadAheadStep, end - at);
    if (storage::residency(file, at, step).all()) continue;
    size_t count = 0;
    for (uint64_t left = step; left > 0; left -= parts[count++].iov_len)
      parts[count] = {scratch.data(), std::min<size_t>(left, scratch.size())};
    if (preadv(file.buffered(), parts.data(), static_cast<int>(count), static_cast<off_t>(at)) <
        static_cast<ssize_t>(step))
      return;
  }
}

// With its queue, which is made with the rights of the thread that asks for the lane.
std::unique_ptr<Lane> Engine::lease() {
  auto lane = lanes_.borrow();
  lane->queue();
  return lane;
}

Outcome Engine::run(const Request& request, const CancelToken& cancel) {
  if (const auto how = short_way_of(request))
    if (auto outcome = run_short(request, *how, Patience::any)) return *outcome;
  return run(request, cancel, lanes_.borrow());
}

std::optional<Outcome> Engine::run_at_once(const Request& request) {
  if (request.direction != Direction::read) return std::nullopt;
  if (const auto how = short_way_of(request)) return run_short(request, *how, Patience::none);
  return request.length <= kAtOnceByDevice ? run_by_device(request) : std::nullopt;
}

// A window that goes meanwhile is no reason to wait for a disk here.
std::optional<Outcome> Engine::run_by_device(Request r) {
  if (r.memory.pages) return std::nullopt;
  r.length = readable_length(r);
  const Situation s = situation(r, r.file->facts());
  if (!s.windows) return std::nullopt;
  const Plan plan = engine::plan(s);
  if (plan.route() != Route::cached) return std::nullopt;
  auto lane = lanes_.borrow();
  const SegmentResult done = run_windows(context_of(r, *lane, CancelToken()), plan.segments[0], windows_);
  lanes_.give_back(std::move(lane));
  if (done.done < r.length) return std::nullopt;
  Outcome outcome;
  outcome.bytes = done.done;
  outcome.by_route = done.by_route;
  outcome.route = Route::cached;
  outcome.reason = plan.reason;
  tell(r, outcome);
  return outcome;
}

}  // namespace engine
