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
  std::call_once(device_facts_once_, [this] {
    const auto all = gpu::read_devices(mounts_.tree());
    for (int i = 0; i < devices_; i++) device_facts_.push_back(gpu::device_facts(*runtime_, i, all));
  });
  const auto index = static_cast<size_t>(device);
  return index < device_facts_.size() && device_facts_[index] ? &*device_facts_[index] : nullptr;
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
  return judge_now(situation(request, file), file, request.memory.device);
}

Verdict Engine::explain(const storage::FileFacts& file, uint64_t length, int device) {
  Situation s = standing(file, {.device = device});
  s.length = length;
  s.address = kWellAligned;
  const gpu::DeviceFacts* facts = device_facts(device);
  s.memory_is_pages = runtime_ && (runtime_->device_memory_is_pages() || (facts && facts->integrated));
  return judge_now(s, file, device);
}

}  // namespace engine
