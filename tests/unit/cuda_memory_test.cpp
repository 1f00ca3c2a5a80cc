// Memory of the CUDA stand-in: its types, and the ranges that it lies in.
#include <sys/mman.h>

#include "cuda_fixture.h"
#include "gpu/memory.h"

using namespace cuda_test;

namespace {

TEST_P(Cuda, MemoryTypesAreNumberedAsTheMajorHasThem) {
  char* device = device_memory(4096);
  void *host = nullptr, *managed = nullptr, *signal = nullptr;
  ASSERT_EQ(hip().hipHostMalloc(&host, 4096, 0), hip::kSuccess);
  ASSERT_EQ(call("hipMallocManaged", &managed, size_t{4096}, 1u), hip::kSuccess);
  ASSERT_EQ(hip().hipExtMallocWithFlags(&signal, 8, hip::kMallocSignalMemory), hip::kSuccess);
  auto kind = [&](void* p) {
    auto m = gpu::describe(*runtime_, p);
    return m ? static_cast<int>(m->kind) : -1;
  };
  EXPECT_EQ(kind(device + 100), static_cast<int>(gpu::MemoryKind::device));
  EXPECT_EQ(kind(host), static_cast<int>(gpu::MemoryKind::host));
  EXPECT_EQ(kind(managed), static_cast<int>(gpu::MemoryKind::managed));
  EXPECT_EQ(kind(signal), static_cast<int>(gpu::MemoryKind::host));
  int local = 0;
  EXPECT_EQ(kind(&local), GetParam() == 5 ? -1 : static_cast<int>(gpu::MemoryKind::pageable));
  hip::PointerAttributes a{};
  if (GetParam() == 5) {
    EXPECT_EQ(hip().hipPointerGetAttributes(&a, &local), hip::kErrorInvalidValue);
  } else {
    EXPECT_EQ(hip().hipPointerGetAttributes(&a, &local), hip::kSuccess);
    EXPECT_EQ(a.type, 0);
    EXPECT_EQ(a.device, hip::kInvalidDeviceId);
  }
  EXPECT_EQ(hip().hipPointerGetAttributes(&a, nullptr), hip::kErrorInvalidValue);
  ASSERT_EQ(hip().hipPointerGetAttributes(&a, device), hip::kSuccess);
  EXPECT_EQ(a.type, GetParam() == 5 ? 1 : 2);
  EXPECT_EQ(a.device_pointer, device);
  EXPECT_EQ(a.host_pointer, nullptr);
  auto m = gpu::describe(*runtime_, device + 100);
  ASSERT_TRUE(m);
  EXPECT_EQ(m->length, 3996u);
  EXPECT_FALSE(m->pages);
  int type = -1;
  EXPECT_EQ(call("hipPointerGetAttribute", static_cast<void*>(&type), 2, static_cast<void*>(device)),
            hip::kSuccess);
  EXPECT_EQ(type, GetParam() == 5 ? 1 : 2);
  void* base = nullptr;
  size_t size = 0;
  EXPECT_EQ(hip().hipMemGetAddressRange(&base, &size, &local), hip::kErrorNotFound);
  EXPECT_EQ(hip().hipMemGetAddressRange(&base, &size, host), hip::kSuccess);
  EXPECT_EQ(base, host);
  // Signal memory is the host's, but is freed like device memory.
  const int freed = calls("cuMemFreeHost");
  EXPECT_EQ(hip().hipFree(signal), hip::kSuccess);
  EXPECT_EQ(calls("cuMemFreeHost"), freed + 1);
  EXPECT_EQ(hip().hipFree(managed), hip::kSuccess);
  EXPECT_EQ(hip().hipHostFree(host), hip::kSuccess);
  EXPECT_EQ(hip().hipFree(device), hip::kSuccess);
  EXPECT_EQ(hip().hipFree(nullptr), hip::kSuccess);
  EXPECT_EQ(hip().hipFree(&local), hip::kErrorInvalidValue);
}

TEST_P(Cuda, RegistersHostMemoryReadOnlyIfAsked) {
  void* p = mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT_EQ(call("hipHostRegister", p, size_t{8192}, 8u), hip::kSuccess);
  EXPECT_EQ(last("cuMemHostRegister"), "flags 8");
  void* device = nullptr;
  EXPECT_EQ(call("hipHostGetDevicePointer", &device, p, 0u), hip::kSuccess);
  EXPECT_EQ(device, p);
  EXPECT_EQ(call("hipHostRegister", p, size_t{8192}, 8u), hip::kErrorHostMemoryAlreadyRegistered);
  EXPECT_EQ(call("hipHostUnregister", p), hip::kSuccess);
  EXPECT_EQ(call("hipHostUnregister", p), hip::kErrorHostMemoryNotRegistered);
  EXPECT_EQ(call("hipHostRegister", p, size_t{8192}, 16u), hip::kErrorInvalidValue);
  munmap(p, 8192);
}

TEST_P(Cuda, ManyAllocationsInOneRangeOfAddressesCountAsOne) {
  auto create = driver_function<hip::Error (*)(unsigned long long*, size_t, const void*, unsigned long long)>(
      "cuMemCreate");
  auto map = driver_function<hip::Error (*)(void*, size_t, size_t, unsigned long long, unsigned long long)>(
      "cuMemMap");
  auto reserve = driver_function<hip::Error (*)(void**, size_t, size_t, void*, unsigned long long)>(
      "cuMemAddressReserve");
  hip().hipFree(device_memory(1));  // a context
  void* range = nullptr;
  ASSERT_EQ(reserve(&range, 8 * kMiB, 0, nullptr, 0), hip::kSuccess);
  char* start = static_cast<char*>(range);
  for (size_t i = 0; i < 3; i++) {
    unsigned long long handle = 0;
    ASSERT_EQ(create(&handle, 2 * kMiB, nullptr, 0), hip::kSuccess);
    ASSERT_EQ(map(start + i * 2 * kMiB, 2 * kMiB, 0, handle, 0), hip::kSuccess);
  }
  void* base = nullptr;
  size_t size = 0;
  ASSERT_EQ(hip().hipMemGetAddressRange(&base, &size, start + 5), hip::kSuccess);
  EXPECT_EQ(base, start);
  EXPECT_EQ(size, 6 * kMiB);
  ASSERT_EQ(hip().hipMemGetAddressRange(&base, &size, start + 4 * kMiB + 1), hip::kSuccess);
  EXPECT_EQ(base, start + 4 * kMiB);
  EXPECT_EQ(size, 2 * kMiB);
}

}  // namespace
