#include "worker.h"

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tree.h"

namespace differential {
namespace {

constexpr int kPatienceMs = 30'000;

bool send_all(int socket, const void* bytes, size_t size) {
  for (size_t done = 0; done < size;) {
    ssize_t n = send(socket, static_cast<const char*>(bytes) + done, size - done, MSG_NOSIGNAL);
    if (n <= 0) return false;
    done += static_cast<size_t>(n);
  }
  return true;
}

bool send_text(int socket, const std::string& text) {
  const size_t size = text.size();
  return send_all(socket, &size, sizeof size) && send_all(socket, text.data(), size);
}

bool receive_all(int socket, void* bytes, size_t size) {
  for (size_t done = 0; done < size;) {
    pollfd ready{socket, POLLIN, 0};
    if (poll(&ready, 1, kPatienceMs) <= 0) return false;
    ssize_t n = recv(socket, static_cast<char*>(bytes) + done, size - done, 0);
    if (n <= 0) return false;
    done += static_cast<size_t>(n);
  }
  return true;
}

void open_tree_at(Tree& tree, const std::string& path) {
  tree.root = posix::Fd(open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
}

// Descriptors of links and of O_TMPFILE files are named through /proc, which only dumpable processes may.
bool become(const Worker& w) {
  return setgroups(w.groups.size(), w.groups.data()) == 0 && setresgid(w.gid, w.gid, w.gid) == 0 &&
         setresuid(w.uid, w.uid, w.uid) == 0 && prctl(PR_SET_DUMPABLE, 1) == 0;
}

[[noreturn]] void serve(int socket, const Sequence& sequence, const Worker& worker,
                        const Setting& directories) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  Tree plain, mount;
  open_tree_at(plain, directories.plain);
  open_tree_at(mount, directories.mount);
  plain.passthrough = mount.passthrough = directories.conditions.passthrough;
  umask(0);
  signal(SIGPIPE, SIG_IGN);  // a write to a pipe that nobody reads is to fail
  if (!become(worker)) _exit(1);
  size_t step;
  while (recv(socket, &step, sizeof step, MSG_WAITALL) == sizeof step)
    if (!send_text(socket, perform(plain, sequence[step])) ||
        !send_text(socket, perform(mount, sequence[step])))
      break;
  _exit(0);
}

}  // namespace

WorkerProcess::WorkerProcess(const Sequence& sequence, const Worker& worker, const Setting& directories) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0) return;
  socket_ = posix::Fd(ends[0]);
  posix::Fd other(ends[1]);
  process_ = fork();
  if (process_ == 0) {
    socket_.reset();
    serve(other.get(), sequence, worker, directories);
  }
}

WorkerProcess::~WorkerProcess() {
  socket_.reset();
  if (process_ < 0) return;
  kill(process_, SIGKILL);  // it holds nothing that must be written
  waitpid(process_, nullptr, 0);
}

bool WorkerProcess::receive(std::string& text) {
  size_t size;
  if (!receive_all(socket_.get(), &size, sizeof size)) return false;
  text.resize(size);
  return receive_all(socket_.get(), text.data(), size);
}

std::optional<WorkerProcess::Outcomes> WorkerProcess::take(size_t step) {
  Outcomes outcomes;
  if (process_ < 0 || !send_all(socket_.get(), &step, sizeof step)) return std::nullopt;
  if (!receive(outcomes.plain) || !receive(outcomes.mount)) return std::nullopt;
  return outcomes;
}

}  // namespace differential
