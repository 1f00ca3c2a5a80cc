#include "filesystem.h"

#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <chrono>
#include <cstdlib>

namespace fs {
namespace {

constexpr auto kShutdownPatience = std::chrono::seconds(30);

unsigned engine_threads(const Options& options) {
  return options.engine_threads ? options.engine_threads
                                : std::max(4u, 2 * std::thread::hardware_concurrency());
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

Filesystem::Filesystem(Options options, posix::Fd source, const struct stat& st,
                       std::shared_ptr<const gpu::Runtime> runtime)
    : options_(std::move(options)),
      nodes_(std::move(source), st),

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
  auto session = Session::mount(options_, ops, *this);
  if (!session) return tl::unexpected(session.error());
  session_ = std::move(*session);
  spdlog::info("{} on {}", options_.source, options_.mountpoint);
  int status = session_->loop();
  // Requests that are being carried out are answered while the kernel still listens. Should one hang in the kernel for
  // want of somebody to answer it, unmounting sets it free.
  executor_.cancel_all();
  executor_.wait_idle(kShutdownPatience);
  session_->unmount();
  executor_.stop();
  spdlog::info("unmounted {}", options_.mountpoint);
  if (status < 0) return posix::failure(-status, "serve " + options_.mountpoint);
  return {};
}

void Filesystem::forget_buffers(std::vector<std::shared_ptr<Buffer>> buffers) {
  if (buffers.empty()) return;
  executor_.submit([buffers = std::move(buffers)] {}, std::make_shared<engine::CancelToken>(), false);
}

double Filesystem::attribute_seconds(Node& node) const {
  std::lock_guard lock(node.mutex);
  return node.writable_handles > 0 ? 0.0 : options_.cache_seconds;
}

}  // namespace fs
