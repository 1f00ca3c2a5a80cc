// The mount: what all operations share.
#pragma once

#include <exception>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backings.h"
#include "buffers.h"
#include "capability_removal.h"
#include "credentials.h"
#include "description.h"
#include "engine/engine.h"
#include "engine/executor.h"
#include "handover.h"
#include "locks.h"
#include "node_table.h"
#include "options.h"
#include "session.h"
#include "source.h"
#include "source_watch.h"

namespace fs {

/// A node with its file open, for as long as an operation takes.
struct Place {
  std::shared_ptr<Node> node;
  PathFd path;
  int fd() const { return path->get(); }
  /// For calls that take only paths.
  std::string name() const { return posix::proc_path(fd()); }
};

class Filesystem : public Connection {
 public:
  Filesystem(Options options, Source source, std::shared_ptr<const gpu::Runtime> runtime);
  ~Filesystem();

  /// Mounts, serves until unmounted, and ends everything cleanly. `ready` is called once the mount is usable.
  posix::Result<void> serve(const std::function<void()>& ready);

  Session& session() { return *session_; }
  const Session& session() const { return *session_; }
  const Options& options() const { return options_; }
  NodeTable& nodes() { return nodes_; }
  Backings& backings() { return backings_; }
  /// The kernel has forgotten `count` lookups.
  void forget(NodeId id, uint64_t count);
  /// Whether closing a file underneath can fail or take effect: on local file systems it does not.
  bool closing_reports() const { return closing_reports_; }
  /// ESTALE: there is no such node, or its file is gone.
  posix::Result<Place> place(NodeId id);
  RecordLocks& record_locks() { return record_locks_; }
  LockWaits& lock_waits() { return *lock_waits_; }
  CapabilityRemoval& capability_removal() { return capability_removal_; }
  BufferTable& buffers() { return buffers_; }
  ProcessWatcher& watcher() { return watcher_; }
  engine::Executor& executor() { return executor_; }
  engine::Engine& engine() { return engine_; }
  Handover* handover() { return handover_.get(); }
  /// Lets buffers go on a thread that may wait for the device.
  void forget_buffers(std::vector<std::shared_ptr<Buffer>> buffers);
  /// From the init operation: the kernel is there.
  void started() { ready_(); }
  bool serve_raw(RequestBytes request) override;
  /// Runs what may wait for a disk: here, or elsewhere if this thread also has others' requests to serve.
  void may_block(fuse_req_t request, engine::Executor::Job job);

  /// How long the kernel may believe what a directory says, and a node's attributes: not at all while it can change
  /// without a request.
  const CacheTimes& times_in(const Node& directory) const {
    return directory.device == nodes_.root()->device ? times_ : unwatched_times_;
  }
  double attribute_seconds(Node& node) const;
  /// The number that the mount shows for an inode: its own, but for file systems below the source one that none of the
  /// source's has.
  ino_t shown_inode(dev_t device, ino_t inode);
  /// Whether changes of the source are noticed as they happen.
  bool watches() const { return watch_ != nullptr; }
  /// Whether listing a directory now changes its access time.
  bool listing_counts(const struct stat& directory) const;
  /// Whether lookups may cross into other file systems.
  bool crosses() const { return options_.submounts; }
  /// The mount's own device, if lookups may cross: there, we would ask ourselves.
  dev_t mount_device() const { return mount_device_; }
  /// Where a file of the source lies for others, as far as anybody can say.
  std::string path_of(const posix::Fd& path) const;

 private:
  void start_handover();
  void start_watch();
  void source_changed(const SourceEvent& event);
  std::shared_ptr<engine::Executor> blocking(bool wanted);

  const Options options_;
  const bool own_mount_;
  NodeTable nodes_;
  CacheTimes times_;
  const CacheTimes unwatched_times_;
  dev_t mount_device_ = 0;
  std::mutex devices_mutex_;
  std::map<dev_t, uint64_t> devices_;  ///< below the source, numbered from 1
  const bool closing_reports_;
  const unsigned long mount_flags_;  ///< ST_*, of the source as we see it
  Backings backings_;
  RecordLocks record_locks_;
  CapabilityRemoval capability_removal_;
  BufferTable buffers_;
  engine::Engine engine_;
  engine::Executor executor_;  ///< moves data for GPUs
  std::mutex blocking_mutex_;
  std::shared_ptr<engine::Executor> blocking_;  ///< POSIX operations that a ring's thread may not wait for
  ProcessWatcher watcher_;
  std::unique_ptr<Handover> handover_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<SourceWatch> watch_;
  std::unique_ptr<LockWaits> lock_waits_;
  std::function<void()> ready_;
};

inline Filesystem& filesystem_of(fuse_req_t request) {
  return *static_cast<Filesystem*>(static_cast<Connection*>(fuse_req_userdata(request)));
}

/// The node that a request names; otherwise the request is answered with the error.
std::optional<Place> place_of(fuse_req_t request, fuse_ino_t id);

/// An operation as libfuse calls it: on a thread that is ready for it, and nothing may be thrown into C.
template <auto Operation>
struct Guarded;
template <typename... A, void (*Operation)(fuse_req_t, A...)>
struct Guarded<Operation> {
  static void call(fuse_req_t request, A... arguments) {
    try {
      prepare_thread();
      Operation(request, arguments...);
    } catch (const std::bad_alloc&) {
      fuse_reply_err(request, ENOMEM);
    } catch (const std::exception& e) {
      fuse_reply_err(request, EIO);
    }
  }
};
template <auto Operation>
inline constexpr auto guard = &Guarded<Operation>::call;

/// Handles travel through the kernel as addresses of owners, and come back only as the kernel got them.
template <typename T>
uint64_t to_handle(std::shared_ptr<T> description) {
  return reinterpret_cast<uint64_t>(new std::shared_ptr<Description>(std::move(description)));
}
inline std::shared_ptr<Description>& description_of(const fuse_file_info* fi) {
  return *reinterpret_cast<std::shared_ptr<Description>*>(fi->fh);  // NOLINT(performance-no-int-to-ptr)
}
inline OpenFile& file_of(const fuse_file_info* fi) { return static_cast<OpenFile&>(*description_of(fi)); }
inline OpenDirectory& directory_of(const fuse_file_info* fi) {
  return static_cast<OpenDirectory&>(*description_of(fi));
}
/// The open file of a handle, kept for an operation that ends elsewhere.
inline std::shared_ptr<OpenFile> keep_file(const fuse_file_info* fi) {
  return std::static_pointer_cast<OpenFile>(description_of(fi));
}
inline void drop_handle(const fuse_file_info* fi) { delete &description_of(fi); }

/// Answers with what a system call returned: nothing, or errno.
inline void reply_status(fuse_req_t request, int status) { fuse_reply_err(request, status < 0 ? errno : 0); }

/// The operations, by room.
void add_name_operations(fuse_lowlevel_ops& ops);       // lookup, forget, create and remove names
void add_attribute_operations(fuse_lowlevel_ops& ops);  // attributes, links, extended attributes, statfs
void add_file_operations(fuse_lowlevel_ops& ops);       // open files and their data
void add_directory_operations(fuse_lowlevel_ops& ops);
void add_ioctl_operation(fuse_lowlevel_ops& ops);
void add_lock_operations(fuse_lowlevel_ops& ops);
void add_newer_operations(fuse_lowlevel_ops& ops);  // what only newer libfuse knows; see raw_operations.cpp

/// Looks a name up and fills the reply; 0 or an errno. On success one lookup is counted on the node.
int look_up(Filesystem& fs, const Place& parent, const char* name, fuse_entry_param& entry);

/// Completes an entry that has the attributes of the node's file.
void fill_entry(Filesystem& fs, Node& node, fuse_entry_param& entry);

/// The node and the handle of a file just made, with everything an answer to the kernel needs. `name`: what it was
/// called in `parent`; null if it has none. 0 or an errno.
int enter_open_file(Filesystem& fs, const Place& parent, const char* name, posix::Fd fd, int flags,
                    pid_t caller, fuse_entry_param& entry, OpenReply& open);
/// Takes that back: the caller was gone before it got the handle.
void leave_open_file(Filesystem& fs, const fuse_entry_param& entry, const OpenReply& open);

/// The calling process, if it holds a registered buffer. Finding out costs file reads, so it is only done while there
/// are buffers.
std::optional<ProcessKey> opener_of(Filesystem& fs, pid_t caller);

/// Opens a handle for a node: decides on passthrough and visibility. `made`: the mode of a file made just now.
OpenReply make_open_file(Filesystem& fs, pid_t caller, const Place& place, posix::Fd fd, int flags,
                         std::optional<mode_t> made = {});

}  // namespace fs
