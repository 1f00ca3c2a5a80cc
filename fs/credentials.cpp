#include "credentials.h"

#include <linux/capability.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace fs {
namespace {

constexpr uid_t kNobody = 65534;
const uid_t own_uid = geteuid();
const gid_t own_gid = getegid();

thread_local bool is_self = true;

void set_ids(uid_t uid, gid_t gid) {
  syscall(SYS_setfsgid, gid);
  syscall(SYS_setfsuid, uid);
}

constexpr uint64_t bit(int capability) { return 1ull << capability; }

struct Capabilities {
  __user_cap_data_struct data[2] = {};
  Capabilities() {
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    syscall(SYS_capget, &header, data);
  }
};
const Capabilities own;  // nothing here changes what is permitted

// Effective = permitted & mask. Leaving fsuid 0 drops file capabilities from the effective set; this restores
// them.
void keep_capabilities(uint64_t mask) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {own.data[0], own.data[1]};
  data[0].effective = data[0].permitted & static_cast<uint32_t>(mask);
  data[1].effective = data[1].permitted & static_cast<uint32_t>(mask >> 32);
  syscall(SYS_capset, &header, data);
}

void become(uid_t uid, gid_t gid, uint64_t capabilities) {
  is_self = false;
  set_ids(uid, gid);
  keep_capabilities(capabilities);
}

void back_to_self() {
  if (is_self) return;
  become(own_uid, own_gid, ~0ull);
  is_self = true;
}

bool privileged() { return own_uid == 0; }

// Of this thread, which only AsCreator makes files on. The next caller's is the same most of the time.
void set_umask(mode_t mask) {
  thread_local mode_t current = 0;
  if (mask != current) umask(current = mask);
}

}  // namespace

void prepare_thread() {
  thread_local bool prepared = false;
  if (prepared) return;
  prepared = true;
  unshare(CLONE_FS);
  umask(0);
}

AsCreator::AsCreator(const Caller& caller, bool with_umask)
    : switched_(privileged() && (caller.uid != 0 || caller.gid != 0)) {
  // Quota and reserved blocks are the caller's.
  if (switched_) become(caller.uid, caller.gid, ~bit(CAP_SYS_RESOURCE));
  if (with_umask) set_umask(caller.umask);
}
AsCreator::~AsCreator() {
  if (switched_) back_to_self();
}

AsWriter::AsWriter(const Caller& caller) : switched_(privileged() && caller.uid != 0) {
  if (!switched_) return;
  become(caller.uid, caller.gid, ~(bit(CAP_FSETID) | bit(CAP_SYS_RESOURCE)));
}
AsWriter::~AsWriter() {
  if (switched_) back_to_self();
}

AsNobody::AsNobody() {
  if (privileged()) become(kNobody, kNobody, bit(CAP_SYS_ADMIN));
}
AsNobody::~AsNobody() {
  if (privileged()) back_to_self();
}

}  // namespace fs
