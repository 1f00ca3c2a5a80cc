// Device memory of another process, as the daemon takes it: this program is the daemon, its children are the clients.
#include "client.h"
#include "gpu/import.h"

namespace {

using namespace gpu_test;

class GpuIpc : public Gpu {
 protected:
  static std::vector<char> contents(const gpu::Memory& m, size_t offset, size_t length) {
    std::vector<char> out(length);
    EXPECT_EQ(api().hipMemcpy(out.data(), m.address + offset, length, hip::kMemcpyDefault), hip::kSuccess);
    return out;
  }
  static void put(const gpu::Memory& m, size_t offset, const std::vector<char>& bytes) {
    ASSERT_EQ(api().hipMemcpy(m.address + offset, bytes.data(), bytes.size(), hip::kMemcpyDefault),
              hip::kSuccess);
  }
  static auto import(const hip::IpcMemHandle& handle, uint64_t offset, uint64_t length) {
    return gpu::import_ipc(runtime(), 0, handle, offset, length);
  }
};

TEST_F(GpuIpc, SeesWhatTheClientWroteAndTheOtherWayRound) {
  Client client;
  for (size_t size : {size_t{4096}, 3 * kMiB, 64 * kMiB}) {
    int memory = client.allocate(size, 1);
    auto handle = client.handle(memory);
    ASSERT_TRUE(handle) << runtime()->error_name(handle.error());
    auto imported = import(*handle, 0, size);
    ASSERT_TRUE(imported) << imported.error().text();
    const gpu::Memory& m = (*imported)->memory();
    EXPECT_EQ(m.kind, gpu::MemoryKind::device);
    EXPECT_GE(m.length, size);
    EXPECT_EQ(contents(m, 0, size), pattern(size, 1)) << size;
    put(m, 0, pattern(size, 2));
    EXPECT_TRUE(client.holds(memory, 0, size, 2)) << size;
  }
}

// Small allocations share the driver's pages: each handle leads to its own.
TEST_F(GpuIpc, SmallAllocationsAreToldApart) {
  Client client;
  std::vector<std::unique_ptr<gpu::Imported>> all;
  std::vector<int> memory;
  for (unsigned i = 0; i < 20; i++) {
    memory.push_back(client.allocate(1000, i));
    auto handle = client.handle(memory.back());
    ASSERT_TRUE(handle);
    auto imported = import(*handle, 0, 1000);
    ASSERT_TRUE(imported) << imported.error().text();
    all.push_back(std::move(*imported));
  }
  for (unsigned i = 0; i < 20; i++) EXPECT_EQ(contents(all[i]->memory(), 0, 1000), pattern(1000, i)) << i;
  put(all[7]->memory(), 0, pattern(1000, 77));
  EXPECT_TRUE(client.holds(memory[7], 0, 1000, 77));
  EXPECT_TRUE(client.holds(memory[8], 0, 1000, 8));
}

// A tensor of a caching allocator: a handle for a pointer inside a segment, and an offset counted from it.
TEST_F(GpuIpc, ASuballocationIsFoundInItsSegment) {
  Client client;
  const size_t size = 20 * kMiB;
  int segment = client.allocate(size, 3);
  const auto bytes = pattern(size, 3);
  for (size_t inside : {size_t{0}, size_t{512}, 7 * kMiB + 1024}) {
    auto handle = client.handle(segment, inside);
    ASSERT_TRUE(handle) << runtime()->error_name(handle.error()) << " for a pointer " << inside
                        << " bytes inside";
    auto imported = import(*handle, 100, 2 * kMiB);
    ASSERT_TRUE(imported) << imported.error().text();
    EXPECT_EQ(contents((*imported)->memory(), 0, 2 * kMiB),
              std::vector<char>(&bytes[inside + 100], &bytes[inside + 100 + 2 * kMiB]))
        << inside;
  }
  auto handle = client.handle(segment, 19 * kMiB);
  EXPECT_TRUE(import(*handle, 0, kMiB));
  EXPECT_EQ(import(*handle, 0, kMiB + 1).error().code, EINVAL);
}

TEST_F(GpuIpc, TheSameMemoryCanBeImportedAgainAndAgain) {
  Client client;
  int memory = client.allocate(4 * kMiB, 4);
  auto handle = *client.handle(memory);
  auto first = import(handle, 0, 4 * kMiB), second = import(handle, kMiB, kMiB);
  ASSERT_TRUE(first) << first.error().text();
  ASSERT_TRUE(second) << second.error().text();
  first->reset();
  const auto bytes = pattern(4 * kMiB, 4);
  EXPECT_EQ(contents((*second)->memory(), 0, kMiB), std::vector<char>(&bytes[kMiB], &bytes[2 * kMiB]));
  second->reset();
  for (int i = 0; i < 50; i++) {
    auto again = import(handle, 0, 4 * kMiB);
    ASSERT_TRUE(again) << i << ": " << again.error().text();
  }
}

TEST_F(GpuIpc, SeveralClientsDoNotMix) {
  std::vector<std::unique_ptr<Client>> clients;
  std::vector<std::unique_ptr<gpu::Imported>> imports;
  for (unsigned i = 0; i < 4; i++) {
    clients.push_back(std::make_unique<Client>());
    int memory = clients.back()->allocate(2 * kMiB, 10 + i);
    auto imported = import(*clients.back()->handle(memory), 0, 2 * kMiB);
    ASSERT_TRUE(imported) << imported.error().text();
    imports.push_back(std::move(*imported));
  }
  for (unsigned i = 0; i < 4; i++)
    EXPECT_EQ(contents(imports[i]->memory(), 0, 2 * kMiB), pattern(2 * kMiB, 10 + i)) << i;
  for (unsigned i = 0; i < 4; i++) put(imports[i]->memory(), 0, pattern(2 * kMiB, 20 + i));
  for (unsigned i = 0; i < 4; i++) EXPECT_TRUE(clients[i]->holds(0, 0, 2 * kMiB, 20 + i)) << i;
}

// Documented as undefined; what it must not do is harm others.
TEST_F(GpuIpc, FreeingEarlyHarmsNobodyElse) {
  Client client;
  int doomed = client.allocate(4 * kMiB, 5), other = client.allocate(4 * kMiB, 6);
  auto first = import(*client.handle(doomed), 0, 4 * kMiB),
       second = import(*client.handle(other), 0, 4 * kMiB);
  ASSERT_TRUE(first && second);
  auto stale = *client.handle(doomed);
  ASSERT_TRUE(client.free(doomed));
  std::vector<char> out(4 * kMiB);
  hip::Error error =
      api().hipMemcpy(out.data(), (*first)->memory().address, out.size(), hip::kMemcpyDeviceToHost);
  std::cout << "copying from memory that its owner freed: " << runtime()->error_name(error) << ", bytes "
            << (out == pattern(out.size(), 5) ? "as they were" : "changed") << "\n";
  api().hipGetLastError();
  first->reset();
  auto late = import(stale, 0, 4 * kMiB);
  std::cout << "importing a handle of freed memory: " << (late ? "works" : late.error().text()) << "\n";
  if (late) late->reset();
  EXPECT_EQ(contents((*second)->memory(), 0, 4 * kMiB), pattern(4 * kMiB, 6));
  put((*second)->memory(), 0, pattern(4 * kMiB, 7));
  EXPECT_TRUE(client.holds(other, 0, 4 * kMiB, 7));
}

TEST_F(GpuIpc, AClientsDeathLeavesTheOthersAndUsAlive) {
  auto doomed = std::make_unique<Client>();
  Client other;
  auto first = import(*doomed->handle(doomed->allocate(4 * kMiB, 8)), 0, 4 * kMiB);
  int kept = other.allocate(4 * kMiB, 9);
  auto second = import(*other.handle(kept), 0, 4 * kMiB);
  ASSERT_TRUE(first && second);
  auto late_handle = *doomed->handle(0);
  doomed->kill();
  std::vector<char> out(4 * kMiB);
  hip::Error error =
      api().hipMemcpy(out.data(), (*first)->memory().address, out.size(), hip::kMemcpyDeviceToHost);
  std::cout << "copying from memory of a dead process: " << runtime()->error_name(error) << ", bytes "
            << (out == pattern(out.size(), 8) ? "as they were" : "changed") << "\n";
  api().hipGetLastError();
  first->reset();
  auto late = import(late_handle, 0, 4 * kMiB);
  EXPECT_FALSE(late);
  if (!late) std::cout << "importing from a dead process: " << late.error().text() << "\n";
  EXPECT_EQ(contents((*second)->memory(), 0, 4 * kMiB), pattern(4 * kMiB, 9));
  auto fresh = import(*other.handle(other.allocate(kMiB, 10)), 0, kMiB);
  ASSERT_TRUE(fresh) << fresh.error().text();
  EXPECT_EQ(contents((*fresh)->memory(), 0, kMiB), pattern(kMiB, 10));
}

TEST_F(GpuIpc, RefusesHandlesThatAreNone) {
  hip::IpcMemHandle nonsense{};
  EXPECT_FALSE(import(nonsense, 0, 1));
  memset(&nonsense, 0x5a, sizeof nonsense);
  auto imported = import(nonsense, 0, 1);
  ASSERT_FALSE(imported);
  std::cout << imported.error().text() << "\n";
  DeviceMemory own(kMiB);
  hip::IpcMemHandle handle{};
  ASSERT_EQ(api().hipIpcGetMemHandle(&handle, own.address()), hip::kSuccess);
  imported = import(handle, 0, kMiB);
  EXPECT_FALSE(imported);  // the exporter has it already
  if (!imported) std::cout << imported.error().text() << "\n";
  EXPECT_EQ(gpu::import_ipc(runtime(), 99, handle, 0, 1).error().code, ENODEV);
  Client client;
  auto real = *client.handle(client.allocate(kMiB, 1));
  EXPECT_EQ(import(real, 0, 0).error().code, EINVAL);
  EXPECT_EQ(import(real, UINT64_MAX, 2).error().code, EINVAL);
}

TEST_F(GpuIpc, TakesAllocationsSharedByDescriptor) {
  Client client;
  size_t size = 0;
  posix::Fd fd = client.shared_segment(31, size);
  if (size == 0) GTEST_SKIP() << "needs CUDA's virtual memory management";
  ASSERT_TRUE(fd);
  EXPECT_TRUE(gpu::is_memory(fd.get()));
  auto imported = gpu::import_fd(runtime(), 0, *posix::duplicate(fd.get()), 0, size);
  ASSERT_TRUE(imported) << imported.error().text();
  EXPECT_EQ(contents((*imported)->memory(), 0, size), pattern(size, 31));
  put((*imported)->memory(), 0, pattern(size, 32));
  EXPECT_TRUE(client.segment_holds(0, size, 32));
  auto part = gpu::import_fd(runtime(), 0, *posix::duplicate(fd.get()), 1000, 5000);
  ASSERT_TRUE(part) << part.error().text();
  EXPECT_EQ((*part)->memory().length, 5000u);
  const auto bytes = pattern(size, 32);
  EXPECT_EQ(contents((*part)->memory(), 0, 5000), std::vector<char>(&bytes[1000], &bytes[6000]));
  auto beyond = gpu::import_fd(runtime(), 0, *posix::duplicate(fd.get()), size, 4096);
  EXPECT_FALSE(beyond);
  if (!beyond) std::cout << beyond.error().text() << "\n";
  imported->reset();
  part->reset();
  EXPECT_TRUE(client.segment_holds(0, size, 32));
}

// Where this works depends on kernel, driver and GPU; where it does not, it says so.
TEST_F(GpuIpc, TakesDmaBufsWhereTheDriverDoes) {
  Client client;
  int memory = client.allocate(4 * kMiB, 41);
  auto fd = client.dma_buf(memory);
  if (!fd)
    GTEST_SKIP() << "this driver makes no dma-buf of device memory: " << runtime()->error_name(fd.error());
  auto imported = gpu::import_fd(runtime(), 0, std::move(*fd), 0, 4 * kMiB);
  if (!imported) GTEST_SKIP() << "this driver imports no dma-buf: " << imported.error().text();
  EXPECT_EQ(contents((*imported)->memory(), 0, 4 * kMiB), pattern(4 * kMiB, 41));
  put((*imported)->memory(), 0, pattern(4 * kMiB, 42));
  EXPECT_TRUE(client.holds(memory, 0, 4 * kMiB, 42));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string(argv[1]) == "--gpu-client") return gpu_test::run_client();
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
