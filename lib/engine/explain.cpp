// What the engine would do, and why: for people, by the same decision as for requests.
#include "engine/engine.h"

namespace engine {
namespace {

constexpr uint64_t kWellAligned = uint64_t{1} << 21;  // as hipMalloc aligns

}  // namespace

Policy Engine::policy() const {
  return {config_.peer_on_any_file_system, !runtime_ || runtime_->kind() != gpu::RuntimeKind::software};
}

const gpu::DeviceFacts* Engine::device_facts(int device) const {
  if (!runtime_ || runtime_->kind() != gpu::RuntimeKind::amd || device < 0) return nullptr;
  std::call_once(devices_once_, [this] {
    const auto all = gpu::read_devices(mounts_.tree());
    for (int i = 0; i < runtime_->device_count(); i++)
      devices_.push_back(gpu::device_facts(*runtime_, i, all));
  });
  if (static_cast<size_t>(device) >= devices_.size() || !devices_[static_cast<size_t>(device)])
    return nullptr;
  return &*devices_[static_cast<size_t>(device)];
}

Verdict Engine::judge_now(const Situation& situation, const storage::FileFacts& file, int device) {
  const gpu::DeviceFacts* facts = device_facts(device);
  std::vector<DiskPath> paths;
  if (facts && file.volume) paths = disk_paths(mounts_.tree(), *file.volume, *facts);
  return judge(situation, file, facts, paths, policy());
}

Verdict Engine::explain(const Request& request) {
  storage::FileFacts file = request.file->facts();
  // Disks may have come and gone since the file was opened.
  if (auto now = storage::examine(request.file->own(), mounts_)) file.volume = now->volume;
  Situation s = situation(request, 0, {});
  s.file_objection = refuse_file(file, policy());
  return judge_now(s, file, request.memory.device);
}

Verdict Engine::explain(const storage::FileFacts& file, uint64_t length, int device) {
  Situation s;
  s.length = length;
  s.address = kWellAligned;
  const gpu::DeviceFacts* facts = device_facts(device);
  s.memory_is_pages = runtime_ && (runtime_->device_memory_is_pages() || (facts && facts->integrated));
  s.file = file.kind;
  s.file_objection = refuse_file(file, policy());
  if (facts) s.device_objection = refuse_device(*facts);
  s.offset_align = file.offset_align;
  s.memory_align = file.memory_align;
  s.runtime_has_ais = runtime_ && runtime_->has_ais();
  s.allowed = config_.routes;
  if (!runtime_) s.allowed.remove(Route::staged);
  const Failures failures = failures_of(file, device);
  s.peer_failed_before = failures.peer;
  s.direct_failed_before = failures.direct;
  return judge_now(s, file, device);
}

}  // namespace engine
