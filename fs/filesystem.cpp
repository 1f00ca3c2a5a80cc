#include "filesystem.h"

#include <linux/magic.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <cstring>

namespace fs {
namespace {

constexpr unsigned kBlockingThreads = 16;
constexpr auto kShutdownPatience = std::chrono::seconds(30);

unsigned engine_threads(const Options& options) {
  return options.engine_threads ? options.engine_threads
                                : std::max(4u, 2 * std::thread::hardware_concurrency());
}

// With twice as many for directories, half of what this process may have: open files and clients' buffers need theirs.
size_t most_held_descriptors(const Options& options) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  return std::min<size_t>(options.held_descriptors, limit.rlim_cur / 4);
}

// File systems without an operation of their own for close(2).
bool is_local(const NodeTable& nodes) {
  struct statfs st;
  if (fstatfs(nodes.root()->path->get(), &st) < 0) return false;
  constexpr std::array<uint32_t, 4> local{EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC, BTRFS_SUPER_MAGIC, TMPFS_MAGIC};
  return std::find(local.begin(), local.end(), static_cast<uint32_t>(st.f_type)) != local.end();
}

unsigned long mount_flags(const NodeTable& nodes) {
  struct statvfs st;
  return fstatvfs(nodes.root()->path->get(), &st) < 0 ? 0 : st.f_flag;
}

// /run/hipfile-fuse for root, otherwise the user's own run-time directory.
std::string socket_path(const Options& options) {
  if (!options.socket.empty()) return options.socket;
  std::string directory = "/run/hipfile-fuse";
  if (geteuid() != 0) {
    const char* own = std::getenv("XDG_RUNTIME_DIR");
    if (!own) return "none";
    directory = std::string(own) + "/hipfile-fuse";
  }
  mkdir(directory.c_str(), 0755);
  return directory + "/" + std::to_string(getpid()) + ".sock";
}

void op_init(void* user_data, fuse_conn_info* connection) {
  auto* fs = static_cast<Filesystem*>(static_cast<Connection*>(user_data));
  fs->session().negotiate(connection);
  fs->started();
}

}  // namespace

Filesystem::Filesystem(Options options, Source source, std::shared_ptr<const gpu::Runtime> runtime)
    : options_(std::move(options)),
      own_mount_(source.own_mount),
      nodes_(std::move(source.root), source.status, most_held_descriptors(options_)),
      times_(cache_times(options_, false)),
      unwatched_times_(times_),
      closing_reports_(!is_local(nodes_)),
      mount_flags_(mount_flags(nodes_)),
      engine_(std::move(runtime), options_.engine),
      executor_(engine_threads(options_)),
      watcher_([this](const ProcessKey& process) { forget_buffers(buffers_.process_ended(process)); }) {}

Filesystem::~Filesystem() = default;

void Filesystem::start_handover() {
  std::string path = socket_path(options_);
  if (path == "none") return;
  auto handover = Handover::listen(path);
  if (handover)
    handover_ = std::move(*handover);
  else
    spdlog::warn("no hand-over socket: {}", handover.error().text());
}

void Filesystem::start_watch() {
  if (options_.cache != CachePolicy::automatic || !nodes_.opens_by_handle()) return;
  auto watch =
      SourceWatch::start(nodes_.root()->path->get(), [this](const SourceEvent& e) { source_changed(e); });
  if (!watch) return spdlog::info("names are believed for a second: {}", watch.error().text());
  watch_ = std::move(*watch);
  times_ = cache_times(options_, true);
  backings_.keep_idle(true);
}

// On the watch's thread, which no request waits for: dropping a name waits for the directory's lock, and who holds that
// may wait for an answer from here.
void Filesystem::source_changed(const SourceEvent& event) {
  if (event.lost) return session_->invalidate_all_names();
  if (event.names) {
    if (auto directory = nodes_.find_handle(event.directory)) {
      session_->invalidate_name(directory->id, event.name);
      session_->invalidate_directory(directory->id);
    }
  } else if (auto node = nodes_.find_handle(event.file.size ? event.file : event.directory)) {
    session_->invalidate(node->id, 0, 0);
  }
}

posix::Result<void> Filesystem::serve(const std::function<void()>& ready) {
  ready_ = ready;
  start_handover();
  fuse_lowlevel_ops ops{};
  ops.init = op_init;
  add_name_operations(ops);
  add_attribute_operations(ops);
  add_file_operations(ops);
  add_directory_operations(ops);
  add_ioctl_operation(ops);
  add_newer_operations(ops);
  if (options_.forward_locks) add_lock_operations(ops);
  lock_waits_ = std::make_unique<LockWaits>();
  auto session = Session::mount(options_, ops, *this);
  if (!session) return tl::unexpected(session.error());
  session_ = std::move(*session);
  backings_.use(*session_);
  start_watch();
  if (crosses()) mount_device_ = session_->device();
  SourceCover cover;
  if (options_.hide_source) {
    auto put = SourceCover::put(options_.source);
    if (!put) return tl::unexpected(put.error());
    cover = std::move(*put);
  }
  spdlog::info("{} on {}", options_.source, options_.mountpoint);
  int status = session_->loop();
  // Requests that are being carried out are answered while the kernel still listens. Should one hang in the kernel for
  // want of somebody to answer it, aborting sets it free.
  lock_waits_.reset();
  executor_.cancel_all();
  executor_.wait_idle(kShutdownPatience);
  if (auto jobs = blocking(false)) jobs->wait_idle(kShutdownPatience);
  session_->abort();
  watch_.reset();
  executor_.stop();
  if (auto jobs = blocking(false)) jobs->stop();
  session_->unmount();
  spdlog::info("unmounted {}", options_.mountpoint);
  if (status < 0) return posix::failure(-status, "serve " + options_.mountpoint);
  return {};
}

void Filesystem::forget_buffers(std::vector<std::shared_ptr<Buffer>> buffers) {
  if (buffers.empty()) return;
  executor_.submit([buffers = std::move(buffers)] {}, std::make_shared<engine::CancelToken>(), false);
}

void Filesystem::forget(NodeId id, uint64_t count) {
  {
    auto node = nodes_.forget(id, count);
    if (!node) return;
    backings_.forget(*node);
  }
  if (nodes_.has_shrunk()) nodes_.compact();
}

std::shared_ptr<engine::Executor> Filesystem::blocking(bool wanted) {
  std::lock_guard lock(blocking_mutex_);
  if (!blocking_ && wanted) blocking_ = std::make_shared<engine::Executor>(kBlockingThreads);
  return blocking_;
}

void Filesystem::may_block(fuse_req_t request, engine::Executor::Job job) {
  if (!session_->has_ring()) return job();
  auto on_a_ready_thread = [request, job = std::move(job)] {
    prepare_thread();
    try {
      job();
    } catch (const std::exception&) {
      fuse_reply_err(request, ENOMEM);
    }
  };
  blocking(true)->submit(std::move(on_a_ready_thread), std::make_shared<engine::CancelToken>(), false);
}

posix::Result<Place> Filesystem::place(NodeId id) {
  Place place{nodes_.find(id), nullptr};
  if (!place.node) return posix::failure(ESTALE, "node " + std::to_string(id));
  auto path = nodes_.open(*place.node);
  if (!path) return tl::unexpected(path.error());
  place.path = std::move(*path);
  return place;
}

std::optional<Place> place_of(fuse_req_t request, fuse_ino_t id) {
  auto place = filesystem_of(request).place(id);
  if (place) return std::move(*place);
  fuse_reply_err(request, place.error().code);
  return std::nullopt;
}

ino_t Filesystem::shown_inode(dev_t device, ino_t inode) {
  if (device == nodes_.root()->device) return inode;
  std::lock_guard lock(devices_mutex_);
  return inode | devices_.try_emplace(device, devices_.size() + 1).first->second << 48;
}

std::string Filesystem::path_of(const posix::Fd& path) const {
  char text[PATH_MAX] = {};
  if (readlink(posix::proc_path(path.get()).c_str(), text, sizeof text - 1) < 0) return "";
  // Below a mount of our own, paths begin at the source.
  if (!own_mount_) return text;
  return options_.source == "/" ? text : options_.source + (strcmp(text, "/") == 0 ? "" : text);
}

// As the kernel decides it.
bool Filesystem::listing_counts(const struct stat& directory) const {
  if (mount_flags_ & (ST_NOATIME | ST_NODIRATIME | ST_RDONLY)) return false;
  if (!(mount_flags_ & ST_RELATIME)) return true;
  const auto not_after = [&](const timespec& change) {
    return std::pair(directory.st_atim.tv_sec, directory.st_atim.tv_nsec) <=
           std::pair(change.tv_sec, change.tv_nsec);
  };
  constexpr time_t kDay = 86400;
  return not_after(directory.st_mtim) || not_after(directory.st_ctim) ||
         time(nullptr) - directory.st_atim.tv_sec >= kDay;
}

double Filesystem::attribute_seconds(Node& node) const {
  std::lock_guard lock(node.mutex);
  return node.writable_handles > 0 ? 0.0 : times_.attributes;
}

}  // namespace fs
