#include "memory.h"

#include <dlfcn.h>

#include <filesystem>
#include <fstream>

namespace vm {
namespace {

// Not in the engine's table of HIP calls, which registers no memory of others.
template <typename Function>
Function* entry(void* library, const char* name) {
  return reinterpret_cast<Function*>(dlsym(library, name));
}

}  // namespace

posix::Result<size_t> device_memory_left(const std::string& allocate) {
  const std::string path = std::filesystem::path(allocate).replace_filename("available");
  size_t left = 0;
  if (!(std::ifstream(path) >> left)) return posix::failure(EIO, "read " + path);
  return left;
}

posix::Result<Memory> Memory::of_runtime(std::shared_ptr<const gpu::Runtime> runtime, size_t size) {
  auto allocation = tools::TargetMemory::on_device(std::move(runtime), 0, size);
  if (!allocation) return tl::unexpected(allocation.error());
  Memory m;
  m.address_ = static_cast<char*>(allocation->address());
  m.size_ = size;
  m.allocation_.emplace(std::move(*allocation));
  return m;
}

posix::Result<Memory> Memory::of_device(const std::shared_ptr<const gpu::Runtime>& runtime,
                                        const std::string& allocate, size_t size) {
  Memory m;
  m.allocate_ = posix::Fd(open(allocate.c_str(), O_RDWR | O_CLOEXEC));
  if (!m.allocate_) return posix::last_failure("open " + allocate);
  auto mapping = posix::Mapping::shared(m.allocate_.get(), size);
  if (!mapping) return tl::unexpected(mapping.error());
  m.mapping_ = std::move(*mapping);
  m.address_ = m.mapping_.data();
  m.size_ = size;
  m.library_ = {dlopen(runtime->path().c_str(), RTLD_NOW), [](void* l) { return l ? dlclose(l) : 0; }};
  auto* add =
      m.library_ ? entry<hip::Error(void*, size_t, unsigned)>(m.library_.get(), "hipHostRegister") : nullptr;
  if (!add || add(m.address_, size, 0) != hip::kSuccess)
    return posix::failure(ENODEV, "hipHostRegister of " + allocate + " with " + runtime->path());
  return m;
}

Memory::~Memory() {
  if (!mapping_.data() || !library_) return;
  if (auto* remove = entry<hip::Error(void*)>(library_.get(), "hipHostUnregister")) remove(address_);
}

posix::Result<uint64_t> Memory::register_on(int mount_fd) const {
  if (allocation_) return tools::register_memory(mount_fd, *allocation_, HIPFILE_FUSE_REGISTER_PROCESS);
  auto target = tools::TargetMemory::from_descriptor(allocate_.get(), size_);
  if (!target) return tl::unexpected(target.error());
  return tools::register_memory(mount_fd, *target, HIPFILE_FUSE_REGISTER_PROCESS);
}

}  // namespace vm
