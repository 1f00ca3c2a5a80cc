// Open files and their data. With passthrough the kernel reads and writes ordinary handles itself; what
// arrives here is for tagged and direct handles, and for kernels without passthrough.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "filesystem.h"
#include "gpu_io.h"
#include "tagged_io.h"

namespace fs {
namespace {

// The daemon's own open: without flags that concern only names.
int backing_flags(int flags) { return (flags & ~(O_NOFOLLOW | O_CREAT | O_EXCL)) | O_CLOEXEC; }

bool shall_see_data(const Filesystem& fs, const OpenFile& file) {
  const TagPolicy policy = fs.options().tag;
  return policy == TagPolicy::all || (policy == TagPolicy::direct && file.flags & O_DIRECT) || file.opener;
}

void close_file(Filesystem& fs, const OpenFile& file) {
  int32_t unused_id = 0;
  {
    std::lock_guard lock(file.node->mutex);
    if (file.writable()) file.node->writable_handles--;
    if (--file.node->open_handles == 0) std::swap(unused_id, file.node->backing_id);
  }
  if (unused_id) fs.session().close_backing(unused_id);
  fs.forget_buffers(fs.buffers().description_closed(file.id));
}

// The caller was gone before it got the handle.
void abandon(Filesystem& fs, const OpenReply& open) {
  fuse_file_info fi{};
  fi.fh = open.handle;
  close_file(fs, file_of(&fi));
  drop_handle(&fi);
}

void op_open(fuse_req_t request, fuse_ino_t id, fuse_file_info* fi) {
  Filesystem& fs = filesystem_of(request);
  auto node = fs.nodes().find(id);
  if (!node) return void(fuse_reply_err(request, ESTALE));
  posix::Fd fd;
  int error;
  {
    std::optional<AsWriter> as;
    if (fi->flags & O_TRUNC) as.emplace(caller_of(request));
    fd = posix::Fd(open(posix::proc_path(node->path.get()).c_str(), backing_flags(fi->flags)));
    error = errno;
  }
  if (!fd) return void(fuse_reply_err(request, error));
  OpenReply open = make_open_file(fs, request, node, std::move(fd), fi->flags, false);
  if (fs.session().reply_open(request, open) == -ENOENT) abandon(fs, open);
}

void op_create(fuse_req_t request, fuse_ino_t parent_id, const char* name, mode_t mode, fuse_file_info* fi) {
  Filesystem& fs = filesystem_of(request);
  auto parent = fs.nodes().find(parent_id);
  if (!parent) return void(fuse_reply_err(request, ESTALE));
  posix::Fd fd;
  int error;
  {
    AsCreator as(caller_of(request), true);
    // Never an existing file, never through a link: what is there already must be opened the checked way, and the
    // kernel comes back for that when it hears ESTALE.
    fd = posix::Fd(
        openat(parent->path.get(), name, fi->flags | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode));
    error = errno;
  }
  if (!fd) return void(fuse_reply_err(request, error == EEXIST && !(fi->flags & O_EXCL) ? ESTALE : error));
  // The node is that of the file just made, whatever bears its name by now.
  fuse_entry_param entry{};
  posix::Fd path(open(posix::proc_path(fd.get()).c_str(), O_PATH | O_CLOEXEC));
  if (!path || (error = enter_node(fs, std::move(path), entry))) return void(fuse_reply_err(request, error));
  auto node = fs.nodes().find(entry.ino);
  OpenReply open = make_open_file(fs, request, node, std::move(fd), fi->flags, true);
  entry.attr_timeout = fs.attribute_seconds(*node);
  if (fs.session().reply_create(request, entry, open) == -ENOENT) {
    abandon(fs, open);
    fs.nodes().forget(entry.ino, 1);
  }
}

void op_release(fuse_req_t request, fuse_ino_t, fuse_file_info* fi) {
  close_file(filesystem_of(request), file_of(fi));
  drop_handle(fi);
  fuse_reply_err(request, 0);
}

// close(2) reports what closing the file underneath would.
void op_flush(fuse_req_t request, fuse_ino_t, fuse_file_info* fi) {
  auto copy = posix::duplicate(file_of(fi).fd.get());
  int status = copy ? close(copy->release()) : 0;
  fuse_reply_err(request, status < 0 ? errno : 0);
}

void op_fsync(fuse_req_t request, fuse_ino_t, int data_only, fuse_file_info* fi) {
  int fd = file_of(fi).fd.get();
  int status = data_only ? fdatasync(fd) : fsync(fd);
  fuse_reply_err(request, status < 0 ? errno : 0);
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
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return AlignedBytes(static_cast<char*>(aligned_alloc(page, (size + page) / page * page)));
}

// The kernel cuts large requests at pages, which need not be the disk's blocks: such parts go through the page cache.
void read_direct(fuse_req_t request, Filesystem& fs, OpenFile& file, size_t size, off_t offset) {
  AlignedBytes bytes = make_aligned(size);
  if (!bytes) return void(fuse_reply_err(request, ENOMEM));
  ssize_t n = pread(file.fd.get(), bytes.get(), size, offset);
  if (n < 0 && errno == EINVAL)
    if (auto twin = engine_file(fs, file)) n = pread((*twin)->buffered(), bytes.get(), size, offset);
  if (n < 0)
    fuse_reply_err(request, errno);
  else
    fuse_reply_buf(request, bytes.get(), static_cast<size_t>(n));
}

ssize_t write_direct(Filesystem& fs, OpenFile& file, fuse_bufvec* in, size_t size, off_t offset) {
  AlignedBytes bytes = make_aligned(size);
  if (!bytes) return -ENOMEM;
  fuse_bufvec copy = FUSE_BUFVEC_INIT(size);
  copy.buf[0].mem = bytes.get();
  ssize_t n = fuse_buf_copy(&copy, in, static_cast<fuse_buf_copy_flags>(0));
  if (n < 0) return n;
  ssize_t written = pwrite(file.fd.get(), bytes.get(), static_cast<size_t>(n), offset);
  if (written < 0 && errno == EINVAL)
    if (auto twin = engine_file(fs, file))
      written = pwrite((*twin)->buffered(), bytes.get(), static_cast<size_t>(n), offset);
  return written < 0 ? -errno : written;
}

void op_read(fuse_req_t request, fuse_ino_t, size_t size, off_t offset, fuse_file_info* fi) {
  auto file = std::static_pointer_cast<OpenFile>(description_of(fi));
  // Only read(2) and its kin have an owner. Page faults, read-ahead and splice fill a page cache that others share.
  if (auto tag = file->current_tag(); tag && fi->lock_owner != 0)
    return read_tagged(request, file, tag, size, offset);
  if (file->flags & O_DIRECT) return read_direct(request, filesystem_of(request), *file, size, offset);
  fuse_bufvec data = at_offset(file->fd.get(), size, offset);
  fuse_reply_data(request, &data, FUSE_BUF_SPLICE_MOVE);
}

void op_write_buf(fuse_req_t request, fuse_ino_t, fuse_bufvec* in, off_t offset, fuse_file_info* fi) {
  auto file = std::static_pointer_cast<OpenFile>(description_of(fi));
  const size_t size = fuse_buf_size(in);
  auto tag = file->current_tag();
  if (tag && tag->write && !fi->writepage) return write_tagged(request, file, tag, size, offset);
  fuse_bufvec out = at_offset(file->fd.get(), size, offset);
  ssize_t n;
  {
    AsWriter as(caller_of(request));
    n = file->flags & O_DIRECT ? write_direct(filesystem_of(request), *file, in, size, offset)
                               : fuse_buf_copy(&out, in, FUSE_BUF_SPLICE_MOVE);
  }
  if (n < 0)
    fuse_reply_err(request, static_cast<int>(-n));
  else
    fuse_reply_write(request, static_cast<size_t>(n));
}

void op_fallocate(fuse_req_t request, fuse_ino_t, int mode, off_t offset, off_t length, fuse_file_info* fi) {
  AsWriter as(caller_of(request));
  int status = fallocate(file_of(fi).fd.get(), mode, offset, length);
  fuse_reply_err(request, status < 0 ? errno : 0);
}

void op_lseek(fuse_req_t request, fuse_ino_t, off_t offset, int whence, fuse_file_info* fi) {
  off_t at = lseek(file_of(fi).fd.get(), offset, whence);
  if (at < 0)
    fuse_reply_err(request, errno);
  else
    fuse_reply_lseek(request, at);
}

void op_copy_file_range(fuse_req_t request, fuse_ino_t, off_t in_offset, fuse_file_info* in, fuse_ino_t,
                        off_t out_offset, fuse_file_info* out, size_t length, int flags) {
  ssize_t n;
  {
    AsWriter as(caller_of(request));
    n = copy_file_range(file_of(in).fd.get(), &in_offset, file_of(out).fd.get(), &out_offset, length,
                        static_cast<unsigned>(flags));
  }
  if (n < 0)
    fuse_reply_err(request, errno);
  else
    fuse_reply_write(request, static_cast<size_t>(n));
}

}  // namespace

std::optional<ProcessKey> opener_of(Filesystem& fs, fuse_req_t request) {
  if (fs.buffers().empty()) return std::nullopt;
  auto process = process_of_thread(fuse_req_ctx(request)->pid);
  return process && fs.buffers().process_holds_buffer(*process) ? process : std::nullopt;
}

OpenReply make_open_file(Filesystem& fs, fuse_req_t request, std::shared_ptr<Node> node, posix::Fd fd,
                         int flags, bool created) {
  auto file = std::make_shared<OpenFile>(std::move(node), std::move(fd), flags);
  file->opener = opener_of(fs, request);
  file->sees_data = shall_see_data(fs, *file);
  Node& n = *file->node;
  OpenReply reply;
  bool first_writer = false;
  {
    std::lock_guard lock(n.mutex);
    // One decision for all handles of a node: the kernel refuses to mix passthrough with its own caching.
    if (n.open_handles++ == 0) n.backing_id = fs.session().open_backing(n.path.get());
    if (file->writable()) first_writer = n.writable_handles++ == 0;
    reply.backing_id = n.backing_id;
  }
  if (reply.backing_id) reply.flags |= kernel::kOpenPassthrough;
  if (file->sees_data) reply.flags |= kernel::kOpenDirectIo | kernel::kOpenParallelDirectWrites;
  if (!file->writable()) reply.flags |= kernel::kOpenNoFlush;
  // From now on a mapping may change the file without a request: attributes already handed out are not good
  // any more.
  if (first_writer && !created) fs.session().invalidate(n.id, 0, 0);
  reply.handle = to_handle(std::move(file));
  return reply;
}

void add_file_operations(fuse_lowlevel_ops& ops) {
  ops.open = guard<op_open>;
  ops.create = guard<op_create>;
  ops.release = guard<op_release>;
  ops.flush = guard<op_flush>;
  ops.fsync = guard<op_fsync>;
  ops.read = guard<op_read>;
  ops.write_buf = guard<op_write_buf>;
  ops.fallocate = guard<op_fallocate>;
  ops.lseek = guard<op_lseek>;
  ops.copy_file_range = guard<op_copy_file_range>;
}

}  // namespace fs
