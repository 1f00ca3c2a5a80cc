#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>

#include "commands.h"
#include "test_file.h"

namespace vm {
namespace {

constexpr std::chrono::seconds kPatience{30};  // for what takes milliseconds unless it waits for the disk
constexpr int kQuickReads = 4;

// A disk that has stopped. It goes on at the end, or when patience is: what waits for it cannot even be killed.
class Stopped {
 public:
  explicit Stopped(const Options& o) : resume_(o.resume), stopped_(std::system(o.suspend.c_str()) == 0) {
    watch_ = std::thread([this] {
      std::unique_lock lock(mutex_);
      in_time_ = ended_.wait_for(lock, kPatience, [this] { return over_; });
      if (std::system(resume_.c_str()) != 0) stopped_ = false;
    });
  }
  ~Stopped() { go_on(); }
  Stopped(const Stopped&) = delete;
  Stopped& operator=(const Stopped&) = delete;

  bool stopped() const { return stopped_; }
  /// False if it was waited for too long.
  bool go_on() {
    {
      std::lock_guard lock(mutex_);
      over_ = true;
    }
    ended_.notify_one();
    if (watch_.joinable()) watch_.join();
    return in_time_;
  }

 private:
  const std::string resume_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool over_ = false, in_time_ = false;
  std::atomic<bool> stopped_;
  std::thread watch_;
};

// Memory has one part for each slow read, and one for the quick ones.
void read_both(const Options& o, Client& client, const Memory& memory, const std::string& kind,
               Report& report) {
  const size_t part = o.bytes / (o.slow_requests + 1) / 4096 * 4096;
  const std::vector<char> slow = fresh_bytes(part), quick = fresh_bytes(part);
  for (const auto& [name, bytes] : {std::pair(&o.slow, &slow), std::pair(&o.quick, &quick)})
    if (auto written = write_file(o.directory + "/" + *name + "/in", *bytes); !written)
      return report.fail(written.error().text());
  std::vector<posix::Fd> slow_files;
  for (unsigned i = 0; i < o.slow_requests; i++)
    slow_files.emplace_back(open(client.path(o.slow + "/in").c_str(), O_RDONLY | O_CLOEXEC));
  posix::Fd quick_file(open(client.path(o.quick + "/in").c_str(), O_RDONLY | O_CLOEXEC));
  std::atomic<unsigned> ended{0};
  std::vector<Done> done(o.slow_requests);
  Stopped disk(o);
  report.check(disk.stopped(), "the disk could not be stopped");
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < o.slow_requests; i++)
    threads.emplace_back([&, i] {
      done[i] = client.move(Direction::read, slow_files[i].get(), (i + 1) * part, 0, part);
      ended++;
    });
  usleep(200'000);  // most of them then wait for the disk; none that does not could make the test fail
  for (int i = 0; i < kQuickReads; i++) {
    Done now = client.move(Direction::read, quick_file.get(), 0, 0, part);
    report.line(client, kind, "quick", now);
    report.check_bytes(now, part);
  }
  struct stat st;
  report.check(stat(client.path(o.quick).c_str(), &st) == 0, "stat of a file on the other disk");
  report.check(ended == 0, "the disk was not stopped");
  report.check(disk.go_on(), "others waited for the disk that had stopped");
  for (auto& thread : threads) thread.join();
  for (unsigned i = 0; i < o.slow_requests; i++) {
    report.line(client, kind, "slow", done[i]);
    report.check_bytes(done[i], part);
    if (client.memory_is_visible())
      report.check(memcmp(memory.address() + (i + 1) * part, slow.data(), part) == 0,
                   "memory differs from the file");
  }
}

}  // namespace

int stall(const Options& o) {
  Report report;
  with_each(o, report, [&](Client& client, const Memory& memory, const std::string& kind) {
    read_both(o, client, memory, kind, report);
  });
  return report.status();
}

}  // namespace vm
