// hipAmdFileRead/hipAmdFileWrite (KFD AIS), reached through hipGetProcAddress only, as in the real runtime;
// and the software runtime's own extensions.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "runtime.h"

using software::runtime;

namespace {

// AIS takes block-backed file systems only; these have no block device of their own.
bool refused_file_system(int fd) {
  constexpr long kFuse = 0x65735546, kOverlay = 0x794c7630, kTmpfs = 0x01021994, kBtrfs = 0x9123683e;
  struct statfs fs;
  if (fstatfs(fd, &fs) < 0) return true;
  return fs.f_type == kFuse || fs.f_type == kOverlay || fs.f_type == kTmpfs || fs.f_type == kBtrfs;
}

// As the kernel's: synchronous, on the current device's memory, `status` a negative errno, short at end of
// file.
hip::Error transfer(bool read, int fd, void* device_pointer, uint64_t size, int64_t file_offset,
                    uint64_t* copied, int32_t* status) {
  if (!device_pointer || !copied || !status) return hip::kErrorInvalidValue;
  *copied = 0;
  *status = 0;
  auto fail = [&](int error) {
    *status = -error;
    errno = error;
    return hip::kErrorUnknown;
  };
  auto a = runtime().memory.find(device_pointer);
  if (!a || a->device != software::current_device() || a->kind != software::Kind::device)
    return hip::kErrorInvalidDevice;
  char* memory = static_cast<char*>(runtime().memory.access(device_pointer, size));
  if (!memory) return fail(EINVAL);
  if (refused_file_system(fd)) return fail(ENODEV);
  int flags = fcntl(fd, F_GETFL);
  if (flags < 0) return fail(EBADF);
  if (flags & O_DIRECT &&
      (static_cast<uint64_t>(file_offset) | size | reinterpret_cast<uintptr_t>(device_pointer)) % 512)
    return fail(EINVAL);
  while (*copied < size) {
    auto at = file_offset + static_cast<int64_t>(*copied);
    ssize_t n = read ? pread(fd, memory + *copied, size - *copied, at)
                     : pwrite(fd, memory + *copied, size - *copied, at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return *copied ? hip::kSuccess : fail(errno);
    if (n == 0) break;
    *copied += static_cast<uint64_t>(n);
  }
  return hip::kSuccess;
}

extern "C" hip::Error software_file_read(hip::AmdFileHandle file, void* p, uint64_t size, int64_t offset,
                                         uint64_t* copied, int32_t* status) {
  HIP_ENTER("hipAmdFileRead");
  HIP_RETURN(transfer(true, file.fd, p, size, offset, copied, status));
}
extern "C" hip::Error software_file_write(hip::AmdFileHandle file, void* p, uint64_t size, int64_t offset,
                                          uint64_t* copied, int32_t* status) {
  HIP_ENTER("hipAmdFileWrite");
  HIP_RETURN(transfer(false, file.fd, p, size, offset, copied, status));
}

}  // namespace

HIP_EXPORT hip::Error hipGetProcAddress(const char* symbol, void** out, int, uint64_t, int* status) {
  HIP_ENTER("hipGetProcAddress");
  if (!symbol || !out) HIP_RETURN(hip::kErrorInvalidValue);
  *out = nullptr;
  if (runtime().knobs.ais && !strcmp(symbol, "hipAmdFileRead"))
    *out = reinterpret_cast<void*>(software_file_read);
  else if (runtime().knobs.ais && !strcmp(symbol, "hipAmdFileWrite"))
    *out = reinterpret_cast<void*>(software_file_write);
  else {
    Dl_info self;
    if (dladdr(reinterpret_cast<void*>(hipGetProcAddress), &self))
      if (void* library = dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD)) {
        *out = dlsym(library, symbol);
        dlclose(library);
      }
  }
  if (status) *status = *out ? 0 : 1;  // hipDriverProcAddressQueryResult: success, symbol not found
  HIP_RETURN(*out ? hip::kSuccess : hip::kErrorInvalidValue);
}

/// Extension: that this is the software runtime. Bit 0: device memory is accessible to the CPU (not strict).
HIP_EXPORT unsigned hipSoftwareProperties() { return runtime().knobs.strict ? 0 : 1; }

/// Extension, for tests: replaces the plan of HIP_SOFTWARE_FAIL. hipErrorInvalidValue if `spec` is malformed.
HIP_EXPORT hip::Error hipSoftwarePlanFaults(const char* spec) {
  return runtime().faults.plan(spec ? spec : "") ? hip::kSuccess : hip::kErrorInvalidValue;
}
