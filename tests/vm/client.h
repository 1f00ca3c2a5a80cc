// The two ways to ask for a transfer: hipFile, and the ioctls of a mount.
#pragma once

#include <memory>
#include <string>

#include "memory.h"

namespace vm {

enum class Direction { read, write };  ///< read: file to memory

struct Done {
  int64_t result = 0;  ///< bytes or -errno
  uint32_t route = 0, reason = 0;
};

/// Moves bytes between files of one directory and one memory.
class Client {
 public:
  virtual ~Client() = default;
  virtual const char* name() const = 0;
  /// Where this client sees `file` of the directory.
  virtual std::string path(const std::string& file) const = 0;
  virtual Done move(Direction direction, int fd, uint64_t memory_offset, uint64_t file_offset,
                    uint64_t length) = 0;
  /// What was moved lies at the memory's address().
  virtual bool memory_is_visible() const { return true; }
};

class LibraryClient : public Client {
 public:
  static posix::Result<std::unique_ptr<LibraryClient>> make(const std::string& directory,
                                                            const Memory& memory);
  ~LibraryClient() override;
  LibraryClient(const LibraryClient&) = delete;
  LibraryClient& operator=(const LibraryClient&) = delete;
  const char* name() const override { return "library"; }
  std::string path(const std::string& file) const override { return directory_ + "/" + file; }
  Done move(Direction direction, int fd, uint64_t memory_offset, uint64_t file_offset,
            uint64_t length) override;

 private:
  LibraryClient(std::string directory, const Memory& memory)
      : directory_(std::move(directory)), memory_(memory) {}
  const std::string directory_;
  const Memory& memory_;
};

/// Not the product: O_DIRECT by the kernel itself into the memory, to know what it takes.
class KernelClient : public Client {
 public:
  KernelClient(std::string directory, const Memory& memory)
      : directory_(std::move(directory)), memory_(memory) {}
  const char* name() const override { return "kernel"; }
  std::string path(const std::string& file) const override { return directory_ + "/" + file; }
  Done move(Direction direction, int fd, uint64_t memory_offset, uint64_t file_offset,
            uint64_t length) override;

 private:
  const std::string directory_;
  const Memory& memory_;
};

class MountClient : public Client {
 public:
  /// `mount` is where a hipfile-fuse mount shows the directory.
  static posix::Result<std::unique_ptr<MountClient>> make(const std::string& mount, const Memory& memory);
  const char* name() const override { return "mount"; }
  std::string path(const std::string& file) const override { return mount_ + "/" + file; }
  Done move(Direction direction, int fd, uint64_t memory_offset, uint64_t file_offset,
            uint64_t length) override;
  bool memory_is_visible() const override { return memory_.is_shared(); }
  /// Tags the descriptor, reads the file's first bytes with read(2), and unties it; `out` gets what the memory got. The
  /// result is -errno if any of the reads failed.
  Done read_tagged(int fd, char* out, size_t length);

 private:
  MountClient(std::string mount, posix::Fd root, uint64_t buffer, const Memory& memory)
      : mount_(std::move(mount)), root_(std::move(root)), buffer_(buffer), memory_(memory) {}
  const std::string mount_;
  const posix::Fd root_;  // the buffer ends with it
  const uint64_t buffer_;
  const Memory& memory_;
};

}  // namespace vm
