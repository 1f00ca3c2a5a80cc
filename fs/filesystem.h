// The mount: what all operations share.
#pragma once

#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "buffers.h"
#include "credentials.h"
#include "description.h"
#include "engine/engine.h"
#include "engine/executor.h"
#include "handover.h"
#include "node_table.h"
#include "options.h"
#include "session.h"

namespace fs {

class Filesystem : public Connection {
 public:
  /// `source`: O_PATH descriptor of the directory to show.
  Filesystem(Options options, posix::Fd source, const struct stat& st,
             std::shared_ptr<const gpu::Runtime> runtime);
  ~Filesystem();

  /// Mounts, serves until unmounted, and ends everything cleanly. `ready` is called once the mount is usable.
  posix::Result<void> serve(const std::function<void()>& ready);

  Session& session() { return *session_; }
  const Options& options() const { return options_; }
  NodeTable& nodes() { return nodes_; }
  BufferTable& buffers() { return buffers_; }
  ProcessWatcher& watcher() { return watcher_; }
  engine::Executor& executor() { return executor_; }
  engine::Engine& engine() { return engine_; }
  Handover* handover() { return handover_.get(); }
  /// Lets buffers go on a thread that may wait for the device.
  void forget_buffers(std::vector<std::shared_ptr<Buffer>> buffers);
  /// From the init operation: the kernel is there.
  void started() { ready_(); }

  /// How long the kernel may believe a node's attributes: not at all while it can change without a request.
  double attribute_seconds(Node& node) const;

 private:
  void start_handover();

  const Options options_;
  NodeTable nodes_;
  BufferTable buffers_;
  engine::Engine engine_;
  engine::Executor executor_;
  ProcessWatcher watcher_;
  std::unique_ptr<Handover> handover_;
  std::unique_ptr<Session> session_;
  std::function<void()> ready_;
};

inline Filesystem& filesystem_of(fuse_req_t request) {
  return *static_cast<Filesystem*>(static_cast<Connection*>(fuse_req_userdata(request)));
}

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
inline void drop_handle(const fuse_file_info* fi) { delete &description_of(fi); }

/// The operations, by room.
void add_name_operations(fuse_lowlevel_ops& ops);       // lookup, forget, create and remove names
void add_attribute_operations(fuse_lowlevel_ops& ops);  // attributes, links, extended attributes, statfs
void add_file_operations(fuse_lowlevel_ops& ops);       // open files and their data
void add_directory_operations(fuse_lowlevel_ops& ops);
void add_ioctl_operation(fuse_lowlevel_ops& ops);

/// Looks a name up and fills the reply; 0 or an errno. On success one lookup is counted on the node.
int look_up(Filesystem& fs, const Node& parent, const char* name, fuse_entry_param& entry);

/// The same for a file that is open already, with O_PATH.
int enter_node(Filesystem& fs, posix::Fd path, fuse_entry_param& entry);

/// The calling process, if it holds a registered buffer. Finding out costs file reads, so it is only done while there
/// are buffers.
std::optional<ProcessKey> opener_of(Filesystem& fs, fuse_req_t request);

/// Opens a handle for a node: decides on passthrough and visibility.
OpenReply make_open_file(Filesystem& fs, fuse_req_t request, std::shared_ptr<Node> node, posix::Fd fd,
                         int flags, bool created);

}  // namespace fs
