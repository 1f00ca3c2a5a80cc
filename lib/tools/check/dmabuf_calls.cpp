// The system calls of dmabuf_probe.h. What liburing's headers do not have yet is written out as Linux 7.4 has it.
#include <liburing.h>
#include <linux/udmabuf.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <cerrno>

#include "dmabuf_probe.h"
#include "posix/fd.h"
#include "posix/mapping.h"

namespace check {
namespace {

constexpr uint32_t kUpdateExtended = 1u << 1;                   // IORING_RSRC_UPDATE_EXTENDED
enum class Registration : uint32_t { empty, address, dmabuf };  // enum io_uring_regbuf_type

struct RegistrationDescriptor {  // struct io_uring_regbuf_desc
  Registration type = Registration::empty;
  uint32_t flags = 0;
  uint64_t size = 0, address = 0;
  int32_t dmabuf = 0, target = 0;
  uint64_t reserved[6] = {};
};
static_assert(sizeof(RegistrationDescriptor) == 80);

class SystemCalls : public DmabufCalls {
 public:
  SystemCalls() = default;
  ~SystemCalls() override {
    if (has_ring_) io_uring_queue_exit(&ring_);
  }
  SystemCalls(const SystemCalls&) = delete;
  SystemCalls& operator=(const SystemCalls&) = delete;

  int make_ring() override {
    if (has_ring_) return 0;
    if (int error = io_uring_queue_init(1, &ring_, 0)) return -error;
    has_ring_ = true;
    return -io_uring_register_buffers_sparse(&ring_, 1);
  }

  int register_empty() override { return update({}); }

  int make_memory(size_t bytes) override {
    const posix::Fd device(open("/dev/udmabuf", O_RDWR | O_CLOEXEC));
    if (!device) return errno;
    memfd_ = posix::Fd(memfd_create("hipfile-dmabuf", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!memfd_ || ftruncate(memfd_.get(), static_cast<off_t>(bytes)) < 0 ||
        fcntl(memfd_.get(), F_ADD_SEALS, F_SEAL_SHRINK) < 0)
      return errno;
    udmabuf_create create{static_cast<uint32_t>(memfd_.get()), UDMABUF_FLAGS_CLOEXEC, 0, bytes};
    dmabuf_ = posix::Fd(ioctl(device.get(), UDMABUF_CREATE, &create));
    if (!dmabuf_) return errno;
    auto mapping = posix::Mapping::shared(dmabuf_.get(), bytes);
    if (!mapping) return mapping.error().code;
    mapping_ = std::move(*mapping);
    return 0;
  }

  char* memory() override { return mapping_.data(); }

  int register_memory(int file) override {
    RegistrationDescriptor descriptor;
    descriptor.type = Registration::dmabuf;
    descriptor.dmabuf = dmabuf_.get();
    descriptor.target = file;
    return update(descriptor);
  }

  int read_plainly(int file, char* to, size_t bytes) override {
    const ssize_t n = pread(file, to, bytes, 0);
    return n < 0 ? -errno : static_cast<int>(n);
  }

  // Addresses are offsets in the dma-buf.
  int read_registered(int file, size_t bytes) override {
    io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
    if (!sqe) return -EBUSY;
    io_uring_prep_read_fixed(sqe, file, nullptr, static_cast<unsigned>(bytes), 0, 0);
    if (int n = io_uring_submit(&ring_); n != 1) return n < 0 ? n : -EIO;
    io_uring_cqe* cqe = nullptr;
    if (int error = io_uring_wait_cqe(&ring_, &cqe)) return error;
    const int result = cqe->res;
    io_uring_cqe_seen(&ring_, cqe);
    return result;
  }

 private:
  // Older kernels want zero where the flags are, and say EINVAL.
  int update(const RegistrationDescriptor& descriptor) {
    io_uring_rsrc_update2 update{};
    update.resv = kUpdateExtended;
    update.data = reinterpret_cast<uint64_t>(&descriptor);
    update.nr = 1;
    const long n = syscall(__NR_io_uring_register, ring_.ring_fd, IORING_REGISTER_BUFFERS_UPDATE, &update,
                           sizeof update);
    return n < 0 ? errno : n == 1 ? 0 : EIO;
  }

  io_uring ring_{};
  bool has_ring_ = false;
  posix::Fd memfd_, dmabuf_;
  posix::Mapping mapping_;
};

}  // namespace

std::unique_ptr<DmabufCalls> make_dmabuf_calls() { return std::make_unique<SystemCalls>(); }

}  // namespace check
