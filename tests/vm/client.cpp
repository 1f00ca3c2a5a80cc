#include "client.h"

#include <hipfile_ext.h>
#include <sys/ioctl.h>

#include <algorithm>

namespace vm {
namespace {

constexpr size_t kToolReads = size_t{1} << 20;  // as dd bs=1M does

// A library's handle of an open file.
class Handle {
 public:
  explicit Handle(int fd) {
    hipFileDescr_t description{};
    description.type = hipFileHandleTypeOpaqueFD;
    description.handle.fd = fd;
    if (hipFileHandleRegister(&handle_, &description).err != hipFileSuccess) handle_ = nullptr;
  }
  ~Handle() { hipFileHandleDeregister(handle_); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  hipFileHandle_t get() const { return handle_; }

 private:
  hipFileHandle_t handle_ = nullptr;
};

}  // namespace

posix::Result<std::unique_ptr<LibraryClient>> LibraryClient::make(const std::string& directory,
                                                                  const Memory& memory) {
  if (hipFileError_t e = hipFileBufRegister(memory.address(), memory.size(), 0); e.err != hipFileSuccess)
    return posix::failure(EIO, std::string("hipFileBufRegister (") + HIPFILE_ERRSTR(e.err) + ")");
  return std::unique_ptr<LibraryClient>(new LibraryClient(directory, memory));
}

LibraryClient::~LibraryClient() { (void)hipFileBufDeregister(memory_.address()); }

Done LibraryClient::move(Direction direction, int fd, uint64_t memory_offset, uint64_t file_offset,
                         uint64_t length) {
  Handle handle(fd);
  if (!handle.get()) return {-EBADF, 0, 0};
  const auto file_at = static_cast<hoff_t>(file_offset), memory_at = static_cast<hoff_t>(memory_offset);
  const ssize_t n = direction == Direction::read
                        ? hipFileRead(handle.get(), memory_.address(), length, file_at, memory_at)
                        : hipFileWrite(handle.get(), memory_.address(), length, file_at, memory_at);
  const int error = errno;
  hipFileOutcome_t outcome{};
  (void)hipFileLastOutcome(&outcome);
  return {n == -1 ? -error : n, static_cast<uint32_t>(outcome.route), outcome.reason};
}

Done KernelClient::move(Direction direction, int fd, uint64_t memory_offset, uint64_t file_offset,
                        uint64_t length) {
  auto direct = posix::reopen(fd, (direction == Direction::read ? O_RDONLY : O_WRONLY) | O_DIRECT);
  if (!direct) return {-direct.error().code, 0, 0};
  char* at = memory_.address() + memory_offset;
  const ssize_t n = direction == Direction::read
                        ? pread(direct->get(), at, length, static_cast<off_t>(file_offset))
                        : pwrite(direct->get(), at, length, static_cast<off_t>(file_offset));
  return {n < 0 ? -errno : n, 0, 0};
}

posix::Result<std::unique_ptr<MountClient>> MountClient::make(const std::string& mount,
                                                              const Memory& memory) {
  posix::Fd root(open(mount.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!root) return posix::last_failure("open " + mount);
  auto buffer = memory.register_on(root.get());
  if (!buffer) return tl::unexpected(buffer.error());
  return std::unique_ptr<MountClient>(new MountClient(mount, std::move(root), *buffer, memory));
}

Done MountClient::move(Direction direction, int fd, uint64_t memory_offset, uint64_t file_offset,
                       uint64_t length) {
  hipfile_fuse_io io{};
  io.version = HIPFILE_FUSE_ABI_VERSION;
  io.op = direction == Direction::read ? HIPFILE_FUSE_OP_READ : HIPFILE_FUSE_OP_WRITE;
  io.buffer_id = buffer_;
  io.buffer_offset = memory_offset;
  io.file_offset = file_offset;
  io.length = length;
  if (ioctl(fd, HIPFILE_FUSE_IOC_IO, &io) < 0) return {-errno, 0, 0};
  return {io.result, io.route, io.reason};
}

Done MountClient::read_tagged(int fd, char* out, size_t length) {
  hipfile_fuse_tag tag{};
  tag.version = HIPFILE_FUSE_ABI_VERSION;
  tag.flags = HIPFILE_FUSE_TAG_TEE;
  tag.buffer_id = buffer_;
  tag.length = length;
  if (ioctl(fd, HIPFILE_FUSE_IOC_TAG, &tag) < 0) return {-errno, 0, 0};
  Done done;
  for (size_t at = 0; at < length;) {
    const ssize_t n = read(fd, out + at, std::min(length - at, kToolReads));
    if (n < 0) done.result = -errno;
    if (n <= 0) break;
    at += static_cast<size_t>(n);
    done.result += n;
  }
  hipfile_fuse_untag untag{};
  untag.version = HIPFILE_FUSE_ABI_VERSION;
  if (ioctl(fd, HIPFILE_FUSE_IOC_UNTAG, &untag) < 0) return {-errno, 0, 0};
  done.route = untag.route;
  done.reason = untag.reason;
  return done;
}

}  // namespace vm
