#include <hipfile_ext.h>

#include <chrono>
#include <cstring>
#include <sstream>

#include "commands.h"
#include "test_file.h"

namespace vm {
namespace {

constexpr size_t kPage = 4096;
constexpr std::chrono::seconds kPause{10};  // for which the engine leaves alone what has failed

constexpr char kAsKernel[] =
    "kernel";  // around the page cache if the kernel does it itself, otherwise through it

bool among(uint32_t route, const std::string& names) {
  std::istringstream list(names);
  for (std::string name; std::getline(list, name, '|');)
    if (name == tools::route_name(route)) return true;
  return false;
}

class Transfers {
 public:
  Transfers(const Options& o, Report& report) : o_(o), report_(report) {}

  void run(Client& client, const Memory& memory, const std::string& kind) {
    bytes_ = fresh_bytes(o_.bytes);
    if (auto written = write_file(o_.directory + "/in", bytes_); !written)
      return report_.fail(written.error().text());
    if (dynamic_cast<LibraryClient*>(&client)) ask_kernel(memory, kind);
    copy_file(client, memory, kind);
    read_again(client, kind);
    if (!o_.no_page_cache) read_unaligned(client, memory, kind);
    if (auto* mount = dynamic_cast<MountClient*>(&client)) read_tagged(*mount, kind);
  }

  /// With other memory, after run().
  void read_beside(Client& client, const std::string& kind) {
    if (auto written = write_file(o_.directory + "/in", bytes_); !written)
      return report_.fail(written.error().text());
    posix::Fd source(open(client.path("in").c_str(), O_RDONLY | O_CLOEXEC));
    Done done = client.move(Direction::read, source.get(), 0, 0, bytes_.size());
    report_.line(client, kind, "beside", done);
    report_.check_bytes(done, bytes_.size());
    check_route(done, kind);
  }

 private:
  // What the kernel itself does with whole blocks of this file and this memory.
  void ask_kernel(const Memory& memory, const std::string& kind) {
    const std::string path = o_.directory + "/kernel";
    if (auto written = write_file(path, bytes_); !written) return report_.fail(written.error().text());
    posix::Fd file(open(path.c_str(), O_RDWR | O_CLOEXEC));
    KernelClient kernel(o_.directory, memory);
    for (auto [direction, what] :
         {std::pair(Direction::read, "read"), std::pair(Direction::write, "write")}) {
      Done done = kernel.move(direction, file.get(), 0, 0, bytes_.size());
      report_.line(kernel, kind, what, done);
      direct_ = done.result == static_cast<int64_t>(bytes_.size());
    }
  }

  void check_route(const Done& done, const std::string& kind) {
    const auto named = o_.routes.find(kind);
    std::string routes = named == o_.routes.end() ? "" : named->second;
    if (routes.empty()) return;
    if (routes == kAsKernel) routes = direct_ ? "pages" : "cached";
    report_.check(among(done.route, routes), "expected route " + routes);
  }

  void check_page_cache(const std::string& file) {
    if (!o_.no_page_cache) return;
    auto cached = cached_bytes(o_.directory + "/" + file);
    report_.check(cached && *cached == 0, "bytes in the page cache");
  }

  // The file arrives in memory and goes from there into another file: so memory that is not seen here is compared, too.
  void copy_file(Client& client, const Memory& memory, const std::string& kind) {
    const std::string name =
        std::string("out-") + client.name();  // the mount may believe a name for a moment
    const std::string out = o_.directory + "/" + name;
    posix::Fd source(open(client.path("in").c_str(), O_RDONLY | O_CLOEXEC));
    if (!source) return report_.fail("open in: " + std::string(std::strerror(errno)));
    Done done = client.move(Direction::read, source.get(), 0, 0, bytes_.size());
    report_.line(client, kind, "read", done);
    refused_.reset();
    if (done.reason == HIPFILE_FUSE_REASON_FAILED) refused_ = std::chrono::steady_clock::now();
    report_.check_bytes(done, bytes_.size());
    check_route(done, kind);
    check_page_cache("in");
    if (client.memory_is_visible())
      report_.check(memcmp(memory.address(), bytes_.data(), bytes_.size()) == 0,
                    "memory differs from the file");
    unlink(client.path(name).c_str());
    posix::Fd target(open(client.path(name).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
    if (!target) return report_.fail("create " + name + ": " + std::string(std::strerror(errno)));
    for (const char* what : {"write", "overwrite"}) {
      done = client.move(Direction::write, target.get(), 0, 0, bytes_.size());
      report_.line(client, kind, what, done);
      report_.check_bytes(done, bytes_.size());
      check_route(done, kind);
      check_page_cache(name);
      const std::vector<char> written = file_bytes(out);
      report_.check_same(written.data(), written.size(), bytes_, "the file written");
    }
  }

  // What the kernel has refused is not tried again at once.
  void read_again(Client& client, const std::string& kind) {
    posix::Fd source(open(client.path("in").c_str(), O_RDONLY | O_CLOEXEC));
    Done done = client.move(Direction::read, source.get(), 0, 0, bytes_.size());
    report_.line(client, kind, "again", done);
    report_.check_bytes(done, bytes_.size());
    if (refused_ && std::chrono::steady_clock::now() - *refused_ < kPause)
      report_.check(done.reason == HIPFILE_FUSE_REASON_FAILED_BEFORE, "tried again though it was refused");
  }

  // Odd head and tail, and the end of the file inside.
  void read_unaligned(Client& client, const Memory& memory, const std::string& kind) {
    constexpr size_t kSkip = 1237;
    if (bytes_.size() <= kSkip) return;
    posix::Fd source(open(client.path("in").c_str(), O_RDONLY | O_CLOEXEC));
    Done done = client.move(Direction::read, source.get(), kSkip, kSkip, bytes_.size());
    report_.line(client, kind, "unaligned", done);
    report_.check_bytes(done, bytes_.size() - kSkip);
    if (client.memory_is_visible())
      report_.check(memcmp(memory.address() + kSkip, &bytes_[kSkip], bytes_.size() - kSkip) == 0,
                    "memory differs from the file");
  }

  void read_tagged(MountClient& client, const std::string& kind) {
    bytes_ = fresh_bytes(o_.bytes);
    if (auto written = write_file(o_.directory + "/in", bytes_); !written)
      return report_.fail(written.error().text());
    posix::Fd source(open(client.path("in").c_str(), O_RDONLY | O_CLOEXEC));
    auto got =
        posix::Mapping::anonymous(bytes_.size());  // whole pages: the kernel then sends on whole requests
    if (!got) return report_.fail(got.error().text());
    Done done = client.read_tagged(source.get(), got->data(), bytes_.size());
    report_.line(client, kind, "tagged read", done);
    report_.check_bytes(done, bytes_.size());
    check_route(done, kind);
    check_page_cache("in");
    report_.check_same(got->data(), bytes_.size(), bytes_, "what was read");
  }

  const Options& o_;
  Report& report_;
  std::vector<char> bytes_;
  bool direct_ = false;                                           // the kernel takes this memory
  std::optional<std::chrono::steady_clock::time_point> refused_;  // it did not take it for `in`
};

void use_memory(const Options& o, const posix::Result<Memory>& memory, const std::string& kind,
                Report& report, const Use& use) {
  if (!memory) return report.fail(memory.error().text());
  auto library = LibraryClient::make(o.directory, *memory);
  if (!library) return report.fail(library.error().text());
  use(**library, *memory, kind);
  if (o.mount.empty()) return;
  auto mount = MountClient::make(o.mount, *memory);
  if (!mount) return report.fail(mount.error().text());
  use(**mount, *memory, kind);
}

// The daemon lets go of a buffer some time after its descriptor is closed.
bool comes_back(const std::string& allocate, size_t before) {
  for (int tenths = 0; tenths < 300; tenths++) {
    if (auto left = device_memory_left(allocate); left && *left == before) return true;
    usleep(100'000);
  }
  return false;
}

// The kernel gives the memory, once to this program and once to the mount, and has it back afterwards.
void use_device_memory(const Options& o, const std::shared_ptr<const gpu::Runtime>& runtime, size_t size,
                       Report& report, const Use& use) {
  const auto before = device_memory_left(o.allocate);
  use_memory(o, Memory::of_device(runtime, o.allocate, size), "p2pmem", report,
             [&](Client& client, const Memory& memory, const std::string& kind) {
               const auto left = device_memory_left(o.allocate);
               const size_t uses = dynamic_cast<MountClient*>(&client) ? 2 : 1;
               report.check(before && left && *before - *left == uses * size,
                            "the kernel counts the memory as used");
               use(client, memory, kind);
             });
  report.check(before && comes_back(o.allocate, *before), "the kernel has the memory back");
}

}  // namespace

void with_each(const Options& o, Report& report, const Use& use) {
  auto runtime = gpu::Runtime::load("auto");
  if (!runtime) return report.fail(runtime.error().text());
  const size_t size = (o.bytes + 2 * kPage - 1) / kPage * kPage;
  if (!o.only_device_memory) use_memory(o, Memory::of_runtime(*runtime, size), "runtime", report, use);
  if (!o.allocate.empty()) use_device_memory(o, *runtime, size, report, use);
}

int transfer(const Options& o) {
  Report report;
  Transfers transfers(o, report);
  with_each(o, report, [&](Client& client, const Memory& memory, const std::string& kind) {
    transfers.run(client, memory, kind);
  });
  if (o.allocate.empty() || o.only_device_memory) return report.status();
  // What was refused for a device's memory is not held against other memory with the same file.
  Options ordinary = o;
  ordinary.allocate.clear();
  with_each(ordinary, report, [&](Client& client, const Memory&, const std::string& kind) {
    transfers.read_beside(client, kind);
  });
  return report.status();
}

// Whole blocks go directly, an odd head and tail through the page cache.
int mixed(const Options& o) {
  constexpr size_t kHead = 96, kTail = 100;
  Report report;
  const std::vector<char> bytes = fresh_bytes(o.bytes);
  if (auto written = write_file(o.directory + "/in", bytes); !written) report.fail(written.error().text());
  with_each(o, report, [&](Client& client, const Memory& memory, const std::string& kind) {
    const size_t begin = kPage - kHead, end = o.bytes - kPage + kTail;
    posix::Fd source(open(client.path("in").c_str(), O_RDONLY | O_CLOEXEC));
    Done done = client.move(Direction::read, source.get(), begin, begin, end - begin);
    report.line(client, kind, "mixed", done);
    report.check_bytes(done, end - begin);
    report.check(memcmp(memory.address() + begin, &bytes[begin], end - begin) == 0,
                 "memory differs from the file");
  });
  return report.status();
}

}  // namespace vm
