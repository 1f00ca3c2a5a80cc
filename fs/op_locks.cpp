// flock(2) and fcntl(2) locks, where they are to count underneath.
#include <fcntl.h>
#include <sys/file.h>

#include "filesystem.h"
#include "gpu_io.h"

namespace fs {
namespace {

// Now if that is possible, or else later if the caller is ready to wait.
void try_or_wait(fuse_req_t request, bool waits, LockWaits::Attempt attempt) {
  const int error = attempt();
  if (error != EAGAIN || !waits) return void(fuse_reply_err(request, error));
  auto token = std::make_shared<engine::CancelToken>();
  auto guard = std::make_shared<InterruptGuard>(request, token);
  filesystem_of(request).lock_waits().wait(
      std::move(attempt),
      [request, guard](int result) {
        guard->disarm();
        fuse_reply_err(request, result);
      },
      token);
}

void op_getlk(fuse_req_t request, fuse_ino_t, fuse_file_info* fi, struct flock* lock) {
  Filesystem& fs = filesystem_of(request);
  OpenFile& file = file_of(fi);
  if (int error = fs.record_locks().apply(*file.node, *file.path, fi->lock_owner, F_OFD_GETLK, *lock))
    fuse_reply_err(request, error);
  else
    fuse_reply_lock(request, lock);
}

void op_setlk(fuse_req_t request, fuse_ino_t, fuse_file_info* fi, struct flock* lock, int sleep) {
  Filesystem& fs = filesystem_of(request);
  {
    OpenFile& file = file_of(fi);
    std::lock_guard held(file.mutex);
    file.lock_owners.insert(fi->lock_owner);
  }
  try_or_wait(request, sleep != 0,
              [&fs, file = keep_file(fi), owner = fi->lock_owner, wanted = *lock]() mutable {
                return fs.record_locks().apply(*file->node, *file->path, owner, F_OFD_SETLK, wanted);
              });
}

void op_flock(fuse_req_t request, fuse_ino_t, fuse_file_info* fi, int operation) {
  const bool waits = !(operation & LOCK_NB);
  try_or_wait(request, waits, [file = keep_file(fi), operation] {
    const int fd = file->descriptor();
    if (fd >= 0 && flock(fd, operation | LOCK_NB) == 0) return 0;
    return errno == EWOULDBLOCK ? EAGAIN : errno;
  });
}

}  // namespace

void add_lock_operations(fuse_lowlevel_ops& ops) {
  ops.getlk = guard<op_getlk>;
  ops.setlk = guard<op_setlk>;
  ops.flock = guard<op_flock>;
}

}  // namespace fs
