// The FUSE session: options, the connection to the kernel, and kernel passthrough on every libfuse from 3.14
// on.
#pragma once

#define FUSE_USE_VERSION 312
#include <fuse_lowlevel.h>

#include <atomic>
#include <memory>

#include "credentials.h"
#include "kernel_abi.h"
#include "options.h"

namespace fs {

/// What an open is answered with.
struct OpenReply {
  uint64_t handle = 0;
  uint32_t flags = 0;      ///< kernel::kOpen*
  int32_t backing_id = 0;  ///< 0: no passthrough
};

/// What was agreed with the kernel. libfuse hands it to operations and hooks as the session's user data.
struct Connection {
  std::atomic<bool> passthrough{false};     ///< the kernel agreed to passthrough
  std::atomic<bool> backing_failed{false};  ///< a registration was refused, and that was logged
  bool want_passthrough = true;
  std::atomic<uint64_t> init_unique{0};   ///< the INIT request that is being answered
  std::atomic<uint64_t> kernel_flags{0};  ///< what the kernel offered in it
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
  void negotiate(fuse_conn_info* connection) const;
  /// Serves until unmounted or told to end by a signal.
  int loop();
  /// Detaches the mount; requests that are not answered yet fail. Done by the destructor if not before.
  void unmount();

  /// Registers a file for passthrough; 0 if the kernel does not do it (logged once).
  int32_t open_backing(int path_fd);
  void close_backing(int32_t id);

  /// Both answer -ENOENT if the caller is gone: no release will come for the handle then.
  int reply_open(fuse_req_t request, const OpenReply& open) const;
  int reply_create(fuse_req_t request, const fuse_entry_param& entry, const OpenReply& open) const;

  /// Drops cached attributes, and data of [offset, offset + length) if length is not 0.
  void invalidate(fuse_ino_t id, off_t offset, off_t length) const;

 private:
  Session(const Options& options, Connection& connection) : options_(options), connection_(connection) {}
  void install_hooks();

  const Options options_;
  Connection& connection_;
  fuse_session* session_ = nullptr;
  bool mounted_ = false;
};

/// The caller of a request.
Caller caller_of(fuse_req_t request);

}  // namespace fs
