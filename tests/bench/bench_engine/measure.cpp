#include "measure.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <thread>

#include "file_state.h"
#include "pattern.h"

namespace bench {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_between(Clock::time_point a, Clock::time_point b) {
  return std::chrono::duration<double>(b - a).count();
}

double own_cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double cpu_seconds_of(pid_t process) {
  clockid_t clock;
  timespec used{};
  if (process == 0 || clock_getcpuclockid(process, &clock) != 0 || clock_gettime(clock, &used) != 0) return 0;
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) / 1e9;
}

struct CpuTimes {
  double own, server;
  static CpuTimes now(pid_t server) { return {own_cpu_seconds(), cpu_seconds_of(server)}; }
};

/// One thread with its channel and what it measured in the last pass.
struct Lane {
  std::unique_ptr<Channel> channel;
  std::vector<Request> requests;
  uint64_t done = 0;
  std::vector<double> latencies_us;
  Clock::time_point begin, end;
  posix::Result<void> outcome;
  Route route;

  void run(const Workload& w, uint64_t limit) {
    done = 0;
    latencies_us.clear();
    begin = end = Clock::now();
    const auto deadline = begin + std::chrono::duration<double>(w.seconds);
    const uint64_t count = std::min<uint64_t>(limit, requests.size());
    while (done < count && outcome) {
      const uint64_t part = std::min<uint64_t>(w.depth, count - done);
      outcome = channel->move(std::span(requests).subspan(done, part));
      const auto now = Clock::now();
      latencies_us.push_back(seconds_between(end, now) * 1e6);
      end = now;
      if (outcome) done += part;
      if (w.seconds > 0 && now >= deadline) break;
    }
  }
};

class Run {
 public:
  Run(const Workload& w, Session& session, Transport& transport)
      : w_(w), session_(session), transport_(transport) {}

  posix::Result<Measurement> carry_out() {
    if (auto made = make_lanes(); !made) return tl::unexpected(made.error());
    posix::Result<void> outcome = {};
    {
      std::vector<std::jthread> threads;
      for (Lane& lane : lanes_) threads.emplace_back([this, &lane] { follow(lane); });
      for (unsigned pass = 0; pass <= w_.warm_passes && outcome; pass++)
        outcome = prepare(pass == w_.warm_passes).and_then([&] { return make_pass(pass == w_.warm_passes); });
      ended_ = true;
      start_.arrive_and_wait();
    }
    if (!outcome) return tl::unexpected(outcome.error());
    if (auto equal = verify(); !equal) return tl::unexpected(equal.error());
    return summary();
  }

 private:
  posix::Result<void> make_lanes() {
    auto plan = plan_requests(w_);
    for (auto& requests : plan) {
      auto channel = transport_.channel();
      if (!channel) return tl::unexpected(channel.error());
      Lane& lane = lanes_.emplace_back();
      lane.channel = std::move(*channel);
      lane.latencies_us.reserve(requests.size() / w_.depth + 1);
      lane.requests = std::move(requests);
    }
    return {};
  }

  // A thread: one pass after each start.
  void follow(Lane& lane) {
    session_.runtime()->hip().hipSetDevice(session_.device());
    while (true) {
      start_.arrive_and_wait();
      if (ended_) break;
      lane.run(w_, limit_);
      end_.arrive_and_wait();
    }
    lane.route = lane.channel->route();
  }

  bool verifies() const { return w_.verify && transport_.is_whole(); }

  posix::Result<void> prepare(bool measured) {
    if (measured && verifies()) {
      auto memory = session_.memory(w_.span);
      if (!memory) return tl::unexpected(memory.error());
      seed_ = w_.direction == Direction::write
                  ? static_cast<uint64_t>(Clock::now().time_since_epoch().count())
                  : kFileSeed;
      auto done =
          w_.direction == Direction::write ? (*memory)->fill(w_.span, seed_) : (*memory)->poison(w_.span);
      if (!done) return done;
    }
    if (w_.source.empty()) return {};
    auto resident = prepare_state(w_.source, w_.span, w_.state);
    if (!resident) return tl::unexpected(resident.error());
    result_.resident = *resident;
    return {};
  }

  posix::Result<void> make_pass(bool measured) {
    limit_ = measured || w_.warm_requests == 0 ? UINT64_MAX : w_.warm_requests;
    const CpuTimes before = CpuTimes::now(transport_.server());
    start_.arrive_and_wait();
    end_.arrive_and_wait();
    const bool wrote_a_file = w_.direction == Direction::write && !w_.source.empty();
    auto synced = w_.sync && measured && wrote_a_file ? sync() : posix::Result<void>();
    const auto now = Clock::now();
    const CpuTimes after = CpuTimes::now(transport_.server());
    result_.cpu_seconds = after.own - before.own;
    result_.server_cpu_seconds = after.server - before.server;
    auto earlier = [](const Lane& a, const Lane& b) { return a.begin < b.begin; };
    auto ends_earlier = [](const Lane& a, const Lane& b) { return a.end < b.end; };
    const auto begin = std::min_element(lanes_.begin(), lanes_.end(), earlier)->begin;
    const auto end = std::max_element(lanes_.begin(), lanes_.end(), ends_earlier)->end;
    result_.seconds = seconds_between(begin, w_.sync ? now : end);
    for (const Lane& lane : lanes_)
      if (!lane.outcome) return lane.outcome;
    // What is still dirty would be written at the cost of whoever comes next.
    if (measured && !w_.sync && wrote_a_file) return sync();
    return synced;
  }

  posix::Result<void> sync() {
    posix::Fd fd(open(w_.source.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd) return posix::last_failure("open " + w_.source);
    if (fdatasync(fd.get()) < 0) return posix::last_failure("fdatasync");
    return {};
  }

  posix::Result<void> verify() {
    if (!verifies()) return {};
    for (Lane& lane : lanes_) {
      lane.requests.resize(lane.done);
      auto equal =
          w_.direction == Direction::write ? compare_file(lane.requests) : compare_device(lane.requests);
      if (!equal) return equal;
      for (const Request& request : lane.requests) result_.verified_bytes += request.length;
    }
    return {};
  }

  posix::Result<void> compare_device(const std::vector<Request>& requests) {
    return session_.memory(w_.span).and_then(
        [&](DeviceMemory* memory) { return memory->compare(requests, seed_); });
  }

  posix::Result<void> compare_file(const std::vector<Request>& requests) {
    constexpr uint64_t kPart = 1 << 20;
    posix::Fd fd(open(w_.source.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd) return posix::last_failure("open " + w_.source);
    std::vector<char> bytes(kPart);
    for (const Request& request : requests) {
      for (uint64_t done = 0; done < request.length; done += kPart) {
        const uint64_t at = request.offset + done, part = std::min(kPart, request.length - done);
        if (pread(fd.get(), bytes.data(), part, static_cast<off_t>(at)) != static_cast<ssize_t>(part))
          return posix::last_failure("read back " + w_.source);
        if (auto wrong = pattern_mismatch(bytes.data(), part, at, seed_))
          return posix::failure(EILSEQ, w_.source + " at " + std::to_string(*wrong));
      }
    }
    return {};
  }

  Measurement summary() {
    std::vector<double> latencies;
    for (const Lane& lane : lanes_) {
      latencies.insert(latencies.end(), lane.latencies_us.begin(), lane.latencies_us.end());
      result_.operations += lane.done;
    }
    auto percentile = [&](double share) {
      const auto at = static_cast<size_t>(share * static_cast<double>(latencies.size() - 1));
      std::nth_element(latencies.begin(), latencies.begin() + static_cast<std::ptrdiff_t>(at),
                       latencies.end());
      return latencies[at];
    };
    result_.bytes = result_.operations * w_.size;
    result_.p50_us = percentile(0.50);
    result_.p99_us = percentile(0.99);
    result_.route = lanes_.front().route;
    return result_;
  }

  const Workload& w_;
  Session& session_;
  Transport& transport_;
  std::vector<Lane> lanes_;
  std::barrier<> start_{w_.threads + 1}, end_{w_.threads + 1};
  uint64_t limit_ = 0;
  bool ended_ = false;
  uint64_t seed_ = kFileSeed;
  Measurement result_;
};

}  // namespace

posix::Result<Measurement> measure(const Workload& w, Session& session) {
  if (w.transport == "make") {
    return make_file(w.source, w.span).map([] { return Measurement{}; });
  }
  if (w.transport == "prepare") {
    return prepare_state(w.source, w.span, w.state).map([](double resident) {
      Measurement m;
      m.resident = resident;
      return m;
    });
  }
  auto transport = open_transport(w, session);
  if (!transport) return tl::unexpected(transport.error());
  return Run(w, session, **transport).carry_out();
}

}  // namespace bench
