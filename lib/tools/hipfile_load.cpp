// hipfile-load FILE...: reads files of a hipfile-fuse mount into device memory with one ioctl each, says
// which way the data went, and proves on request that the bytes in device memory are the file's.
#include <sys/ioctl.h>
#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>

#include "mount_client.h"

namespace {

struct Options {
  std::vector<std::string> files;
  std::string runtime = "auto";
  int device = 0;
  bool verify = false;
};

struct Totals {
  uint64_t bytes = 0;
  double seconds = 0;
  int verified = 0;
};

posix::Result<uint64_t> read_into(int fd, uint64_t buffer, uint64_t size, hipfile_fuse_io& io) {
  uint64_t done = 0;
  while (done < size) {
    io = {};
    io.version = HIPFILE_FUSE_ABI_VERSION;
    io.op = HIPFILE_FUSE_OP_READ;
    io.buffer_id = buffer;
    io.buffer_offset = io.file_offset = done;
    io.length = size - done;
    if (ioctl(fd, HIPFILE_FUSE_IOC_IO, &io) < 0) return posix::last_failure("read by ioctl");
    if (io.result < 0) return posix::failure(static_cast<int>(-io.result), "read by ioctl");
    if (io.result == 0) break;
    done += static_cast<uint64_t>(io.result);
  }
  return done;
}

posix::Result<void> load(const Options& options, const std::shared_ptr<const gpu::Runtime>& runtime,
                         const std::string& path, Totals& totals) {
  posix::Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return posix::last_failure("open");
  struct stat st;
  if (fstat(file.get(), &st) < 0) return posix::last_failure("examine");
  const auto size = static_cast<uint64_t>(st.st_size);
  auto memory = tools::TargetMemory::on_device(runtime, options.device, size);
  if (!memory) return tl::unexpected(memory.error());
  auto buffer = tools::register_memory(file.get(), *memory, 0);
  if (!buffer) return tl::unexpected(buffer.error());
  hipfile_fuse_io io{};
  auto start = std::chrono::steady_clock::now();
  auto done = read_into(file.get(), *buffer, size, io);
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (!done) return tl::unexpected(done.error());
  if (*done != size) return posix::failure(EIO, "file ended early");
  printf("%s: %llu bytes, %.2f GB/s, route %s (%s)", path.c_str(), static_cast<unsigned long long>(size),
         static_cast<double>(size) / seconds / 1e9, tools::route_name(io.route),
         tools::reason_text(io.reason).c_str());
  totals.bytes += size;
  totals.seconds += seconds;
  if (options.verify) {
    auto expected = tools::file_checksum(file.get(), 0, size);
    auto arrived = memory->checksum(size);
    if (!expected) return tl::unexpected(expected.error());
    if (!arrived) return tl::unexpected(arrived.error());
    printf(", xxh128 %s", arrived->c_str());
    if (*arrived != *expected) {
      printf("\n");
      return posix::failure(EIO, "device memory differs from the file (xxh128 " + *expected + ")");
    }
    totals.verified++;
  }
  printf("\n");
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Reads files of a hipfile-fuse mount into device memory.", "hipfile-load");
  app.add_option("FILE", options.files, "files on the mount")->required();
  app.add_option("--runtime", options.runtime, "HIP runtime: auto, amd, cuda, software or a path")
      ->capture_default_str();
  app.add_option("--device", options.device, "HIP device")->capture_default_str();
  app.add_flag("--verify", options.verify, "compare the bytes in device memory with the file's");
  CLI11_PARSE(app, argc, argv);
  auto runtime = gpu::Runtime::load(options.runtime);
  if (!runtime) {
    fprintf(stderr, "hipfile-load: %s\n", runtime.error().text().c_str());
    return 1;
  }
  printf("device memory: %s\n", (*runtime)->describe().c_str());
  Totals totals;
  for (const auto& path : options.files) {
    auto loaded = load(options, *runtime, path, totals);
    if (loaded) continue;
    fprintf(stderr, "hipfile-load: %s: %s\n", path.c_str(), loaded.error().text().c_str());
    return 1;
  }
  printf("total: %zu files, %llu bytes, %.2f GB/s", options.files.size(),
         static_cast<unsigned long long>(totals.bytes),
         totals.seconds > 0 ? static_cast<double>(totals.bytes) / totals.seconds / 1e9 : 0.0);
  if (options.verify) printf(", checks passed: %d of %zu", totals.verified, options.files.size());
  printf("\n");
  return 0;
}
