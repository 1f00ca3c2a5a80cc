// Device memory and events of another process, by IPC handle.
#include <map>
#include <mutex>

#include "ipc_offset.h"
#include "runtime.h"

using cuda::call;

namespace {

constexpr unsigned kOpenFlags = cuda::kMajor == 5 ? 0 : 1;  // hipIpcMemLazyEnablePeerAccess

// Pointers into the middle of what the driver opened, which it closes by its start.
class InteriorPointers {
 public:
  void add(void* pointer, void* base) {
    std::lock_guard lock(mutex_);
    auto& entry = entries_[pointer];
    entry.base = base;
    entry.count++;
  }
  /// The pointer that the driver knows.
  void* take(void* pointer) {
    std::lock_guard lock(mutex_);
    auto it = entries_.find(pointer);
    if (it == entries_.end()) return pointer;
    void* base = it->second.base;
    if (--it->second.count == 0) entries_.erase(it);
    return base;
  }

 private:
  struct Entry {
    void* base = nullptr;
    int count = 0;
  };
  std::mutex mutex_;
  std::map<void*, Entry> entries_;
};

// Never destroyed: memory may be closed after static destructors have run.
InteriorPointers& interior() {
  static auto* instance = new InteriorPointers;
  return *instance;
}

hip::Error get_handle(hip::IpcMemHandle* out, void* p) {
  if (!out || !p) return hip::kErrorInvalidValue;
  void* base = nullptr;
  size_t size = 0;
  if (hip::Error error = call().cuMemGetAddressRange(&base, &size, p); error != hip::kSuccess) return error;
  hip::IpcMemHandle handle{};
  if (hip::Error error = call().cuIpcGetMemHandle(&handle, base); error != hip::kSuccess) return error;
  if (!cuda::put_ipc_offset(handle, static_cast<uint64_t>(static_cast<char*>(p) - static_cast<char*>(base))))
    return hip::kErrorInvalidValue;
  *out = handle;
  return hip::kSuccess;
}

hip::Error open_handle(void** out, hip::IpcMemHandle handle, unsigned flags) {
  if (!out || flags != kOpenFlags) return hip::kErrorInvalidValue;
  const uint64_t offset = cuda::take_ipc_offset(handle);
  void* base = nullptr;
  if (hip::Error error = call().cuIpcOpenMemHandle(&base, handle, cuda::kIpcLazyPeerAccess);
      error != hip::kSuccess)
    return error;
  *out = static_cast<char*>(base) + offset;
  if (offset) interior().add(*out, base);
  return hip::kSuccess;
}

}  // namespace

HIP_EXPORT hip::Error hipIpcGetMemHandle(hip::IpcMemHandle* handle, void* p) {
  HIP_ENTER();
  HIP_RETURN(get_handle(handle, p));
}
/// Opened again, a handle gives the same pointer, and wants to be closed as often. In the process that exported it:
/// hipErrorInvalidContext.
HIP_EXPORT hip::Error hipIpcOpenMemHandle(void** out, hip::IpcMemHandle handle, unsigned flags) {
  HIP_ENTER();
  HIP_RETURN(open_handle(out, handle, flags));
}
HIP_EXPORT hip::Error hipIpcCloseMemHandle(void* p) {
  HIP_ENTER();
  HIP_RETURN(p ? call().cuIpcCloseMemHandle(interior().take(p)) : hip::kErrorInvalidValue);
}
HIP_EXPORT hip::Error hipIpcGetEventHandle(hip::IpcMemHandle* handle, hip::Event event) {
  HIP_ENTER();
  if (!handle || !event) HIP_RETURN(hip::kErrorInvalidValue);
  HIP_RETURN(cuda::call_if(call().cuIpcGetEventHandle, handle, event));
}
HIP_EXPORT hip::Error hipIpcOpenEventHandle(hip::Event* event, hip::IpcMemHandle handle) {
  HIP_ENTER();
  if (!event) HIP_RETURN(hip::kErrorInvalidValue);
  HIP_RETURN(cuda::call_if(call().cuIpcOpenEventHandle, event, handle));
}
