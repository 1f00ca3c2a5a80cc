// The C entry points: arguments in the order in which AMD's library checks them, then the driver or the
// engine.
#include "hipfile.h"

#include <algorithm>
#include <cstddef>

#include "driver.h"

using api::Driver;
using api::failure;
using api::success;

static_assert(sizeof(hipFileError_t) == 8);
static_assert(sizeof(hipFileDescr_t) == 24 && offsetof(hipFileDescr_t, handle) == 8 &&
              offsetof(hipFileDescr_t, fs_ops) == 16);
static_assert(sizeof(hipFileRDMAInfo_t) == 16 && sizeof(hipFileFSOps_t) == 40);

namespace {

// MAX_RW_COUNT: what one read(2) or write(2) moves at most.
constexpr size_t kMostBytes = 0x7ffff000;

// Nothing may be thrown across the C ABI.
template <typename F>
hipFileError_t guarded(F f) noexcept try {
  return f();
} catch (const std::bad_alloc&) {
  return {hipFileHipDriverError, static_cast<hipError_t>(hip::kErrorOutOfMemory)};
} catch (...) {
  return failure(hipFileInternalError);
}

ssize_t with_errno(int error) {
  errno = error;
  return -1;
}

ssize_t transfer(engine::Direction direction, hipFileHandle_t fh, const void* base, size_t size,
                 hoff_t file_offset, hoff_t buffer_offset) {
  Driver& driver = Driver::instance();
  if (!driver.is_open()) return with_errno(EINVAL);
  auto file = driver.find_file(fh);
  if (!file) return -hipFileHandleNotRegistered;
  auto buffer = driver.find_buffer(base);
  if (!buffer) return -buffer.error().err;
  if (file_offset < 0 || buffer_offset < 0) return with_errno(EINVAL);
  const gpu::Memory& memory = (*buffer)->memory;
  const auto start = static_cast<uint64_t>(buffer_offset);
  if (start >= memory.length || size > memory.length - start) return -hipFileInvalidValue;
  uint64_t length = std::min(size, kMostBytes);
  length = std::min(length, static_cast<uint64_t>(INT64_MAX) - static_cast<uint64_t>(file_offset));
  engine::Outcome outcome = driver.engine().run(
      {direction, file->file.get(), memory, start, static_cast<uint64_t>(file_offset), length},
      engine::CancelToken());
  if (outcome.bytes > 0 || outcome.error == 0) return static_cast<ssize_t>(outcome.bytes);
  if (outcome.hip_error != hip::kSuccess && outcome.route != engine::Route::peer)
    return -hipFileHipDriverError;
  if (outcome.error == EOPNOTSUPP && outcome.route == engine::Route::none) return -hipFileInternalError;
  return with_errno(outcome.error);
}

}  // namespace

extern "C" {

hipFileError_t hipFileDriverOpen(void) {
  return guarded([] {
    Driver::instance().open();
    return success();
  });
}

hipFileError_t hipFileDriverClose(void) {
  return guarded([] { return Driver::instance().close(); });
}

int64_t hipFileUseCount(void) { return Driver::instance().use_count(); }

hipFileError_t hipFileGetVersion(unsigned* major, unsigned* minor, unsigned* patch) {
  if (major) *major = HIPFILE_VERSION_MAJOR;
  if (minor) *minor = HIPFILE_VERSION_MINOR;
  if (patch) *patch = HIPFILE_VERSION_PATCH;
  return success();
}

hipFileError_t hipFileHandleRegister(hipFileHandle_t* fh, hipFileDescr_t* descr) {
  return guarded([&] {
    if (!fh || !descr) return failure(hipFileInvalidValue);
    Driver& driver = Driver::instance();
    driver.open_implicitly();
    if (descr->type != hipFileHandleTypeOpaqueFD) return failure(hipFileIONotSupported);
    return driver.register_file(descr->handle.fd, *fh);
  });
}

void hipFileHandleDeregister(hipFileHandle_t fh) { Driver::instance().deregister_file(fh); }

hipFileError_t hipFileBufRegister(const void* buffer_base, size_t length, int /*flags*/) {
  return guarded([&] {
    Driver& driver = Driver::instance();
    driver.open_implicitly();
    return driver.register_buffer(buffer_base, length);
  });
}

hipFileError_t hipFileBufDeregister(const void* buffer_base) {
  return guarded([&] { return Driver::instance().deregister_buffer(buffer_base); });
}

ssize_t hipFileRead(hipFileHandle_t fh, void* buffer_base, size_t size, hoff_t file_offset,
                    hoff_t buffer_offset) try {
  return transfer(engine::Direction::read, fh, buffer_base, size, file_offset, buffer_offset);
} catch (...) {
  return -hipFileInternalError;
}

ssize_t hipFileWrite(hipFileHandle_t fh, const void* buffer_base, size_t size, hoff_t file_offset,
                     hoff_t buffer_offset) try {
  return transfer(engine::Direction::write, fh, buffer_base, size, file_offset, buffer_offset);
} catch (...) {
  return -hipFileInternalError;
}

}  // extern "C"
