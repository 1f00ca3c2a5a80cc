// The mount with a GPU: clients register device memory, and what they read lands there.
#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <thread>

#include "client.h"
#include "ioctl_fixture.h"

namespace {

using namespace overlay;
using gpu_test::api;
using gpu_test::DeviceMemory;
using gpu_test::kMiB;

class GpuOverlay : public Mounted {
 protected:
  void SetUp() override {
    if (auto why = gpu_test::missing(); !why.empty()) GTEST_SKIP() << why;
    Mounted::SetUp();
    if (IsSkipped()) return;
    make_file("data", kBytes);
    const char* name = getenv("HIPFILE_TEST_RUNTIME");
    mount(name ? "runtime=" + std::string(name) : "");
    root_ = posix::Fd(open(mount_.c_str(), O_RDONLY | O_DIRECTORY));
    ASSERT_TRUE(root_);
  }
  posix::Fd open_file(int flags = O_RDONLY, const std::string& name = "data") {
    posix::Fd fd(open(mounted(name).c_str(), flags | O_CLOEXEC, 0644));
    EXPECT_TRUE(fd) << strerror(errno);
    return fd;
  }
  static hipfile_fuse_register by_handle(const hip::IpcMemHandle& handle, uint64_t offset, uint64_t length,
                                         uint32_t flags) {
    hipfile_fuse_register r{};
    r.version = HIPFILE_FUSE_ABI_VERSION;
    r.kind = HIPFILE_FUSE_BUFFER_HIP_IPC;
    r.fd = -1;
    r.flags = flags;
    r.offset = offset;
    r.length = length;
    memcpy(r.ipc_handle, &handle, sizeof handle);
    return r;
  }
  // The id of device memory of this process.
  uint64_t register_memory(int fd, const DeviceMemory& memory, uint32_t flags = 0) {
    hip::IpcMemHandle handle{};
    EXPECT_EQ(api().hipIpcGetMemHandle(&handle, memory.address()), hip::kSuccess);
    auto r = by_handle(handle, 0, memory.size(), flags);
    EXPECT_EQ(try_register(fd, r), 0);
    return r.buffer_id;
  }
  static bool holds(const DeviceMemory& memory, size_t offset, const char* bytes, size_t length) {
    return memcmp(memory.bytes(offset, length).data(), bytes, length) == 0;
  }

  const std::vector<char> kBytes = gpu_test::pattern(20 * kMiB + 1234, 1);
  posix::Fd root_;
};

TEST_F(GpuOverlay, TheDaemonSeesTheSameGpu) {
  auto i = info(root_.get());
  EXPECT_GT(i.device_count, 0);
  EXPECT_EQ(i.device_count, gpu_test::runtime()->device_count());
  EXPECT_NE(i.runtime, static_cast<uint32_t>(HIPFILE_FUSE_RUNTIME_SOFTWARE));
  std::cout << i.runtime_name << "\n";
}

TEST_F(GpuOverlay, IoMovesBytesIntoDeviceMemoryAndOutOfIt) {
  DeviceMemory memory(24 * kMiB);
  posix::Fd fd = open_file(O_RDWR);
  uint64_t id = register_memory(fd.get(), memory);
  for (bool cold : {false, true})
    for (size_t length : {size_t{1}, size_t{4096}, size_t{100'001}, 4 * kMiB, kBytes.size() - 777}) {
      if (cold) posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED);
      auto io = make_io(HIPFILE_FUSE_OP_READ, id, 333, 777, length);
      ASSERT_EQ(try_io(fd.get(), io), 0);
      ASSERT_EQ(io.result, static_cast<int64_t>(length));
      EXPECT_NE(io.route, static_cast<uint32_t>(HIPFILE_FUSE_ROUTE_NONE));
      EXPECT_TRUE(holds(memory, 333, &kBytes[777], length)) << length;
    }
  EXPECT_EQ(read_io(fd.get(), id, 0, kBytes.size() - 10, kMiB), 10);
  const auto other = gpu_test::pattern(9 * kMiB + 1, 2);
  memory.fill(other, 5);
  EXPECT_EQ(write_io(fd.get(), id, 5, 1001, other.size()), static_cast<int64_t>(other.size()));
  auto file = file_bytes("data");
  EXPECT_EQ(memcmp(&file[1001], other.data(), other.size()), 0);
  EXPECT_EQ(memcmp(file.data(), kBytes.data(), 1001), 0);
  EXPECT_EQ(unregister(fd.get(), id), 0);
}

TEST_F(GpuOverlay, BatchesLandWhereTheyShould) {
  constexpr unsigned kCount = 250;
  DeviceMemory memory(24 * kMiB);
  posix::Fd fd = open_file();
  uint64_t id = register_memory(fd.get(), memory);
  std::vector<char> argument(HIPFILE_FUSE_BATCH_BYTES(kCount));
  auto* header = reinterpret_cast<hipfile_fuse_batch*>(argument.data());
  auto* entries = reinterpret_cast<hipfile_fuse_batch_entry*>(header + 1);
  header->version = HIPFILE_FUSE_ABI_VERSION;
  header->count = kCount;
  for (unsigned i = 0; i < kCount; i++) {
    entries[i].op = HIPFILE_FUSE_OP_READ;
    entries[i].buffer_id = id;
    entries[i].buffer_offset = i * 80'000;
    entries[i].file_offset = i * 7919;
    entries[i].length = 1 + i * 300;
  }
  ASSERT_EQ(ioctl(fd.get(), HIPFILE_FUSE_IOC_BATCH(kCount), header), 0) << strerror(errno);
  for (unsigned i = 0; i < kCount; i++) {
    EXPECT_EQ(entries[i].result, static_cast<int64_t>(1 + i * 300));
    EXPECT_TRUE(holds(memory, i * 80'000, &kBytes[i * 7919], 1 + i * 300)) << i;
  }
}

TEST_F(GpuOverlay, TaggedReadsLandInDeviceMemory) {
  DeviceMemory memory(24 * kMiB);
  uint64_t id = register_memory(root_.get(), memory, HIPFILE_FUSE_REGISTER_PROCESS);
  posix::Fd fd = open_file();
  ASSERT_EQ(try_tag(fd.get(), make_tag(id, 64, 0, kBytes.size())), 0);
  std::vector<char> own(kBytes.size(), 'o');
  size_t done = 0;
  while (done < kBytes.size()) {
    ssize_t n = read(fd.get(), own.data(), kMiB);
    ASSERT_GT(n, 0) << strerror(errno);
    done += static_cast<size_t>(n);
  }
  EXPECT_TRUE(holds(memory, 64, kBytes.data(), kBytes.size()));
  EXPECT_EQ(std::vector<char>(own.begin(), own.begin() + 1000), std::vector<char>(1000, 0));
  hipfile_fuse_untag ended{};
  ASSERT_EQ(try_untag(fd.get(), &ended), 0);
  EXPECT_EQ(ended.bytes_read, kBytes.size());
  EXPECT_EQ(ended.failures, 0u);
  ASSERT_EQ(try_tag(fd.get(), make_tag(id, 0, 5 * kMiB, kMiB, HIPFILE_FUSE_TAG_TEE)), 0);
  ASSERT_EQ(pread(fd.get(), own.data(), 10'000, 5 * kMiB + 7), 10'000);
  EXPECT_EQ(memcmp(own.data(), &kBytes[5 * kMiB + 7], 10'000), 0);
  EXPECT_TRUE(holds(memory, 7, &kBytes[5 * kMiB + 7], 10'000));
}

TEST_F(GpuOverlay, SuballocationsOfASegmentAreBuffersOfTheirOwn) {
  DeviceMemory segment(20 * kMiB);
  ASSERT_EQ(api().hipMemset(segment.address(), 0x77, segment.size()), hip::kSuccess);
  posix::Fd fd = open_file();
  hip::IpcMemHandle handle{};
  ASSERT_EQ(api().hipIpcGetMemHandle(&handle, segment.address()), hip::kSuccess);
  auto r = by_handle(handle, 3 * kMiB + 512, 2 * kMiB, 0);
  ASSERT_EQ(try_register(fd.get(), r), 0);
  EXPECT_EQ(read_io(fd.get(), r.buffer_id, 0, 4096, 2 * kMiB), static_cast<int64_t>(2 * kMiB));
  EXPECT_EQ(read_io(fd.get(), r.buffer_id, 1, 0, 2 * kMiB), -ERANGE);
  EXPECT_TRUE(holds(segment, 3 * kMiB + 512, &kBytes[4096], 2 * kMiB));
  EXPECT_EQ(segment.bytes(0, 3 * kMiB + 512), std::vector<char>(3 * kMiB + 512, 0x77));
  EXPECT_EQ(segment.bytes(5 * kMiB + 512, kMiB), std::vector<char>(kMiB, 0x77));
  // The same by the pointer inside.
  ASSERT_EQ(api().hipIpcGetMemHandle(&handle, segment.address() + 9 * kMiB + 256), hip::kSuccess);
  auto inside = by_handle(handle, 0, kMiB, 0);
  ASSERT_EQ(try_register(fd.get(), inside), 0);
  EXPECT_EQ(read_io(fd.get(), inside.buffer_id, 0, 77, kMiB), static_cast<int64_t>(kMiB));
  EXPECT_TRUE(holds(segment, 9 * kMiB + 256, &kBytes[77], kMiB));
}

TEST_F(GpuOverlay, SeveralClientsAtOnceGetTheirOwnBytes) {
  constexpr int kClients = 4;
  std::vector<std::unique_ptr<gpu_test::Client>> clients;
  std::vector<uint64_t> ids;
  posix::Fd fd = open_file();
  for (int i = 0; i < kClients; i++) {
    clients.push_back(std::make_unique<gpu_test::Client>());
    auto handle = clients.back()->handle(clients.back()->allocate(4 * kMiB, 50));
    ASSERT_TRUE(handle);
    auto r = by_handle(*handle, 0, 4 * kMiB, 0);
    ASSERT_EQ(try_register(fd.get(), r), 0);
    ids.push_back(r.buffer_id);
  }
  const auto content = gpu_test::pattern(16 * kMiB, 60);
  for (int i = 0; i < kClients; i++)
    make_file("file" + std::to_string(i), gpu_test::pattern(4 * kMiB, static_cast<unsigned>(60 + i)));
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int i = 0; i < kClients; i++)
    threads.emplace_back([&, i] {
      for (int round = 0; round < 5; round++)
        if (read_io(fd.get(), ids[static_cast<size_t>(i)], 0, 0, 4 * kMiB) != static_cast<int64_t>(4 * kMiB))
          wrong++;
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
  const std::vector<char> expected(kBytes.begin(), kBytes.begin() + static_cast<ptrdiff_t>(4 * kMiB));
  for (auto& client : clients)
    EXPECT_TRUE(client->holds(0, 0, 4096, 1));  // the first bytes of pattern(.., 1)
}

TEST_F(GpuOverlay, OutlivesClientsThatDieOrFreeTooEarly) {
  posix::Fd fd = open_file();
  auto doomed = std::make_unique<gpu_test::Client>();
  auto r = by_handle(*doomed->handle(doomed->allocate(8 * kMiB, 1)), 0, 8 * kMiB, 0);
  ASSERT_EQ(try_register(fd.get(), r), 0);
  EXPECT_EQ(read_io(fd.get(), r.buffer_id, 0, 0, 8 * kMiB), static_cast<int64_t>(8 * kMiB));
  doomed->kill();
  int64_t after = read_io(fd.get(), r.buffer_id, 0, 0, kMiB);
  std::cout << "reading into memory of a dead process: " << after << "\n";
  gpu_test::Client early;
  int freed = early.allocate(8 * kMiB, 2);
  auto e = by_handle(*early.handle(freed), 0, 8 * kMiB, 0);
  ASSERT_EQ(try_register(fd.get(), e), 0);
  ASSERT_TRUE(early.free(freed));
  after = read_io(fd.get(), e.buffer_id, 0, 0, kMiB);
  std::cout << "reading into memory that its owner freed: " << after << "\n";
  EXPECT_EQ(unregister(fd.get(), r.buffer_id), 0);
  EXPECT_EQ(unregister(fd.get(), e.buffer_id), 0);
  DeviceMemory mine(4 * kMiB);
  uint64_t id = register_memory(fd.get(), mine);
  EXPECT_EQ(read_io(fd.get(), id, 0, 0, 4 * kMiB), static_cast<int64_t>(4 * kMiB));
  EXPECT_TRUE(holds(mine, 0, kBytes.data(), 4 * kMiB));
}

TEST_F(GpuOverlay, TakesAllocationsSharedByDescriptor) {
  gpu_test::Client client;
  size_t size = 0;
  posix::Fd shared = client.shared_segment(31, size);
  if (size == 0) GTEST_SKIP() << "needs CUDA's virtual memory management";
  posix::Fd fd = open_file();
  auto r = registration_by_fd(shared.get(), size);
  ASSERT_EQ(try_register(fd.get(), r), 0);
  EXPECT_EQ(read_io(fd.get(), r.buffer_id, 0, 0, size), static_cast<int64_t>(size));
  EXPECT_TRUE(client.segment_holds(0, 4096, 1));
}

TEST_F(GpuOverlay, TheToolsVerifyWhatTheyLoad) {
  auto [load, text] = shell(program("hipfile-load") + " --verify " + mounted("data"));
  EXPECT_EQ(load, 0) << text;
  std::cout << text;
  auto [tagged, output] = shell(program("hipfile-tag") + " --checksum " + mounted("data") +
                                " -- dd of=/dev/null bs=1M status=none");
  EXPECT_EQ(tagged, 0) << output;
  std::cout << output;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string(argv[1]) == "--gpu-client") return gpu_test::run_client();
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
