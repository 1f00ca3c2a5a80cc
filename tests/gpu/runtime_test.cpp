// What the library, the daemon and their clients count on in a HIP runtime, on a GPU.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "gpu.h"
#include "gpu/stream.h"
#include "posix/fd.h"
#include "vmm.h"

namespace {

using namespace gpu_test;

using GpuRuntime = Gpu;

TEST_F(GpuRuntime, DescribesTheGpu) {
  std::cout << runtime()->describe() << "\n";
  char bus[32] = "";
  ASSERT_EQ(call("hipDeviceGetPCIBusId", &bus[0], int{sizeof bus}, 0), hip::kSuccess);
  int device = -1;
  EXPECT_EQ(call("hipDeviceGetByPCIBusId", &device, const_cast<const char*>(bus)), hip::kSuccess) << bus;
  EXPECT_EQ(device, 0);
  int threads = 0, integrated = -1;
  EXPECT_EQ(api().hipDeviceGetAttribute(&threads, hip::kAttributeMaxThreadsPerBlock, 0), hip::kSuccess);
  EXPECT_GE(threads, 256);
  EXPECT_EQ(api().hipDeviceGetAttribute(&integrated, hip::kAttributeIntegrated, 0), hip::kSuccess);
  size_t free_bytes = 0, total = 0;
  EXPECT_EQ(call("hipMemGetInfo", &free_bytes, &total), hip::kSuccess);
  EXPECT_GT(total, size_t{1} << 30);
  EXPECT_LE(free_bytes, total);
  std::cout << "PCI " << bus << ", integrated " << integrated << ", " << (total >> 20) << " MiB\n";
}

TEST_F(GpuRuntime, CopiesEverySizeAtEveryAlignment) {
  const auto bytes = pattern(8 * kMiB, 1);
  DeviceMemory a(8 * kMiB + 64), b(8 * kMiB + 64);
  for (size_t size :
       {size_t{1}, size_t{7}, size_t{512}, size_t{4097}, 64 * 1024 - size_t{1}, kMiB + 3, 8 * kMiB})
    for (size_t at : {0, 1, 13}) {
      const std::vector<char> part(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(size));
      a.fill(part, at);
      ASSERT_EQ(api().hipMemcpy(b.address() + 3, a.address() + at, size, hip::kMemcpyDeviceToDevice),
                hip::kSuccess);
      ASSERT_EQ(b.bytes(3, size), part) << size << " at " << at;
      ASSERT_EQ(api().hipMemset(a.address() + at, 0x5a, size), hip::kSuccess);
      ASSERT_EQ(a.bytes(at, size), std::vector<char>(size, 0x5a));
      ASSERT_EQ(api().hipMemcpy(a.address() + at, b.address() + 3, size, hip::kMemcpyDefault), hip::kSuccess);
      ASSERT_EQ(a.bytes(at, size), part);
    }
}

TEST_F(GpuRuntime, RefusesCopiesThatAreNone) {
  DeviceMemory a(4096);
  std::vector<char> host(4096);
  EXPECT_NE(api().hipMemcpy(a.address(), nullptr, 1, hip::kMemcpyHostToDevice), hip::kSuccess);
  EXPECT_NE(api().hipMemcpy(a.address(), host.data(), 1, static_cast<hip::MemcpyKind>(9)), hip::kSuccess);
  EXPECT_NE(api().hipFree(host.data()), hip::kSuccess);
  EXPECT_NE(api().hipSetDevice(1000), hip::kSuccess);
  EXPECT_NE(api().hipGetLastError(), hip::kSuccess);
  EXPECT_EQ(api().hipGetLastError(), hip::kSuccess);
  a.fill(host);  // and the device works on
}

TEST_F(GpuRuntime, AllocatesMoreThanThereIsNot) {
  void* p = nullptr;
  EXPECT_EQ(api().hipMalloc(&p, size_t{1} << 45), hip::kErrorOutOfMemory);
  EXPECT_EQ(api().hipGetLastError(), hip::kErrorOutOfMemory);
  EXPECT_EQ(api().hipMalloc(&p, 0), hip::kSuccess);
  EXPECT_EQ(p, nullptr);
}

TEST_F(GpuRuntime, TellsKindsOfMemoryApart) {
  auto kind = [](void* p) {
    auto m = gpu::describe(*runtime(), p);
    return m ? m->kind : gpu::MemoryKind::pageable;
  };
  DeviceMemory device(3 * kMiB);
  void *host = nullptr, *managed = nullptr;
  ASSERT_EQ(api().hipHostMalloc(&host, kMiB, hip::kHostMallocPortable), hip::kSuccess);
  EXPECT_EQ(kind(device.address()), gpu::MemoryKind::device);
  EXPECT_EQ(kind(device.address() + 3 * kMiB - 1), gpu::MemoryKind::device);
  EXPECT_EQ(kind(host), gpu::MemoryKind::host);
  EXPECT_EQ(kind(static_cast<char*>(host) + 4097), gpu::MemoryKind::host);
  if (call("hipMallocManaged", &managed, kMiB, 1u) == hip::kSuccess) {
    EXPECT_EQ(kind(managed), gpu::MemoryKind::managed);
    api().hipFree(managed);
  }
  std::vector<char> own(kMiB);
  EXPECT_EQ(kind(own.data()), gpu::MemoryKind::pageable);
  void* mapped = mmap(nullptr, kMiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_EQ(call("hipHostRegister", mapped, kMiB, 0u), hip::kSuccess);
  EXPECT_EQ(kind(mapped), gpu::MemoryKind::host);
  EXPECT_EQ(call("hipHostUnregister", mapped), hip::kSuccess);
  EXPECT_EQ(kind(mapped), gpu::MemoryKind::pageable);
  munmap(mapped, kMiB);
  auto m = gpu::describe(*runtime(), device.address() + 5);
  ASSERT_TRUE(m);
  EXPECT_EQ(m->device, 0);
  EXPECT_EQ(m->length, 3 * kMiB - 5);
  api().hipHostFree(host);
  EXPECT_EQ(kind(host), gpu::MemoryKind::pageable);
}

// A caching allocator's tensors are places inside large allocations, and small allocations share pages.
TEST_F(GpuRuntime, FindsTheAllocationThatAPointerLiesIn) {
  DeviceMemory large(64 * kMiB), small(1000), next(1000);
  auto range = [](char* p) {
    void* base = nullptr;
    size_t size = 0;
    EXPECT_EQ(api().hipMemGetAddressRange(&base, &size, p), hip::kSuccess);
    return std::pair(static_cast<char*>(base), size);
  };
  EXPECT_EQ(range(large.address() + 33 * kMiB + 12345), std::pair(large.address(), large.size()));
  EXPECT_EQ(range(small.address() + 999).first, small.address());
  EXPECT_GE(range(small.address()).second, small.size());
  EXPECT_EQ(range(next.address() + 1).first, next.address());
  std::vector<char> own(100);
  void* base = nullptr;
  size_t size = 0;
  EXPECT_NE(api().hipMemGetAddressRange(&base, &size, own.data()), hip::kSuccess);
  hip::Stream stream = nullptr;
  ASSERT_EQ(api().hipStreamCreateWithFlags(&stream, hip::kStreamNonBlocking), hip::kSuccess);
  void* pooled = nullptr;
  if (call("hipMallocAsync", &pooled, 4 * kMiB, stream) == hip::kSuccess) {
    api().hipStreamSynchronize(stream);
    auto found = range(static_cast<char*>(pooled) + 100);
    EXPECT_LE(found.first, static_cast<char*>(pooled));
    EXPECT_GE(found.first + found.second, static_cast<char*>(pooled) + 4 * kMiB);
    EXPECT_EQ(call("hipFreeAsync", pooled, stream), hip::kSuccess);
  }
  api().hipStreamDestroy(stream);
}

// PyTorch's expandable segments.
TEST_F(GpuRuntime, SeesMappedAllocationsSideBySideAsOneRange) {
  auto vmm = Vmm::load();
  if (!vmm) GTEST_SKIP() << "needs CUDA's virtual memory management";
  Segment segment(*vmm, 3);
  ASSERT_TRUE(segment.address());
  auto m = gpu::describe(*runtime(), segment.address() + 100);
  ASSERT_TRUE(m) << runtime()->error_name(m.error());
  EXPECT_EQ(m->kind, gpu::MemoryKind::device);
  EXPECT_EQ(m->length, segment.size() - 100);
  auto bytes = pattern(segment.size() - 200, 5);  // one copy across all of them
  ASSERT_EQ(api().hipMemcpy(segment.address() + 100, bytes.data(), bytes.size(), hip::kMemcpyHostToDevice),
            hip::kSuccess);
  std::vector<char> back(bytes.size());
  ASSERT_EQ(api().hipMemcpy(back.data(), segment.address() + 100, back.size(), hip::kMemcpyDeviceToHost),
            hip::kSuccess);
  EXPECT_EQ(back, bytes);
}

TEST_F(GpuRuntime, StreamsKeepOrderAndWaitForValuesEventsAndHostFunctions) {
  void* word = nullptr;
  ASSERT_TRUE(api().hipExtMallocWithFlags);
  ASSERT_EQ(api().hipExtMallocWithFlags(&word, 8, hip::kMallocSignalMemory), hip::kSuccess);
  std::atomic_ref<uint64_t> flag(*static_cast<uint64_t*>(word));
  flag = 0;
  auto one = *gpu::Stream::create(runtime());
  auto event = *gpu::Event::create(runtime());
  static std::atomic<int> order;
  order = 0;
  ASSERT_EQ(api().hipStreamWaitValue64(one.handle(), word, 7, hip::kWaitGte, ~0ull), hip::kSuccess);
  ASSERT_EQ(api().hipLaunchHostFunc(
                one.handle(), [](void*) { order = order * 10 + 1; }, nullptr),
            hip::kSuccess);
  ASSERT_EQ(event.record(one), hip::kSuccess);
  ASSERT_EQ(api().hipLaunchHostFunc(
                one.handle(), [](void*) { order = order * 10 + 2; }, nullptr),
            hip::kSuccess);
  EXPECT_EQ(event.query(), hip::kErrorNotReady);
  DeviceMemory other(4096);
  other.fill(std::vector<char>(4096, 'x'));  // a synchronous copy does not wait for non-blocking streams
  EXPECT_EQ(order, 0);
  flag = 7;
  EXPECT_EQ(event.synchronize(), hip::kSuccess);
  EXPECT_EQ(api().hipStreamSynchronize(one.handle()), hip::kSuccess);
  EXPECT_EQ(order, 12);
  EXPECT_EQ(call("hipStreamWriteValue64", one.handle(), word, uint64_t{99}, 0u), hip::kSuccess);
  EXPECT_EQ(api().hipStreamSynchronize(one.handle()), hip::kSuccess);
  EXPECT_EQ(flag, 99u);
  EXPECT_EQ(api().hipFree(word), hip::kSuccess);
}

TEST_F(GpuRuntime, AStreamWaitsForAnEventOfAnother) {
  void *pinned = nullptr, *word = nullptr;
  ASSERT_EQ(api().hipHostMalloc(&pinned, 4 * kMiB, hip::kHostMallocPortable), hip::kSuccess);
  ASSERT_EQ(api().hipExtMallocWithFlags(&word, 8, hip::kMallocSignalMemory), hip::kSuccess);
  std::atomic_ref<uint64_t>(*static_cast<uint64_t*>(word)) = 0;
  auto bytes = pattern(4 * kMiB, 3);
  memcpy(pinned, bytes.data(), bytes.size());
  DeviceMemory a(4 * kMiB), b(4 * kMiB);
  b.fill(std::vector<char>(4 * kMiB, 0));
  auto one = *gpu::Stream::create(runtime()), two = *gpu::Stream::create(runtime());
  auto event = *gpu::Event::create(runtime());
  ASSERT_EQ(api().hipStreamWaitValue64(one.handle(), word, 1, hip::kWaitEq, ~0ull), hip::kSuccess);
  ASSERT_EQ(api().hipMemcpyAsync(a.address(), pinned, 4 * kMiB, hip::kMemcpyHostToDevice, one.handle()),
            hip::kSuccess);
  ASSERT_EQ(event.record(one), hip::kSuccess);
  hip::Event raw = nullptr;
  ASSERT_EQ(api().hipEventCreateWithFlags(&raw, hip::kEventDisableTiming), hip::kSuccess);
  ASSERT_EQ(api().hipEventRecord(raw, one.handle()), hip::kSuccess);
  ASSERT_EQ(call("hipStreamWaitEvent", two.handle(), raw, 0u), hip::kSuccess);
  ASSERT_EQ(
      api().hipMemcpyAsync(b.address(), a.address(), 4 * kMiB, hip::kMemcpyDeviceToDevice, two.handle()),
      hip::kSuccess);
  EXPECT_EQ(api().hipEventQuery(raw), hip::kErrorNotReady);
  std::atomic_ref<uint64_t>(*static_cast<uint64_t*>(word)) = 1;
  ASSERT_EQ(api().hipStreamSynchronize(two.handle()), hip::kSuccess);
  EXPECT_EQ(b.bytes(), bytes);
  api().hipEventDestroy(raw);
  api().hipFree(word);
  api().hipHostFree(pinned);
}

TEST_F(GpuRuntime, EventsMeasureTime) {
  hip::Event from = nullptr, to = nullptr;
  ASSERT_EQ(api().hipEventCreateWithFlags(&from, 0), hip::kSuccess);
  ASSERT_EQ(api().hipEventCreateWithFlags(&to, 0), hip::kSuccess);
  DeviceMemory a(64 * kMiB);
  ASSERT_EQ(api().hipEventRecord(from, nullptr), hip::kSuccess);
  a.fill(std::vector<char>(64 * kMiB, 1));
  ASSERT_EQ(api().hipEventRecord(to, nullptr), hip::kSuccess);
  ASSERT_EQ(api().hipEventSynchronize(to), hip::kSuccess);
  float milliseconds = -1;
  EXPECT_EQ(call("hipEventElapsedTime", &milliseconds, from, to), hip::kSuccess);
  EXPECT_GT(milliseconds, 0);
  api().hipEventDestroy(from);
  api().hipEventDestroy(to);
}

TEST_F(GpuRuntime, TheSpecialStreamsWork) {
  const auto bytes = pattern(kMiB, 8);
  DeviceMemory a(kMiB);
  void* pinned = nullptr;
  ASSERT_EQ(api().hipHostMalloc(&pinned, kMiB, hip::kHostMallocPortable), hip::kSuccess);
  memcpy(pinned, bytes.data(), kMiB);
  for (uintptr_t special : {0, 2}) {  // null, hipStreamPerThread
    auto stream = reinterpret_cast<hip::Stream>(special);
    ASSERT_EQ(api().hipMemset(a.address(), 0, kMiB), hip::kSuccess);
    ASSERT_EQ(api().hipMemcpyAsync(a.address(), pinned, kMiB, hip::kMemcpyHostToDevice, stream),
              hip::kSuccess);
    ASSERT_EQ(api().hipStreamSynchronize(stream), hip::kSuccess);
    EXPECT_EQ(a.bytes(), bytes) << special;
    int device = -1;
    if (api().hipStreamGetDevice) {
      EXPECT_EQ(api().hipStreamGetDevice(stream, &device), hip::kSuccess);
      EXPECT_EQ(device, 0);
    }
  }
  api().hipHostFree(pinned);
}

TEST_F(GpuRuntime, EveryThreadWorksWithoutPreparation) {
  constexpr int kThreads = 16;
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < kThreads; t++)
    threads.emplace_back([t, &wrong] {
      auto stream = gpu::Stream::create(runtime());
      auto event = gpu::Event::create(runtime());
      void *device = nullptr, *pinned = nullptr;
      const auto bytes = pattern(kMiB, static_cast<unsigned>(t));
      if (!stream || !event || api().hipMalloc(&device, kMiB) != hip::kSuccess ||
          api().hipHostMalloc(&pinned, kMiB, hip::kHostMallocPortable) != hip::kSuccess) {
        wrong++;
        return;
      }
      for (int i = 0; i < 20; i++) {
        memcpy(pinned, bytes.data(), kMiB);
        bool ok = api().hipMemcpyAsync(device, pinned, kMiB, hip::kMemcpyHostToDevice, stream->handle()) ==
                  hip::kSuccess;
        ok = ok && event->record(*stream) == hip::kSuccess && event->synchronize() == hip::kSuccess;
        memset(pinned, 0, kMiB);
        ok = ok && api().hipMemcpyAsync(pinned, device, kMiB, hip::kMemcpyDeviceToHost, stream->handle()) ==
                       hip::kSuccess;
        ok = ok && api().hipStreamSynchronize(stream->handle()) == hip::kSuccess;
        if (!ok || memcmp(pinned, bytes.data(), kMiB) != 0) wrong++;
      }
      api().hipFree(device);
      api().hipHostFree(pinned);
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

// The engine's window onto the page cache: a file, mapped read-only and registered.
TEST_F(GpuRuntime, CopiesFromARegisteredReadOnlyMappingOfAFile) {
  if (runtime()->kind() != gpu::RuntimeKind::cuda) GTEST_SKIP() << "only CUDA registers file mappings safely";
  char name[] = "/var/tmp/gpu_runtime_XXXXXX";
  posix::Fd file(mkstemp(name));
  unlink(name);
  const auto bytes = pattern(16 * kMiB, 4);
  ASSERT_EQ(write(file.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  void* mapped = mmap(nullptr, bytes.size(), PROT_READ, MAP_SHARED | MAP_POPULATE, file.get(), 0);
  ASSERT_NE(mapped, MAP_FAILED);
  constexpr unsigned kReadOnly = 8;
  hip::Error error = call("hipHostRegister", mapped, bytes.size(), kReadOnly);
  EXPECT_EQ(error, hip::kSuccess) << runtime()->error_name(error);
  if (error == hip::kSuccess) {
    DeviceMemory a(bytes.size());
    auto stream = *gpu::Stream::create(runtime());
    EXPECT_EQ(
        api().hipMemcpyAsync(a.address(), mapped, bytes.size(), hip::kMemcpyHostToDevice, stream.handle()),
        hip::kSuccess);
    EXPECT_EQ(api().hipStreamSynchronize(stream.handle()), hip::kSuccess);
    EXPECT_EQ(a.bytes(), bytes);
    EXPECT_EQ(call("hipHostUnregister", mapped), hip::kSuccess);
  }
  munmap(mapped, bytes.size());
}

constexpr char kPtx[] = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .entry add(.param .u64 where, .param .u32 count, .param .u32 amount) {
  .reg .pred %p;
  .reg .b32 %i<8>;
  .reg .b64 %a<4>;
  ld.param.u64 %a1, [where];
  ld.param.u32 %i1, [count];
  ld.param.u32 %i2, [amount];
  mov.u32 %i3, %ctaid.x;
  mov.u32 %i4, %ntid.x;
  mov.u32 %i5, %tid.x;
  mad.lo.u32 %i6, %i3, %i4, %i5;
  setp.ge.u32 %p, %i6, %i1;
  @%p bra done;
  mul.wide.u32 %a2, %i6, 4;
  add.u64 %a3, %a1, %a2;
  ld.global.u32 %i7, [%a3];
  add.u32 %i7, %i7, %i2;
  st.global.u32 [%a3], %i7;
done:
  ret;
}
)";

TEST_F(GpuRuntime, RunsAKernelOfAModule) {
  if (runtime()->kind() != gpu::RuntimeKind::cuda) GTEST_SKIP() << "the kernel is PTX";
  if (runtime()->describe().starts_with("Fake")) GTEST_SKIP() << "the fake driver runs no kernels";
  void *module = nullptr, *function = nullptr;
  hip::Error error = call("hipModuleLoadData", &module, static_cast<const void*>(kPtx));
  ASSERT_EQ(error, hip::kSuccess) << runtime()->error_name(error);
  EXPECT_EQ(call("hipModuleGetFunction", &function, module, "subtract"), hip::kErrorNotFound);
  ASSERT_EQ(call("hipModuleGetFunction", &function, module, "add"), hip::kSuccess);
  constexpr unsigned kCount = 1000;
  DeviceMemory a(kCount * 4);
  a.fill(std::vector<char>(kCount * 4, 0));
  struct {
    char* where;
    unsigned count, amount;
  } arguments{a.address(), kCount, 5};
  void* parameters[] = {&arguments.where, &arguments.count, &arguments.amount};
  auto launch = [&](void** by_pointer, void** by_buffer) {
    return call("hipModuleLaunchKernel", function, 4u, 1u, 1u, 256u, 1u, 1u, 0u, static_cast<void*>(nullptr),
                by_pointer, by_buffer);
  };
  ASSERT_EQ(launch(parameters, nullptr), hip::kSuccess);
  size_t size = sizeof arguments;
  auto number = [](uintptr_t n) { return reinterpret_cast<void*>(n); };
  void* extra[] = {number(1), &arguments, number(2), &size, number(3)};
  ASSERT_EQ(launch(nullptr, extra), hip::kSuccess);
  ASSERT_EQ(call("hipDeviceSynchronize"), hip::kSuccess);
  auto bytes = a.bytes();
  std::vector<unsigned> numbers(kCount);
  memcpy(numbers.data(), bytes.data(), bytes.size());
  EXPECT_EQ(numbers, std::vector<unsigned>(kCount, 10));
  EXPECT_EQ(call("hipModuleUnload", module), hip::kSuccess);
}

TEST_F(GpuRuntime, AChildOfForkIsToldThatNothingWorks) {
  pid_t child = fork();
  if (child == 0) {
    void* p = nullptr;
    _exit(api().hipMalloc(&p, 16) == hip::kSuccess ? 1 : 0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  DeviceMemory still(16);
}

}  // namespace
