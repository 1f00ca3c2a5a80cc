// Copies of memory to the host, whatever it is.
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "engine/engine.h"

namespace engine {
namespace {

// By system calls: the memory's owner may have shrunk it, which would turn a load into a bus error. write(2)
// reads mappings that process_vm_readv cannot pin (PCI memory), and is allowed where that is not.
int copy_pages(const char* from, char* out, size_t length) {
  iovec to{out, length}, source{const_cast<char*>(from), length};
  if (process_vm_readv(getpid(), &to, 1, &source, 1, 0) == static_cast<ssize_t>(length)) return 0;
  posix::Fd between(memfd_create("hipfile-fetch", MFD_CLOEXEC));
  if (!between) return errno;
  for (size_t done = 0; done < length;) {
    ssize_t n = pwrite(between.get(), from + done, length - done, static_cast<off_t>(done));
    if (n <= 0) return n < 0 ? errno : EFAULT;
    done += static_cast<size_t>(n);
  }
  for (size_t done = 0; done < length;) {
    ssize_t n = pread(between.get(), out + done, length - done, static_cast<off_t>(done));
    if (n <= 0) return n < 0 ? errno : EIO;
    done += static_cast<size_t>(n);
  }
  return 0;
}

}  // namespace

int Engine::fetch(const gpu::Memory& memory, uint64_t offset, char* out, size_t length) {
  if (memory.pages) {
    int error = copy_pages(memory.address + offset, out, length);
    if (error == 0 || !gpu::copies_to(memory.kind)) return error;
  }
  return fetch_from_device(memory, offset, out, length);
}

int Engine::fetch_from_device(const gpu::Memory& memory, uint64_t offset, char* out, size_t length) {
  if (!runtime_) return ENODEV;
  gpu::DeviceGuard guard(*runtime_, memory.device);
  if (guard.status() != hip::kSuccess) return ENODEV;
  auto slot = pool_->acquire();
  if (!slot) return ENOMEM;
  std::unique_ptr<Lane> lane = lanes_.borrow();
  auto stream = lane->stream(memory.device);
  hip::Error error = stream ? hip::kSuccess : stream.error();
  for (size_t done = 0; done < length && error == hip::kSuccess;) {
    size_t part = std::min(length - done, slot->size());
    error = runtime_->hip().hipMemcpyAsync(slot->data(), memory.address + offset + done, part,
                                           hip::kMemcpyDeviceToHost, (*stream)->handle());
    hip::Error synchronized = runtime_->hip().hipStreamSynchronize((*stream)->handle());
    if (synchronized != hip::kSuccess) {
      slot->abandon();
      return EIO;
    }
    if (error == hip::kSuccess) memcpy(out + done, slot->data(), part);
    done += part;
  }
  lanes_.give_back(std::move(lane));
  return error == hip::kSuccess ? 0 : EIO;
}

}  // namespace engine
