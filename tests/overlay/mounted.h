// A directory on a file system of its own, and hipfile-fuse over it, for the length of a test.
#pragma once

#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gpu/hip.h"
#include "hipfile_fuse.h"
#include "posix/fd.h"

namespace overlay {

/// A file system of the kind that HIPFILE_TEST_FS names, on a loop device, made once per test program.
class Volume {
 public:
  static Volume& instance();
  ~Volume();
  /// Empty if the volume could not be made; `problem` says why.
  const std::string& path() const { return path_; }
  const std::string& problem() const { return problem_; }

 private:
  Volume();
  std::string path_, image_, problem_;
};

class Mounted : public testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  /// Starts the daemon in the foreground with these -o options and waits until the mount is there.
  void mount(const std::string& options = "");
  /// Ends the daemon by SIGTERM and waits for it; its exit status.
  int unmount();

  std::string source(const std::string& name) const { return source_ + "/" + name; }
  std::string mounted(const std::string& name) const { return mount_ + "/" + name; }
  std::string log() const;
  /// Exit status and what the command printed on both outputs.
  static std::pair<int, std::string> shell(const std::string& command);
  /// Whether a process can have mounts of its own here; in some chroots and containers it cannot.
  static bool has_mount_namespaces() { return shell("unshare -m true").first == 0; }
  /// A program of the build.
  static std::string program(const std::string& name);
  pid_t daemon() const { return daemon_; }

  /// Makes a file under the mount.
  void make_file(const std::string& name, const std::vector<char>& bytes);
  std::vector<char> file_bytes(const std::string& name) const;
  static std::vector<char> pattern(size_t size, unsigned seed = 1);

  /// Runs f in a child and gives its exit status, 128 + signal if one ended it. The child must not use gtest.
  static int in_child(const std::function<int()>& f);

  std::string source_, mount_, directory_;

 private:
  pid_t daemon_ = -1;
};

/// A set of mount options as part of a test's name.
std::string name_of_options(const testing::TestParamInfo<const char*>& info);

// ------------------------------------------------------------------------------------- the ABI, as a client
// has it

/// Memory of this process that can be registered by descriptor.
class SharedMemory {
 public:
  explicit SharedMemory(size_t size);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  int fd() const { return fd_.get(); }
  char* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  posix::Fd fd_;
  char* data_;
  size_t size_;
};

hipfile_fuse_register registration_by_fd(int fd, uint64_t length);
/// 0, or the errno of the ioctl.
int try_register(int fd, hipfile_fuse_register& registration);
uint64_t register_fd(int fd, const SharedMemory& memory, uint32_t flags = 0);
int unregister(int fd, uint64_t id);
hipfile_fuse_io make_io(uint32_t op, uint64_t buffer, uint64_t buffer_offset, uint64_t file_offset,
                        uint64_t length);
/// The ioctl's errno, or 0 with `io.result` set.
int try_io(int fd, hipfile_fuse_io& io);
/// Bytes moved, or -errno of whatever failed.
int64_t read_io(int fd, uint64_t buffer, uint64_t buffer_offset, uint64_t file_offset, uint64_t length);
int64_t write_io(int fd, uint64_t buffer, uint64_t buffer_offset, uint64_t file_offset, uint64_t length);
hipfile_fuse_tag make_tag(uint64_t buffer, uint64_t buffer_offset, uint64_t file_offset, uint64_t length,
                          uint32_t flags = 0);
int try_tag(int fd, const hipfile_fuse_tag& tag);
int try_untag(int fd, hipfile_fuse_untag* out = nullptr);
hipfile_fuse_info info(int fd);

}  // namespace overlay
