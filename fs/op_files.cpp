// Open files and their data. With passthrough the kernel reads and writes ordinary handles itself; what
// arrives here is for tagged and direct handles, and for kernels without passthrough.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "filesystem.h"
#include "gpu_io.h"
#include "tagged_io.h"

namespace fs {
namespace {

constexpr double kMoment = 0.01;  // seconds

bool shall_see_data(const Filesystem& fs, const OpenFile& file) {
  const TagPolicy policy = fs.options().tag;
  return policy == TagPolicy::all || (policy == TagPolicy::direct && file.flags & O_DIRECT) || file.opener;
}

void close_file(Filesystem& fs, const OpenFile& file) {
  // Owners that no flush has named: open file descriptions have record locks of their own.
  for (uint64_t owner : file.lock_owners) fs.record_locks().release(*file.node, owner);
  fs.backings().close(file.node, file.writable());
  fs.forget_buffers(fs.buffers().description_closed(file.id));
}

// The caller was gone before it got the handle.
void abandon(Filesystem& fs, const OpenReply& open) {
  fuse_file_info fi{};
  fi.fh = open.handle;
  close_file(fs, file_of(&fi));
  drop_handle(&fi);
}

// A reader's data is the kernel's business, and everything that could refuse him was asked by then: there, the file is
// opened for the daemon only when an operation needs it.
bool opens_late(const Filesystem& fs, int flags) {
  return fs.session().passes_through() && (flags & O_ACCMODE) == O_RDONLY && !(flags & (O_TRUNC | O_DIRECT));
}

void op_open(fuse_req_t request, fuse_ino_t id, fuse_file_info* fi) {
  Filesystem& fs = filesystem_of(request);
  auto place = place_of(request, id);
  if (!place) return;
  posix::Fd fd;
  OpenReply open;
  {
    std::optional<AsWriter> as;
    if (!opens_late(fs, fi->flags)) {
      if (fi->flags & O_TRUNC) as.emplace(caller_of(request));
      fd =
          posix::Fd(::open(place->name().c_str(), OpenFile::daemon_flags(fi->flags) | (fi->flags & O_TRUNC)));
      if (!fd) return void(fuse_reply_err(request, errno));
    }
    open = make_open_file(fs, fuse_req_ctx(request)->pid, *place, std::move(fd), fi->flags);
  }
  if (fs.session().reply_open(request, open) == -ENOENT) abandon(fs, open);
}

// 0 or an errno.
int make_file(fuse_req_t request, const Place& parent, const char* name, mode_t mode, int flags,
              fuse_entry_param& entry, OpenReply& open) {
  AsCreator as(caller_of(request), true);
  // Never an existing file, never through a link: what is there already must be opened the checked way, and the kernel
  // comes back for that when it hears ESTALE.
  posix::Fd fd(openat(parent.fd(), name, flags | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode));
  if (!fd) return errno == EEXIST && !(flags & O_EXCL) ? ESTALE : errno;
  return enter_open_file(filesystem_of(request), parent, name, std::move(fd), flags,
                         fuse_req_ctx(request)->pid, entry, open);
}

void op_create(fuse_req_t request, fuse_ino_t parent_id, const char* name, mode_t mode, fuse_file_info* fi) {
  auto parent = place_of(request, parent_id);
  if (!parent) return;
  fuse_entry_param entry{};
  OpenReply open;
  if (int error = make_file(request, *parent, name, mode, fi->flags, entry, open))
    return void(fuse_reply_err(request, error));
  Filesystem& fs = filesystem_of(request);
  if (fs.session().reply_create(request, entry, open) == -ENOENT) leave_open_file(fs, entry, open);
}

void op_release(fuse_req_t request, fuse_ino_t, fuse_file_info* fi) {
  close_file(filesystem_of(request), file_of(fi));
  drop_handle(fi);
  fuse_reply_err(request, 0);
}

// close(2) reports what closing the file underneath would, and ends the caller's record locks.
void op_flush(fuse_req_t request, fuse_ino_t, fuse_file_info* fi) {
  Filesystem& fs = filesystem_of(request);
  if (fs.options().forward_locks) fs.record_locks().release(*file_of(fi).node, fi->lock_owner);
  if (!fs.closing_reports() || !file_of(fi).writable()) return void(fuse_reply_err(request, 0));
  auto copy = posix::duplicate(file_of(fi).descriptor());
  reply_status(request, copy ? close(copy->release()) : 0);
}

void op_fsync(fuse_req_t request, fuse_ino_t, int data_only, fuse_file_info* fi) {
  filesystem_of(request).may_block(request, [request, data_only, file = keep_file(fi)] {
    const int fd = file->descriptor();
    reply_status(request, fd < 0 ? -1 : data_only ? fdatasync(fd) : fsync(fd));
  });
}

fuse_bufvec at_offset(int fd, size_t size, off_t offset) {
  fuse_bufvec v = FUSE_BUFVEC_INIT(size);
  v.buf[0].flags = static_cast<fuse_buf_flags>(FUSE_BUF_IS_FD | FUSE_BUF_FD_SEEK);
  v.buf[0].fd = fd;
  v.buf[0].pos = offset;
  return v;
}

// Direct I/O needs aligned memory, and a request's data lies behind its header.
struct FreeBytes {
  void operator()(void* p) const { free(p); }
};
using AlignedBytes = std::unique_ptr<char, FreeBytes>;
AlignedBytes make_aligned(size_t size) {
  return AlignedBytes(static_cast<char*>(aligned_alloc(kPage, (size + kPage) / kPage * kPage)));
}

// The kernel cuts large requests at pages, which need not be the disk's blocks: such parts go through the page cache.
void read_direct(fuse_req_t request, Filesystem& fs, OpenFile& file, size_t size, off_t offset) {
  AlignedBytes bytes = make_aligned(size);
  if (!bytes) return void(fuse_reply_err(request, ENOMEM));
  ssize_t n = pread(file.descriptor(), bytes.get(), size, offset);
  if (n < 0 && errno == EINVAL)
    if (auto twin = engine_file(fs, file)) n = pread((*twin)->buffered(), bytes.get(), size, offset);
  if (n < 0)
    fuse_reply_err(request, errno);
  else
    fuse_reply_buf(request, bytes.get(), static_cast<size_t>(n));
}

ssize_t write_direct(Filesystem& fs, OpenFile& file, const char* data, size_t size, off_t offset) {
  AlignedBytes copy;
  if (reinterpret_cast<uintptr_t>(data) % kPage != 0) {
    copy = make_aligned(size);
    if (!copy) return -ENOMEM;
    memcpy(copy.get(), data, size);
    data = copy.get();
  }
  ssize_t written = pwrite(file.descriptor(), data, size, offset);
  if (written < 0 && errno == EINVAL)
    if (auto twin = engine_file(fs, file)) written = pwrite((*twin)->buffered(), data, size, offset);
  return written < 0 ? -errno : written;
}

void read_untagged(fuse_req_t request, OpenFile& file, size_t size, off_t offset) {
  if (file.descriptor() < 0) return void(fuse_reply_err(request, errno));
  if (file.flags & O_DIRECT) return read_direct(request, filesystem_of(request), file, size, offset);
  fuse_bufvec data = at_offset(file.descriptor(), size, offset);
  fuse_reply_data(request, &data, FUSE_BUF_SPLICE_MOVE);
}

void op_read(fuse_req_t request, fuse_ino_t, size_t size, off_t offset, fuse_file_info* fi) {
  auto file = keep_file(fi);
  // Only read(2) and its kin have an owner. Page faults, read-ahead and splice fill a page cache that others share.
  if (auto tag = file->current_tag(); tag && fi->lock_owner != 0)
    return read_tagged(request, file, tag, size, offset);
  filesystem_of(request).may_block(request, [=] { read_untagged(request, *file, size, offset); });
}

// A page of a mapping goes where it belongs, also where write(2) on that descriptor would append.
ssize_t write_page(const OpenFile& file, const char* data, size_t size, off_t offset) {
  auto fd = posix::reopen(file.path->get(), O_WRONLY);
  if (!fd) return -fd.error().code;
  const ssize_t n = pwrite(fd->get(), data, size, offset);
  return n < 0 ? -errno : n;
}

void write_untagged(fuse_req_t request, OpenFile& file, const char* data, size_t size, off_t offset,
                    bool is_page) {
  ssize_t n;
  {
    AsWriter as(caller_of(request));
    if (is_page && file.flags & O_APPEND) {
      n = write_page(file, data, size, offset);
    } else if (file.flags & O_DIRECT) {
      n = write_direct(filesystem_of(request), file, data, size, offset);
    } else {
      n = pwrite(file.descriptor(), data, size, offset);
      if (n < 0) n = -errno;
    }
  }
  if (n < 0)
    fuse_reply_err(request, static_cast<int>(-n));
  else
    fuse_reply_write(request, static_cast<size_t>(n));
}

// The bytes stay where they are until the request is answered.
void op_write(fuse_req_t request, fuse_ino_t, const char* data, size_t size, off_t offset,
              fuse_file_info* fi) {
  auto file = keep_file(fi);
  auto tag = file->current_tag();
  if (tag && tag->write && !fi->writepage) return write_tagged(request, file, tag, size, offset);
  filesystem_of(request).may_block(request, [=, is_page = fi->writepage != 0] {
    write_untagged(request, *file, data, size, offset, is_page);
  });
}

void op_fallocate(fuse_req_t request, fuse_ino_t, int mode, off_t offset, off_t length, fuse_file_info* fi) {
  filesystem_of(request).may_block(request, [=, file = keep_file(fi)] {
    int status, error;
    {
      AsWriter as(caller_of(request));
      status = fallocate(file->descriptor(), mode, offset, length);
      error = errno;
    }
    fuse_reply_err(request, status < 0 ? error : 0);
  });
}

void op_lseek(fuse_req_t request, fuse_ino_t, off_t offset, int whence, fuse_file_info* fi) {
  const int fd = file_of(fi).descriptor();
  const off_t at = fd < 0 ? -1 : lseek(fd, offset, whence);
  if (at < 0)
    fuse_reply_err(request, errno);
  else
    fuse_reply_lseek(request, at);
}

void op_copy_file_range(fuse_req_t request, fuse_ino_t, off_t in_offset, fuse_file_info* in, fuse_ino_t,
                        off_t out_offset, fuse_file_info* out, size_t length, int flags) {
  filesystem_of(request).may_block(request, [=, from = keep_file(in), to = keep_file(out)]() mutable {
    ssize_t n;
    int error;
    {
      AsWriter as(caller_of(request));
      const int in_fd = from->descriptor(), out_fd = in_fd < 0 ? -1 : to->descriptor();
      n = out_fd < 0
              ? -1
              : copy_file_range(in_fd, &in_offset, out_fd, &out_offset, length, static_cast<unsigned>(flags));
      error = errno;
    }
    if (n < 0) return void(fuse_reply_err(request, error));
    // The kernel believes that it knows the access time of what was read.
    if (n > 0) filesystem_of(request).session().invalidate(from->node->id, 0, 0);
    fuse_reply_write(request, static_cast<size_t>(n));
  });
}

// What the kernel cached of a served file it may keep if nothing about the file has changed since the last open.
bool is_as_cached(Node& node, const posix::Fd& path) {
  struct stat st;
  if (fstat(path.get(), &st) < 0) return false;
  std::lock_guard lock(node.mutex);
  const bool same =
      node.cached_ctime.tv_sec == st.st_ctim.tv_sec && node.cached_ctime.tv_nsec == st.st_ctim.tv_nsec;
  // A file that was changed just now may change again within the same tick of the file system's clock.
  const bool settled = time(nullptr) - st.st_ctim.tv_sec > 1;
  node.cached_ctime = settled ? st.st_ctim : timespec{};
  return same;
}

// With O_PATH, the file just made and open, whatever bears its name by now. By the name that is faster than through /proc.
PathFd path_of_made(const posix::Fd& fd, const struct stat& made, const Place& parent, const char* name) {
  if (name) {
    posix::Fd path(openat(parent.fd(), name, O_PATH | O_NOFOLLOW | O_CLOEXEC));
    struct stat st;
    if (path && fstat(path.get(), &st) == 0 && st.st_ino == made.st_ino && st.st_dev == made.st_dev)
      return std::make_shared<const posix::Fd>(std::move(path));
  }
  return std::make_shared<const posix::Fd>(::open(posix::proc_path(fd.get()).c_str(), O_PATH | O_CLOEXEC));
}

}  // namespace

std::optional<ProcessKey> opener_of(Filesystem& fs, pid_t caller) {
  if (fs.buffers().empty()) return std::nullopt;
  auto process = process_of_thread(caller);
  return process && fs.buffers().process_holds_buffer(*process) ? process : std::nullopt;
}

OpenReply make_open_file(Filesystem& fs, pid_t caller, const Place& place, posix::Fd fd, int flags,
                         std::optional<mode_t> made) {
  auto file = std::make_shared<OpenFile>(place.node, place.path, std::move(fd), flags);
  file->opener = opener_of(fs, caller);
  file->sees_data = shall_see_data(fs, *file);
  const auto opened = fs.backings().open(*place.node, *place.path, file->writable(), made);
  OpenReply reply;
  reply.backing_id = opened.backing_id;
  if (reply.backing_id) reply.flags |= kernel::kOpenPassthrough;
  // A file that is served although others pass through is one whose every read and write counts.
  if (file->sees_data || (fs.session().passes_through() && !reply.backing_id))
    reply.flags |= kernel::kOpenDirectIo | kernel::kOpenParallelDirectWrites;
  if (reply.flags == 0 && is_as_cached(*place.node, *place.path)) reply.flags |= kernel::kOpenKeepCache;
  const bool reports = file->writable() && fs.closing_reports();
  if (!reports && !fs.options().forward_locks) reply.flags |= kernel::kOpenNoFlush;
  // From now on a mapping may change the file without a request: attributes already handed out are not good
  // any more.
  if (opened.first_writer && !made) fs.session().invalidate(place.node->id, 0, 0);
  reply.handle = to_handle(std::move(file));
  return reply;
}

int enter_open_file(Filesystem& fs, const Place& parent, const char* name, posix::Fd fd, int flags,
                    pid_t caller, fuse_entry_param& entry, OpenReply& open) {
  if (fstat(fd.get(), &entry.attr) < 0) return errno;
  const PathFd path = path_of_made(fd, entry.attr, parent, name);
  if (!*path) return errno;
  const Place place{fs.nodes().look_up(path, entry.attr), path};
  fill_entry(fs, *place.node, entry);
  open = make_open_file(fs, caller, place, std::move(fd), flags, entry.attr.st_mode);
  // The kernel asks once more before it lets the caller have it, unless it may believe this for a moment.
  entry.attr_timeout =
      std::max(fs.attribute_seconds(*place.node), std::min(kMoment, fs.times_in(*place.node).attributes));
  return 0;
}

void leave_open_file(Filesystem& fs, const fuse_entry_param& entry, const OpenReply& open) {
  abandon(fs, open);
  fs.forget(entry.ino, 1);
}

void add_file_operations(fuse_lowlevel_ops& ops) {
  ops.open = guard<op_open>;
  ops.create = guard<op_create>;
  ops.release = guard<op_release>;
  ops.flush = guard<op_flush>;
  ops.fsync = guard<op_fsync>;
  ops.read = guard<op_read>;
  ops.write = guard<op_write>;
  ops.fallocate = guard<op_fallocate>;
  ops.lseek = guard<op_lseek>;
  ops.copy_file_range = guard<op_copy_file_range>;
}

}  // namespace fs
