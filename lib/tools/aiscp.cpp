// aiscp SOURCE DEST: copies a file through GPU memory with hipFile, any size.
#include <hipfile_ext.h>
#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>

#include "gpu/hip.h"
#include "mount_client.h"

namespace {

struct Options {
  std::string source, destination;
  size_t chunk_mib = 64;
  int device = 0;
  bool verify = false;
  bool quiet = false;
};

std::string describe(ssize_t result) {
  if (result == -1) return strerror(errno);
  return HIPFILE_ERRSTR(result);
}

posix::Result<hipFileHandle_t> register_file(int fd) {
  hipFileDescr_t descr{};
  descr.type = hipFileHandleTypeOpaqueFD;
  descr.handle.fd = fd;
  hipFileHandle_t handle = nullptr;
  hipFileError_t e = hipFileHandleRegister(&handle, &descr);
  if (e.err != hipFileSuccess)
    return posix::failure(EIO, std::string("register file (") + HIPFILE_ERRSTR(e.err) + ")");
  return handle;
}

// With O_DIRECT where the file system has it, so that peer-to-peer DMA is possible.
posix::Result<posix::Fd> open_file(const std::string& path, int flags, mode_t mode = 0644) {
  posix::Fd fd(open(path.c_str(), flags | O_DIRECT | O_CLOEXEC, mode));
  if (!fd && errno == EINVAL) fd = posix::Fd(open(path.c_str(), flags | O_CLOEXEC, mode));
  if (!fd) return posix::last_failure("open " + path);
  return fd;
}

void show_progress(const Options& o, uint64_t done, uint64_t size) {
  if (o.quiet || !isatty(2)) return;
  fprintf(stderr, "\r%3llu %%", static_cast<unsigned long long>(size ? done * 100 / size : 100));
}

posix::Result<void> copy(const Options& o, hipFileHandle_t from, hipFileHandle_t to, void* memory,
                         size_t chunk, uint64_t size) {
  for (uint64_t done = 0; done < size;) {
    size_t part = std::min<uint64_t>(chunk, size - done);
    ssize_t n = hipFileRead(from, memory, part, static_cast<hoff_t>(done), 0);
    if (n < 0) return posix::failure(EIO, "read at " + std::to_string(done) + " (" + describe(n) + ")");
    if (n == 0) return posix::failure(EIO, o.source + " became shorter");
    for (ssize_t written = 0; written < n;) {
      ssize_t w = hipFileWrite(to, memory, static_cast<size_t>(n - written),
                               static_cast<hoff_t>(done) + written, written);
      if (w <= 0) return posix::failure(EIO, "write at " + std::to_string(done) + " (" + describe(w) + ")");
      written += w;
    }
    done += static_cast<uint64_t>(n);
    show_progress(o, done, size);
  }
  return {};
}

posix::Result<void> run(const Options& o) {
  auto source = open_file(o.source, O_RDONLY);
  if (!source) return tl::unexpected(source.error());
  struct stat st, target;
  if (fstat(source->get(), &st) < 0) return posix::last_failure("examine " + o.source);
  if (stat(o.destination.c_str(), &target) == 0 && target.st_dev == st.st_dev && target.st_ino == st.st_ino)
    return posix::failure(EINVAL, o.source + " and " + o.destination + " are the same file");
  const auto size = static_cast<uint64_t>(st.st_size);
  auto destination = open_file(o.destination, O_RDWR | O_CREAT, st.st_mode & 0777);
  if (!destination) return tl::unexpected(destination.error());
  auto runtime = gpu::Runtime::load("auto");
  if (!runtime) return tl::unexpected(runtime.error());
  const size_t chunk = std::max<uint64_t>(std::min<uint64_t>(o.chunk_mib << 20, size), 4096);
  auto memory = tools::TargetMemory::on_device(*runtime, o.device, chunk);
  if (!memory) return tl::unexpected(memory.error());
  auto from = register_file(source->get()), to = register_file(destination->get());
  if (!from) return tl::unexpected(from.error());
  if (!to) return tl::unexpected(to.error());
  hipFileExplanation_t way{};
  if (size) (void)hipFileExplain(*from, memory->address(), chunk, 0, 0, &way);
  auto start = std::chrono::steady_clock::now();
  if (auto copied = copy(o, *from, *to, memory->address(), chunk, size); !copied) return copied;
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (ftruncate(destination->get(), st.st_size) < 0)
    return posix::last_failure("set size of " + o.destination);
  hipFileOutcome_t last{};
  (void)hipFileLastOutcome(&last);
  if (!o.quiet)
    fprintf(stderr, "\r%llu bytes, %.2f GB/s, read by route %s, written by route %s (%s)\n",
            static_cast<unsigned long long>(size), static_cast<double>(size) / seconds / 1e9,
            tools::route_name(way.route), tools::route_name(last.route),
            tools::reason_text(way.reason).c_str());
  if (o.verify) {
    posix::Fd a(open(o.source.c_str(), O_RDONLY | O_CLOEXEC)),
        b(open(o.destination.c_str(), O_RDONLY | O_CLOEXEC));
    auto expected = tools::file_checksum(a.get(), 0, size), arrived = tools::file_checksum(b.get(), 0, size);
    if (!expected) return tl::unexpected(expected.error());
    if (!arrived) return tl::unexpected(arrived.error());
    if (*expected != *arrived) return posix::failure(EIO, "verify: " + o.destination + " differs");
    if (!o.quiet) fprintf(stderr, "verified, xxh128 %s\n", arrived->c_str());
  }
  hipFileHandleDeregister(*from);
  hipFileHandleDeregister(*to);
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  Options o;
  CLI::App app("Copies a file through GPU memory.", "aiscp");
  app.add_option("SOURCE", o.source)->required();
  app.add_option("DEST", o.destination)->required();
  app.add_option("--chunk", o.chunk_mib, "MiB of GPU memory")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  app.add_option("--device", o.device, "HIP device")->capture_default_str();
  app.add_flag("--verify", o.verify, "compare the copy with the source");
  app.add_flag("-q,--quiet", o.quiet, "print nothing but errors");
  CLI11_PARSE(app, argc, argv);
  auto done = run(o);
  if (done) return 0;
  fprintf(stderr, "aiscp: %s\n", done.error().text().c_str());
  return 1;
}
