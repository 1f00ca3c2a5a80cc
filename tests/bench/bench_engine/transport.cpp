#include "transport.h"

namespace bench {

OpenedTransport open_transport(const Workload& w, Session& session) {
  for (auto open : {open_library_transport, open_mount_transport, open_host_transport, open_copy_transport}) {
    auto opened = open(w, session);
    if (!opened || *opened) return opened;
  }
  return posix::failure(EINVAL, "transport '" + w.transport + "'");
}

posix::Result<posix::Fd> open_for(const Workload& w, int flags) {
  const int access = w.direction == Direction::write ? O_RDWR : O_RDONLY;
  posix::Fd fd(open(w.path.c_str(), access | flags | (w.direct ? O_DIRECT : 0) | O_CLOEXEC));
  if (!fd) return posix::last_failure("open " + w.path);
  return fd;
}

}  // namespace bench
