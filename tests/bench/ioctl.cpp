// What the mount adds: a large IO ioctl against pread of the same file, and a 4 KiB IO ioctl against a 4 KiB
// pread. Runs interleaved, prints medians and ratios to the baseline of the same run, and writes JSON.
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>

#include "hipfile_fuse.h"
#include "posix/fd.h"

namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  std::string directory;
  size_t mebibytes = 1024;
  int rounds = 7;
  int small_operations = 20000;
  std::string json;
};

double seconds_of(const std::function<void()>& f) {
  auto start = Clock::now();
  f();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

[[noreturn]] void die(const char* what) {
  perror(what);
  exit(1);
}

void expect(bool good, const char* what) {
  if (!good) die(what);
}

int64_t read_io(int fd, uint64_t buffer, uint64_t offset, uint64_t length, uint32_t* route = nullptr) {
  hipfile_fuse_io io{};
  io.version = HIPFILE_FUSE_ABI_VERSION;
  io.op = HIPFILE_FUSE_OP_READ;
  io.buffer_id = buffer;
  io.file_offset = offset;
  io.length = length;
  if (ioctl(fd, HIPFILE_FUSE_IOC_IO, &io) < 0) die("IO");
  if (route) *route = io.route;
  return io.result;
}

}  // namespace

int main(int argc, char** argv) {
  Options o;
  CLI::App app("Large and small reads by ioctl against pread, on a hipfile-fuse mount.", "bench_ioctl");
  app.add_option("DIRECTORY", o.directory, "a directory on the mount; a file is made there")->required();
  app.add_option("--mib", o.mebibytes, "size of the large read")->capture_default_str();
  app.add_option("--rounds", o.rounds, "interleaved rounds")->capture_default_str();
  app.add_option("--small", o.small_operations, "4 KiB operations of a round")->capture_default_str();
  app.add_option("--json", o.json, "write the medians there");
  CLI11_PARSE(app, argc, argv);

  const size_t size = o.mebibytes << 20;
  const std::string path = o.directory + "/bench_ioctl.bin";
  posix::Fd writer(open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600));
  expect(static_cast<bool>(writer), path.c_str());
  std::vector<char> block(1 << 20);
  for (size_t i = 0; i < block.size(); i++) block[i] = static_cast<char>(i * 2654435761u >> 13);
  for (size_t i = 0; i < o.mebibytes; i++)
    expect(write(writer.get(), block.data(), block.size()) == 1 << 20, "write");
  expect(fsync(writer.get()) == 0, "fsync");
  writer.reset();

  posix::Fd fd(open(path.c_str(), O_RDONLY));
  posix::Fd memory(memfd_create("bench", 0));
  expect(ftruncate(memory.get(), static_cast<off_t>(size)) == 0, "memfd");
  auto map = [](int memory_fd, size_t bytes) {
    int flags = memory_fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
    void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags | MAP_POPULATE, memory_fd, 0);
    expect(p != MAP_FAILED, "mmap");
    return static_cast<char*>(p);
  };
  char* target = map(memory.get(), size);
  char* own = map(-1, size);
  memset(own, 1, size);
  hipfile_fuse_register r{};
  r.version = HIPFILE_FUSE_ABI_VERSION;
  r.kind = HIPFILE_FUSE_BUFFER_FD;
  r.fd = memory.get();
  r.length = size;
  expect(ioctl(fd.get(), HIPFILE_FUSE_IOC_REGISTER, &r) == 0, "REGISTER");

  std::map<std::string, std::vector<double>> times;
  uint32_t route = 0;
  for (int round = 0; round <= o.rounds; round++) {
    std::map<std::string, double> t;
    t["pread"] = seconds_of([&] {
      for (size_t done = 0; done < size;) {
        ssize_t n = pread(fd.get(), own + done, size - done, static_cast<off_t>(done));
        expect(n > 0, "pread");
        done += static_cast<size_t>(n);
      }
    });
    t["ioctl"] = seconds_of([&] {
      expect(read_io(fd.get(), r.buffer_id, 0, size, &route) == static_cast<int64_t>(size), "short");
    });
    const size_t blocks = size / 4096;
    auto offset = [&](int i) { return (static_cast<size_t>(i) * 7919 % blocks) * 4096; };
    t["pread_4k"] = seconds_of([&] {
      for (int i = 0; i < o.small_operations; i++)
        expect(pread(fd.get(), own, 4096, static_cast<off_t>(offset(i))) == 4096, "pread 4k");
    });
    t["ioctl_4k"] = seconds_of([&] {
      for (int i = 0; i < o.small_operations; i++)
        expect(read_io(fd.get(), r.buffer_id, offset(i), 4096) == 4096, "ioctl 4k");
    });
    t["info"] = seconds_of([&] {
      for (int i = 0; i < o.small_operations; i++) {
        hipfile_fuse_untag u{};
        u.version = HIPFILE_FUSE_ABI_VERSION;
        expect(ioctl(fd.get(), HIPFILE_FUSE_IOC_UNTAG, &u) < 0 && errno == ENODATA, "UNTAG");
      }
    });
    if (round == 0) continue;  // warm-up
    for (auto& [name, s] : t) times[name].push_back(s);
  }
  expect(memcmp(own + 4096, target + 4096, size - 4096) == 0, "the bytes differ");
  unlink(path.c_str());

  auto gigabytes = [&](const char* name) { return static_cast<double>(size) / median(times[name]) / 1e9; };
  auto microseconds = [&](const char* name) { return median(times[name]) / o.small_operations * 1e6; };
  double ratio = gigabytes("ioctl") / gigabytes("pread");
  printf("%zu MiB: pread %.2f GB/s, one IO ioctl %.2f GB/s (route %u): ratio %.2f\n", o.mebibytes,
         gigabytes("pread"), gigabytes("ioctl"), route, ratio);
  printf("4 KiB: pread %.2f us, IO ioctl %.2f us, a round trip that does nothing %.2f us\n",
         microseconds("pread_4k"), microseconds("ioctl_4k"), microseconds("info"));
  if (!o.json.empty()) {
    FILE* f = fopen(o.json.c_str(), "w");
    expect(f, o.json.c_str());
    fprintf(
        f,
        "{\"mebibytes\": %zu, \"rounds\": %d, \"pread_gbps\": %.3f, \"ioctl_gbps\": %.3f, \"ratio\": %.3f, "
        "\"pread_4k_us\": %.3f, \"ioctl_4k_us\": %.3f, \"round_trip_us\": %.3f}\n",
        o.mebibytes, o.rounds, gigabytes("pread"), gigabytes("ioctl"), ratio, microseconds("pread_4k"),
        microseconds("ioctl_4k"), microseconds("info"));
    fclose(f);
  }
  return 0;
}
