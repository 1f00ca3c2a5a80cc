// The synchronous C entry points: arguments in the order in which AMD's library checks them, then the driver.
#include "hipfile.h"

#include <cstddef>

#include "driver.h"

using api::Driver;
using api::failure;
using api::guarded;
using api::success;

static_assert(sizeof(hipFileError_t) == 8);
static_assert(-hipFileInvalidValue < 0);  // what hipFileRead returns
static_assert(sizeof(hipFileDescr_t) == 24 && offsetof(hipFileDescr_t, handle) == 8 &&
              offsetof(hipFileDescr_t, fs_ops) == 16);
static_assert(sizeof(hipFileRDMAInfo_t) == 16 && sizeof(hipFileFSOps_t) == 40);

namespace {

ssize_t with_errno(int error) {
  errno = error;
  return -1;
}

ssize_t transfer(engine::Direction direction, hipFileHandle_t fh, const void* base, size_t size,
                 hoff_t file_offset, hoff_t buffer_offset) {
  if (!Driver::usable()) return -hipFileDriverError;
  Driver& driver = Driver::instance();
  if (!driver.is_open()) return with_errno(EINVAL);
  auto file = driver.find_file(fh);
  if (!file) return -hipFileHandleNotRegistered;
  auto buffer = driver.find_buffer(base);
  if (!buffer) return -buffer.error().err;
  if (file_offset < 0 || buffer_offset < 0) return with_errno(EINVAL);
  if (!api::lies_within((*buffer)->memory, buffer_offset, size)) return -hipFileInvalidValue;
  int error = 0;
  engine::Outcome outcome =
      driver.run({direction, std::move(file), std::move(*buffer), size, static_cast<uint64_t>(file_offset),
                  static_cast<uint64_t>(buffer_offset)},
                 engine::CancelToken());
  ssize_t result = api::result_of(outcome, error);
  api::remember_outcome(outcome, result, error);
  if (error) errno = error;
  return result;
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

int64_t hipFileUseCount(void) try { return Driver::instance().use_count(); } catch (...) {
  return -1;
}

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
    hipFileError_t result = driver.register_file(descr->handle.fd, *fh);
    auto& counter = driver.stats().page().file_register;
    (result.err == hipFileSuccess ? counter.ok : counter.err)++;
    return result;
  });
}

void hipFileHandleDeregister(hipFileHandle_t fh) try {
  if (!Driver::usable()) return;
  Driver::instance().deregister_file(fh);
} catch (...) {  // a handle that cannot be forgotten stays
}

hipFileError_t hipFileBufRegister(const void* buffer_base, size_t length, int /*flags*/) {
  return guarded([&] {
    Driver& driver = Driver::instance();
    driver.open_implicitly();
    hipFileError_t result = driver.register_buffer(buffer_base, length);
    auto& counter = driver.stats().page().buffer_register;
    (result.err == hipFileSuccess ? counter.ok : counter.err)++;
    return result;
  });
}

hipFileError_t hipFileBufDeregister(const void* buffer_base) {
  return guarded([&] {
    Driver& driver = Driver::instance();
    hipFileError_t result = driver.deregister_buffer(buffer_base);
    auto& counter = driver.stats().page().buffer_deregister;
    (result.err == hipFileSuccess ? counter.ok : counter.err)++;
    return result;
  });
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
