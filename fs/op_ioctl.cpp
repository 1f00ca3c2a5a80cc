// ioctl: the mount's own commands, and the inode flags of the file system underneath.
#include <linux/fs.h>
#include <sys/ioctl.h>

#include <cstring>

#include "filesystem.h"
#include "gpu_ioctl.h"

namespace fs {
namespace {

int descriptor_of(Description& description) {
  if (auto* file = dynamic_cast<OpenFile*>(&description)) return file->descriptor();
  return static_cast<OpenDirectory&>(description).descriptor();
}

// Commands whose argument is one flat structure of at most this size.
constexpr size_t kLargestFlagArgument = sizeof(fsxattr);

bool reads_flags(unsigned command) {
  return command == static_cast<unsigned>(FS_IOC_GETFLAGS) ||
         command == static_cast<unsigned>(FS_IOC_FSGETXATTR) ||
         command == static_cast<unsigned>(FS_IOC_GETVERSION);
}
bool writes_flags(unsigned command) {
  return command == static_cast<unsigned>(FS_IOC_SETFLAGS) ||
         command == static_cast<unsigned>(FS_IOC_FSSETXATTR);
}

void op_ioctl(fuse_req_t request, fuse_ino_t id, unsigned command, void*, fuse_file_info* fi, unsigned,
              const void* in, size_t in_size, size_t out_size) {
  Filesystem& fs = filesystem_of(request);
  std::shared_ptr<Description> description = description_of(fi);
  if (is_gpu_command(command))
    return serve_gpu_ioctl(request, fs, std::move(description), command, in, in_size);

  char argument[kLargestFlagArgument] = {};
  if (reads_flags(command) && out_size <= sizeof argument) {
    int status = ioctl(descriptor_of(*description), command, argument);
    if (status < 0) return void(fuse_reply_err(request, errno));
    return void(fuse_reply_ioctl(request, status, argument, out_size));
  }
  if (writes_flags(command) && in_size <= sizeof argument) {
    memcpy(argument, in, in_size);
    int status = ioctl(descriptor_of(*description), command, argument);
    if (status < 0) return void(fuse_reply_err(request, errno));
    fs.session().invalidate(id, 0, 0);
    return void(fuse_reply_ioctl(request, status, nullptr, 0));
  }
  fuse_reply_err(request, ENOTTY);
}

}  // namespace

void add_ioctl_operation(fuse_lowlevel_ops& ops) {
  // libfuse changed the command's type between API versions; the kernel's is 32 bits.
  ops.ioctl = [](fuse_req_t request, fuse_ino_t id, unsigned command, void* argument, fuse_file_info* fi,
                 unsigned flags, const void* in, size_t in_size, size_t out_size) {
    guard<op_ioctl>(request, id, command, argument, fi, flags, in, in_size, out_size);
  };
}

}  // namespace fs
