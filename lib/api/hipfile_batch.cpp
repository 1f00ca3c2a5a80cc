// The batch C entry points.
#include <algorithm>
#include <cstddef>

#include "batch.h"

using namespace api;

static_assert(sizeof(hipFileIOParams_t) == 64 && offsetof(hipFileIOParams_t, u) == 8 &&
              offsetof(hipFileIOParams_t, fh) == 40 && offsetof(hipFileIOParams_t, opcode) == 48 &&
              offsetof(hipFileIOParams_t, cookie) == 56);
static_assert(sizeof(hipFileIOEvents_t) == 24 && offsetof(hipFileIOEvents_t, status) == 8 &&
              offsetof(hipFileIOEvents_t, ret) == 16);

namespace {

hipFileError_t counted(OpCounter& counter, hipFileError_t result) {
  (result.err == hipFileSuccess ? counter.ok : counter.err)++;
  return result;
}

hipFileError_t submit(hipFileBatchHandle_t handle, unsigned nr, const hipFileIOParams_t* params) {
  if (nr == 0 || !params) return failure(hipFileInvalidValue);
  auto batch = BatchTable::instance().find(handle);
  if (!batch) return failure(hipFileInvalidValue);
  if (!Driver::instance().is_open()) return failure(hipFileDriverNotInitialized);
  if (nr > kMostBatchOperations) return failure(hipFileBatchFull);
  return batch->submit(params, nr);
}

}  // namespace

extern "C" {

hipFileError_t hipFileBatchIOSetUp(hipFileBatchHandle_t* batch_idp, unsigned max_nr) {
  return guarded([&] {
    auto& counter = Driver::instance().stats().page().batch_setup;
    if (!batch_idp || max_nr == 0 || max_nr > kMostBatchOperations)
      return counted(counter, failure(hipFileInvalidValue));
    *batch_idp = BatchTable::instance().add(max_nr);
    return counted(counter, success());
  });
}

hipFileError_t hipFileBatchIOSubmit(hipFileBatchHandle_t batch_idp, unsigned nr, hipFileIOParams_t* iocbp,
                                    unsigned /*flags*/) {
  return guarded([&] {
    auto started = BatchContext::Clock::now();
    auto& page = Driver::instance().stats().page();
    hipFileError_t result = counted(page.batch_submit, submit(batch_idp, nr, iocbp));
    page.batch_submit_microseconds += static_cast<uint64_t>(
        std::chrono::duration_cast<std::chrono::microseconds>(BatchContext::Clock::now() - started).count());
    return result;
  });
}

hipFileError_t hipFileBatchIOGetStatus(hipFileBatchHandle_t batch_idp, unsigned min_nr, unsigned* nr,
                                       hipFileIOEvents_t* iocbp, struct timespec* timeout) {
  return guarded([&] {
    if (!nr || *nr == 0 || !iocbp || min_nr > *nr) return failure(hipFileInvalidValue);
    auto batch = BatchTable::instance().find(batch_idp);
    if (!batch || min_nr > batch->capacity()) return failure(hipFileInvalidValue);
    std::optional<BatchContext::Clock::time_point> deadline;
    if (timeout) {
      if (timeout->tv_sec < 0 || timeout->tv_nsec < 0 || timeout->tv_nsec >= 1'000'000'000)
        return failure(hipFileInvalidValue);
      // A century is as good as forever, and does not overflow the clock.
      auto seconds = std::chrono::seconds(std::min<time_t>(timeout->tv_sec, 3'000'000'000));
      deadline = BatchContext::Clock::now() + seconds + std::chrono::nanoseconds(timeout->tv_nsec);
    }
    *nr = batch->fetch(min_nr, *nr, iocbp, deadline);
    Driver::instance().stats().page().batch_complete.ok += *nr;
    return success();
  });
}

hipFileError_t hipFileBatchIOCancel(hipFileBatchHandle_t batch_idp) {
  return guarded([&] {
    auto& counter = Driver::instance().stats().page().batch_cancel;
    auto batch = BatchTable::instance().find(batch_idp);
    if (!batch) return counted(counter, failure(hipFileInvalidValue));
    batch->cancel();
    return counted(counter, success());
  });
}

void hipFileBatchIODestroy(hipFileBatchHandle_t batch_idp) try {
  if (!Driver::usable()) return;
  auto batch = BatchTable::instance().remove(batch_idp);
  if (!batch) return;
  batch->finish();
  Driver::instance().stats().page().batch_destroy.ok++;
} catch (...) {  // nothing is left to free
}

}  // extern "C"
