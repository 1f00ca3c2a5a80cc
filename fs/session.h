// The FUSE session: the connection to the kernel, what was agreed with it, and what travels over it beside what libfuse
// does: kernel passthrough and FUSE over io_uring, on every libfuse from 3.14 on.
#pragma once

#define FUSE_USE_VERSION 312
#include <fuse_lowlevel.h>

#include <atomic>
#include <memory>

#include "credentials.h"
#include "kernel_abi.h"
#include "options.h"
#include "request_loop.h"
#include "ring.h"

namespace fs {

/// What an open is answered with.
struct OpenReply {
  uint64_t handle = 0;
  uint32_t flags = 0;      ///< kernel::kOpen*
  int32_t backing_id = 0;  ///< 0: no passthrough
};

class Session;

/// libfuse hands it to operations as the session's user data.
struct Connection {
  Session* session = nullptr;  ///< set while there is one
  virtual ~Connection() = default;
  /// Serves a request that libfuse does not know; false if it is none of those.
  virtual bool serve_raw(RequestBytes request) = 0;
};

class Session {
 public:
  /// Mounts. `connection` must outlive the session.
  static posix::Result<std::unique_ptr<Session>> mount(const Options& options,
                                                       const fuse_lowlevel_ops& operations,
                                                       Connection& connection);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// To be called from the init operation.
  void negotiate(fuse_conn_info* connection);
  /// Serves until unmounted or told to end by a signal.
  int loop();
  /// Detaches the mount. Requests that are not answered yet fail, and whoever waits in the kernel for one of them is set
  /// free. For root the connection stays open, so that its descriptor means nothing else meanwhile; a user has only
  /// fusermount3, which closes it.
  void abort();
  /// Closes the connection, after abort(). Done by the destructor if not before.
  void unmount();
  /// Whether requests are served by one thread per CPU, which must not be kept waiting.
  bool has_ring() const;
  /// Whether setxattr requests say what to do with the set-group-id bit.
  bool has_setxattr_flags() const { return offered_ & kernel::kInitSetxattrExt; }
  /// Whether the kernel reads and writes files itself.
  bool passes_through() const { return passthrough_ && !backing_failed_; }

  /// The mount's device number.
  dev_t device() const;

  /// Registers a file for passthrough; 0 if the kernel does not do it (logged once).
  int32_t open_backing(int path_fd);
  void close_backing(int32_t id);

  /// Both answer -ENOENT if the caller is gone: no release will come for the handle then.
  int reply_open(fuse_req_t request, const OpenReply& open) const;
  int reply_create(fuse_req_t request, const fuse_entry_param& entry, const OpenReply& open) const;

  /// The same for requests that libfuse does not know.
  int reply_raw(uint64_t unique, int error, const void* data = nullptr, size_t size = 0);
  int reply_raw_create(uint64_t unique, const fuse_entry_param& entry, const OpenReply& open);

  /// Drops cached attributes, and data of [offset, offset + length) if length is not 0.
  void invalidate(fuse_ino_t id, off_t offset, off_t length) const;
  /// Drops what the kernel knows of a name, and of a directory's entries. They wait for the directory to be free: not
  /// to be called while a request is being served.
  void invalidate_name(fuse_ino_t directory, std::string_view name) const;
  void invalidate_directory(fuse_ino_t directory) const;
  /// Drops all names (Linux 6.16; with an older one they stay until they are too old).
  void invalidate_all_names();

 private:
  friend struct Hooks;
  Session(const Options& options, Connection& connection) : options_(options), connection_(connection) {}
  void install_hooks();
  void serve(RequestBytes request);
  void note_init(RequestBytes request);
  void complete_init(kernel::InitOut& out);
  bool may_have_ring() const;
  void start_ring(uint64_t& flags);
  ssize_t send(iovec* parts, int count);

  const Options options_;
  Connection& connection_;
  fuse_session* session_ = nullptr;
  bool mounted_ = false, hooked_ = false;
  uint32_t stack_depth_ = 1;
  bool may_pass_through_ = false;            ///< by the options and by what the source is
  bool passthrough_ = false;                 ///< the kernel agreed to passthrough
  std::atomic<bool> backing_failed_{false};  ///< a registration was refused, and that was logged
  std::atomic<uint64_t> init_unique_{0};     ///< the INIT request that is being answered
  uint64_t offered_ = 0;                     ///< flags of the kernel in it
  std::unique_ptr<Ring> ring_;
};

/// The caller of a request.
Caller caller_of(fuse_req_t request);

/// In the form of the kernel's protocol.
kernel::EntryOut to_kernel(const fuse_entry_param& entry);
void split_seconds(double seconds, uint64_t& whole, uint32_t& nanoseconds);

}  // namespace fs
