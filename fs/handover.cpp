#include "handover.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "foreign_descriptor.h"
#include "gpu/import.h"
#include "hipfile_fuse.h"

namespace fs {
namespace {

constexpr auto kTokenLife = std::chrono::seconds(60);
constexpr size_t kMostWaiting = 1024, kMostWaitingOfUser = 64, kMostConnections = 128;
constexpr auto kClientPatience = std::chrono::seconds(1);  // for one that connects and sends nothing
constexpr int kLookMs = 500;

posix::Result<posix::Fd> bind_socket(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return posix::failure(ENAMETOOLONG, "socket " + path);
  memcpy(address.sun_path, path.c_str(), path.size() + 1);
  posix::Fd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!fd) return posix::last_failure("make socket");
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (bind(fd.get(), generic, sizeof address) < 0) {
    if (errno != EADDRINUSE) return posix::last_failure("bind socket " + path);
    posix::Fd probe(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    if (connect(probe.get(), generic, sizeof address) == 0 || errno != ECONNREFUSED)
      return posix::failure(EADDRINUSE, "bind socket " + path);
    unlink(path.c_str());
    if (bind(fd.get(), generic, sizeof address) < 0) return posix::last_failure("bind socket " + path);
  }
  // Anyone may hand over a descriptor; a token is worth something only to the same user.
  if (chmod(path.c_str(), 0666) < 0 || ::listen(fd.get(), 64) < 0)
    return posix::last_failure("listen on " + path);
  return fd;
}

}  // namespace

posix::Result<std::unique_ptr<Handover>> Handover::listen(const std::string& path) {
  auto socket = bind_socket(path);
  if (!socket) return tl::unexpected(socket.error());
  posix::Fd stop(eventfd(0, EFD_CLOEXEC));
  if (!stop) return posix::last_failure("make eventfd");
  return std::unique_ptr<Handover>(new Handover(path, std::move(*socket), std::move(stop)));
}

Handover::Handover(std::string path, posix::Fd socket, posix::Fd stop)
    : path_(std::move(path)),
      socket_(std::move(socket)),
      stop_(std::move(stop)),
      thread_([this] { run(); }) {}

Handover::~Handover() {
  uint64_t one = 1;
  [[maybe_unused]] ssize_t n = write(stop_.get(), &one, sizeof one);
  thread_.join();
  unlink(path_.c_str());
}

void Handover::accept_one() {
  posix::Fd connection(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (connection)
    connections_.push_back({std::move(connection), Clock::now() + kClientPatience});
  else
    usleep(10000);  // no descriptor left, for example: the socket stays readable
}

void Handover::run() {
  for (;;) {
    std::vector<pollfd> fds{{stop_.get(), POLLIN, 0}, {socket_.get(), POLLIN, 0}};
    if (connections_.size() >= kMostConnections) fds[1].events = 0;
    for (const auto& c : connections_) fds.push_back({c.fd.get(), POLLIN, 0});
    if (poll(fds.data(), fds.size(), kLookMs) < 0 && errno != EINTR) return;
    if (fds[0].revents) return;
    for (size_t i = 0; i < connections_.size(); i++) {
      if (!fds[i + 2].revents) continue;
      serve(connections_[i].fd);
      connections_[i].fd.reset();
    }
    std::erase_if(connections_, [now = Clock::now()](const auto& c) { return !c.fd || c.until < now; });
    if (fds[1].revents & POLLIN) accept_one();
    expire();
  }
}

void Handover::expire() {
  std::lock_guard lock(mutex_);  // memory descriptors only: closing them waits for nobody
  std::erase_if(waiting_, [now = Clock::now()](auto& w) { return w.second.until < now; });
}

void Handover::serve(const posix::Fd& connection) {
  hipfile_fuse_handover message{};
  iovec part{&message, sizeof message};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  ssize_t n = recvmsg(connection.get(), &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  std::vector<posix::Fd> received;  // a message can hold more than fits the structure
  for (cmsghdr* c = n < 0 ? nullptr : CMSG_FIRSTHDR(&header); c; c = CMSG_NXTHDR(&header, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    for (size_t i = 0; i < (c->cmsg_len - CMSG_LEN(0)) / sizeof(int); i++) {
      int number = -1;
      memcpy(&number, CMSG_DATA(c) + i * sizeof(int), sizeof number);
      received.emplace_back(number);
    }
  }
  const bool good = received.size() == 1 && gpu::is_memory(received[0].get());
  if (!good)
    for (auto& fd : received) dispose(std::move(fd));
  ucred peer{};
  socklen_t size = sizeof peer;
  hipfile_fuse_handover answer{HIPFILE_FUSE_ABI_VERSION, 0, 0};
  if (n != sizeof message || header.msg_flags & (MSG_TRUNC | MSG_CTRUNC) || !good)
    answer.error = EINVAL;
  else if (message.version != HIPFILE_FUSE_ABI_VERSION)
    answer.error = EPROTONOSUPPORT;
  else if (getsockopt(connection.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
    answer.error = errno;
  else
    answer.error = keep(std::move(received[0]), peer.uid, answer.token);
  [[maybe_unused]] ssize_t sent = send(connection.get(), &answer, sizeof answer, MSG_DONTWAIT | MSG_NOSIGNAL);
}

int Handover::keep(posix::Fd fd, uid_t uid, uint64_t& token) {
  uint64_t fresh = 0;
  if (getrandom(&fresh, sizeof fresh, 0) != sizeof fresh || fresh == 0) return EAGAIN;
  std::lock_guard lock(mutex_);
  auto of_user =
      std::count_if(waiting_.begin(), waiting_.end(), [uid](auto& w) { return w.second.uid == uid; });
  if (waiting_.size() >= kMostWaiting || of_user >= static_cast<ptrdiff_t>(kMostWaitingOfUser)) return ENOSPC;
  if (!waiting_.try_emplace(fresh, Waiting{std::move(fd), uid, Clock::now() + kTokenLife}).second)
    return EAGAIN;
  token = fresh;
  return 0;
}

posix::Result<posix::Fd> Handover::redeem(uint64_t token, uid_t uid) {
  std::lock_guard lock(mutex_);
  auto it = waiting_.find(token);
  if (it == waiting_.end() || it->second.uid != uid || it->second.until < Clock::now())
    return posix::failure(EBADF, "hand-over token");
  posix::Fd fd = std::move(it->second.fd);
  waiting_.erase(it);
  return fd;
}

}  // namespace fs
