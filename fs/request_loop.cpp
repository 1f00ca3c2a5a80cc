#include "request_loop.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>

#include "kernel_abi.h"
#include "posix/mapping.h"

namespace fs {
namespace {

constexpr size_t kWriteHeaders = sizeof(kernel::InHeader) + sizeof(kernel::WriteIn);

sigset_t ending_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set, signal);
  return set;
}

// Makes a blocked read return; the handler has nothing to do.
int waking_signal() { return SIGRTMIN + 1; }

unsigned most_threads() { return std::max(10u, 2 * std::thread::hardware_concurrency()); }

}  // namespace

void block_ending_signals() {
  const sigset_t set = ending_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
}

RequestLoop::RequestLoop(int device, size_t largest, ServeRequest serve)
    : device_(device), largest_(largest), serve_(std::move(serve)), ended_(eventfd(0, EFD_CLOEXEC)) {
  struct sigaction wake {};
  wake.sa_handler = [](int) {};
  sigaction(waking_signal(), &wake, nullptr);
}

RequestLoop::~RequestLoop() { stop_threads(); }

bool RequestLoop::add_thread() {
  std::lock_guard lock(mutex_);
  std::erase_if(workers_, [](Worker& w) {
    const bool done = w.done;
    if (done) w.thread.join();
    return done;
  });
  if (workers_.size() >= most_threads() || stopping_) return false;
  auto memory = posix::Mapping::anonymous(2 * kPage + largest_);
  if (!memory) return false;
  Worker& worker = workers_.emplace_back();
  worker.memory = std::move(*memory);
  try {
    worker.thread = std::thread([this, &worker] { work(worker); });
    return true;
  } catch (const std::system_error&) {  // a limit of threads: those that are there go on
    workers_.pop_back();
    return false;
  }
}

void RequestLoop::work(Worker& worker) {
  char* const buffer = worker.memory.data() + kPage - kWriteHeaders;
  const size_t size = kWriteHeaders + largest_ + kPage;
  while (!stopping_) {
    idle_++;
    const ssize_t n = read(device_, buffer, size);
    const int error = errno;
    const int others_idle = --idle_;
    if (n < 0 && (error == EINTR || error == ENOENT || error == EAGAIN)) continue;
    if (n < static_cast<ssize_t>(sizeof(kernel::InHeader))) {
      if (n < 0 && error != ENODEV && error != ECONNABORTED) error_ = error;
      uint64_t one = 1;
      [[maybe_unused]] ssize_t written = write(ended_.get(), &one, sizeof one);
      break;
    }
    if (others_idle == 0) add_thread();
    load_.begin();
    serve_({buffer, static_cast<size_t>(n)});
    load_.end(RequestLoad::Clock::now());
    // The kernel wakes those that wait in turn, and who has waited long is slow to get going: there are no more than were
    // needed of late.
    if (idle_ > load_.peak()) break;
  }
  worker.done = true;
}

int RequestLoop::run() {
  const sigset_t set = ending_signals();
  posix::Fd signals(signalfd(-1, &set, SFD_CLOEXEC));
  if (!signals || !ended_) return -errno;
  if (!add_thread()) return -ENOMEM;
  pollfd waits[] = {{signals.get(), POLLIN, 0}, {ended_.get(), POLLIN, 0}};
  while (poll(waits, 2, -1) < 0 && errno == EINTR) {
  }
  stop_threads();
  return -error_;
}

void RequestLoop::stop_threads() {
  stopping_ = true;
  std::list<Worker> workers;
  {
    std::lock_guard lock(mutex_);
    workers.swap(workers_);
  }
  for (Worker& worker : workers) {
    // Until it has noticed: the signal can come just before the read.
    while (!worker.done) {
      pthread_kill(worker.thread.native_handle(), waking_signal());
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    worker.thread.join();
  }
}

}  // namespace fs
