// The C entry points of hipfile_ext.h.
#include "hipfile_ext.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "driver.h"

using namespace api;

static_assert(HIPFILE_EXT_ROUTES == engine::kRoutes);

namespace {

thread_local hipFileOutcome_t last_outcome{};

template <size_t N>
void copy_text(char (&to)[N], const std::string& from) {
  snprintf(to, N, "%s", from.c_str());
}

}  // namespace

namespace api {

void remember_outcome(const engine::Outcome& outcome, ssize_t result, int error) {
  last_outcome = {result, error, static_cast<hipError_t>(static_cast<int>(outcome.hip_error)),
                  static_cast<hipFileRoute_t>(outcome.route), static_cast<uint32_t>(outcome.reason)};
}

}  // namespace api

extern "C" {

hipFileError_t hipFileExplain(hipFileHandle_t fh, const void* buffer_base, size_t size, hoff_t file_offset,
                              hoff_t buffer_offset, hipFileExplanation_t* explanation) {
  return guarded([&] {
    if (!explanation) return failure(hipFileInvalidValue);
    Driver& driver = Driver::instance();
    if (!driver.is_open()) return failure(hipFileDriverNotInitialized);
    auto file = driver.find_file(fh);
    if (!file) return failure(hipFileHandleNotRegistered);
    auto buffer = driver.find_buffer(buffer_base);
    if (!buffer) return buffer.error();
    if (file_offset < 0 || !lies_within((*buffer)->memory, buffer_offset, size))
      return failure(hipFileInvalidValue);
    engine::Verdict verdict = driver.engine()->explain(
        {engine::Direction::read, file->file.get(), (*buffer)->memory, static_cast<uint64_t>(buffer_offset),
         static_cast<uint64_t>(file_offset), size, file->routes});
    const engine::Plan& plan = verdict.plan;
    hipFileExplanation_t out{};
    out.route = static_cast<hipFileRoute_t>(plan.route());
    out.reason = static_cast<uint32_t>(plan.reason);
    for (size_t r = 0; r < engine::kRoutes; r++) out.refused[r] = static_cast<uint32_t>(plan.refused[r]);
    const storage::FileFacts& facts = file->file->facts();
    out.offset_align = facts.offset_align;
    out.memory_align = facts.memory_align;
    for (const auto& segment : plan.segments)
      if (segment.direct) out.direct_bytes += segment.length;
    copy_text(out.file_system, facts.file_system);
    copy_text(out.text, verdict.text());
    *explanation = out;
    return success();
  });
}

hipFileError_t hipFileLastOutcome(hipFileOutcome_t* outcome) {
  if (!outcome) return failure(hipFileInvalidValue);
  *outcome = last_outcome;
  return success();
}

}  // extern "C"
