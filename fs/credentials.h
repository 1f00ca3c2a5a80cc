// Whose rights a thread uses for a moment. All of it is per thread: raw system calls, because glibc's
// wrappers would change the whole process.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace fs {

/// Once per thread before it serves requests: gives it a umask of its own, 0.
void prepare_thread();

/// Rights of one caller, as the kernel sent them with a request.
struct Caller {
  uid_t uid = 0;
  gid_t gid = 0;
  mode_t umask = 0;
};

/// For creating: new files belong to the caller, and the file system underneath applies the caller's umask or
/// the default ACL. Capabilities stay: the kernel has already checked that the caller may. The thread, a prepared one,
/// keeps the umask until the next time.
class AsCreator {
 public:
  AsCreator(const Caller& caller, bool with_umask);
  ~AsCreator();
  AsCreator(const AsCreator&) = delete;
  AsCreator& operator=(const AsCreator&) = delete;

 private:
  bool switched_;
};

/// For changing data: quota, reserved blocks and the clearing of set-id bits are the caller's, not root's.
class AsWriter {
 public:
  explicit AsWriter(const Caller& caller);
  ~AsWriter();
  AsWriter(const AsWriter&) = delete;
  AsWriter& operator=(const AsWriter&) = delete;

 private:
  bool switched_;
};

/// For registering a file for passthrough: the kernel does all later I/O on it with these rights, so they are
/// as few as it accepts. The thread has its own afterwards, also where it was somebody else before.
class AsNobody {
 public:
  AsNobody();
  ~AsNobody();
  AsNobody(const AsNobody&) = delete;
  AsNobody& operator=(const AsNobody&) = delete;
};

}  // namespace fs
