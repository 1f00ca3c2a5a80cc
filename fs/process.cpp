#include "process.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>

#include <cstdio>
#include <fstream>
#include <sstream>

namespace fs {
namespace {

std::optional<pid_t> thread_group_of(pid_t tid) {
  std::ifstream status("/proc/" + std::to_string(tid) + "/status");
  for (std::string line; std::getline(status, line);)
    if (line.rfind("Tgid:", 0) == 0) return static_cast<pid_t>(std::stol(line.substr(5)));
  return std::nullopt;
}

// Field 22 of /proc/PID/stat, counted behind the command's closing parenthesis.
std::optional<uint64_t> start_time_of(pid_t pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string text((std::istreambuf_iterator<char>(stat)), {});
  size_t parenthesis = text.rfind(')');
  if (parenthesis == std::string::npos) return std::nullopt;
  std::istringstream fields(text.substr(parenthesis + 1));
  std::string skipped;
  for (int field = 3; field < 22; field++) fields >> skipped;
  uint64_t start = 0;
  if (!(fields >> start)) return std::nullopt;
  return start;
}

posix::Result<posix::Fd> open_process(const ProcessKey& process) {
  posix::Fd pidfd(static_cast<int>(syscall(SYS_pidfd_open, process.pid, 0)));
  if (!pidfd) return posix::last_failure("open process " + std::to_string(process.pid));
  // Checked after opening: from here on the number cannot be taken by another process unnoticed.
  if (start_time_of(process.pid) != process.start_time)
    return posix::failure(ESRCH, "process " + std::to_string(process.pid) + " has ended");
  return pidfd;
}

}  // namespace

std::optional<ProcessKey> process_of_thread(pid_t tid) {
  if (tid <= 0) return std::nullopt;
  auto pid = thread_group_of(tid);
  if (!pid || *pid <= 0) return std::nullopt;
  auto start = start_time_of(*pid);
  if (!start) return std::nullopt;
  return ProcessKey{*pid, *start};
}

posix::Result<posix::Fd> fetch_descriptor(const ProcessKey& process, int fd) {
  auto pidfd = open_process(process);
  if (!pidfd) return tl::unexpected(pidfd.error());
  posix::Fd fetched(static_cast<int>(syscall(SYS_pidfd_getfd, pidfd->get(), fd, 0)));
  if (!fetched)
    return posix::last_failure("fetch descriptor " + std::to_string(fd) + " of process " +
                               std::to_string(process.pid));
  return fetched;
}

ProcessWatcher::ProcessWatcher(std::function<void(const ProcessKey&)> ended)
    : ended_(std::move(ended)),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      stop_(eventfd(0, EFD_CLOEXEC)),
      thread_([this] { run(); }) {}

ProcessWatcher::~ProcessWatcher() {
  uint64_t one = 1;
  [[maybe_unused]] ssize_t n = write(stop_.get(), &one, sizeof one);
  thread_.join();
}

posix::Result<void> ProcessWatcher::watch(const ProcessKey& process) {
  std::lock_guard lock(mutex_);
  if (watched_.contains(process)) return {};
  auto pidfd = open_process(process);
  if (!pidfd) return tl::unexpected(pidfd.error());
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = pidfd->get();
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, pidfd->get(), &event) < 0)
    return posix::last_failure("watch process " + std::to_string(process.pid));
  watched_.emplace(process, std::move(*pidfd));
  return {};
}

void ProcessWatcher::run() {
  epoll_event stop{};
  stop.events = EPOLLIN;
  stop.data.fd = stop_.get();
  epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, stop_.get(), &stop);
  for (;;) {
    epoll_event event;
    int n = epoll_wait(epoll_.get(), &event, 1, -1);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 || event.data.fd == stop_.get()) return;
    std::optional<ProcessKey> ended;
    {
      std::lock_guard lock(mutex_);
      for (auto it = watched_.begin(); it != watched_.end(); ++it) {
        if (it->second.get() != event.data.fd) continue;
        ended = it->first;
        watched_.erase(it);  // closing the pidfd takes it out of the epoll set
        break;
      }
    }
    if (ended) ended_(*ended);
  }
}

}  // namespace fs
