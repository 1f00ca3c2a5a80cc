#include "session.h"

#include <filesystem>

namespace bench {

posix::Result<DeviceMemory*> Session::memory(size_t size) {
  if (memory_ && memory_->size() >= size) return &*memory_;
  registrations_.clear();
  memory_.reset();
  auto made = DeviceMemory::make(runtime_, device_, size);
  if (!made) return tl::unexpected(made.error());
  return &memory_.emplace(std::move(*made));
}

posix::Result<const MountRegistration*> Session::registration(const std::string& path) {
  const std::string directory = std::filesystem::path(path).parent_path();
  if (auto known = registrations_.find(directory); known != registrations_.end()) return &known->second;
  posix::Fd fd(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return posix::last_failure("open " + directory);
  auto info = tools::mount_info(fd.get());
  if (!info) return tl::unexpected(info.error());
  if (!memory_) return posix::failure(EINVAL, "no device memory to register");
  auto id = tools::register_memory(fd.get(), memory_->target(), HIPFILE_FUSE_REGISTER_PROCESS);
  if (!id) return tl::unexpected(id.error());
  auto [made, added] = registrations_.try_emplace(
      directory, MountRegistration{std::move(fd), *id, static_cast<pid_t>(info->daemon_pid)});
  return &made->second;
}

}  // namespace bench
