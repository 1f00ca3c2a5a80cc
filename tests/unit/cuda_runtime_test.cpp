// The CUDA stand-in over a fake driver: what it makes of HIP's calls, and of the driver's answers.
#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "cuda/attributes.h"
#include "cuda/ipc_offset.h"
#include "cuda/shared_allocation.h"
#include "fake_cuda.h"
#include "gpu/hip.h"
#include "gpu/import.h"
#include "gpu/memory.h"
#include "ipc_handle.h"

namespace {

constexpr size_t kMiB = 1 << 20;

std::string program_directory() {
  char self[4096];
  ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  std::string path(self, static_cast<size_t>(n));
  return path.substr(0, path.rfind('/'));
}

void* driver_library() {
  static void* library = dlopen("libcuda.so.1", RTLD_NOW);
  return library;
}
template <typename F>
F driver_function(const char* name) {
  return reinterpret_cast<F>(dlsym(driver_library(), name));
}
int calls(const char* name) { return driver_function<decltype(&fakeCudaCalls)>("fakeCudaCalls")(name); }
std::string last(const char* name) { return driver_function<decltype(&fakeCudaLast)>("fakeCudaLast")(name); }

class Cuda : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    path_ = program_directory() + "/../lib/cuda" + std::to_string(GetParam()) + "/libamdhip64.so." +
            std::to_string(GetParam());
    auto runtime = gpu::Runtime::load(path_);
    ASSERT_TRUE(runtime) << runtime.error().text();
    runtime_ = *runtime;
    ASSERT_EQ(hip().hipSetDevice(0), hip::kSuccess);
  }
  const gpu::HipTable& hip() const { return runtime_->hip(); }
  template <typename... A>
  hip::Error call(const char* name, A... arguments) {
    auto function = reinterpret_cast<hip::Error (*)(A...)>(dlsym(dlopen(path_.c_str(), RTLD_NOW), name));
    if (!function) {
      ADD_FAILURE() << "no " << name;
      return hip::kErrorUnknown;
    }
    return function(arguments...);
  }
  char* device_memory(size_t size) {
    void* p = nullptr;
    EXPECT_EQ(hip().hipMalloc(&p, size), hip::kSuccess);
    return static_cast<char*>(p);
  }
  std::string path_;
  std::shared_ptr<const gpu::Runtime> runtime_;
};

TEST_P(Cuda, SaysThatItIsCuda) {
  EXPECT_EQ(runtime_->kind(), gpu::RuntimeKind::cuda);
  EXPECT_EQ(runtime_->major(), GetParam());
  EXPECT_FALSE(runtime_->device_memory_is_pages());
  EXPECT_FALSE(runtime_->has_ais());
  EXPECT_NE(runtime_->describe().find("Fake CUDA device 0"), std::string::npos);
  EXPECT_NE(runtime_->describe().find("over CUDA"), std::string::npos);
  int version = 0;
  EXPECT_EQ(call("hipCudaDriverVersion", &version), hip::kSuccess);
  EXPECT_EQ(version, 13000);
}

TEST_P(Cuda, ExportsEveryNameOfTheSoftwareRuntime) {
  FILE* names = popen(
      ("nm -D --defined-only " + program_directory() + "/../lib/software6/libamdhip64.so.6").c_str(), "r");
  char line[256];
  int found = 0;
  while (fgets(line, sizeof line, names)) {
    char name[200];
    if (sscanf(line, "%*s T %199[^@\n]", name) != 1 || strstr(name, "Software")) continue;
    found++;
    EXPECT_NE(dlsym(dlopen(path_.c_str(), RTLD_NOW), name), nullptr) << name;
  }
  pclose(names);
  EXPECT_GT(found, 90);
}

TEST_P(Cuda, AttributesAreAskedForByTheirCudaNumbers) {
  auto value = [&](int attribute) {
    int v = -1;
    EXPECT_EQ(hip().hipDeviceGetAttribute(&v, attribute, 0), hip::kSuccess) << attribute;
    return v;
  };
  EXPECT_EQ(value(hip::kAttributeIntegrated), 0);
  EXPECT_EQ(value(hip::kAttributeMaxThreadsPerBlock), 1001);
  EXPECT_EQ(value(hip::kAttributePciBusId), 0xa0);
  EXPECT_EQ(value(hip::kAttributeManagedMemory), 1083);
  EXPECT_EQ(value(87), 1010);     // WarpSize
  EXPECT_EQ(value(63), 1016);     // MultiprocessorCount
  EXPECT_EQ(value(0), 1032);      // EccEnabled
  EXPECT_EQ(value(10015), 1016);  // PhysicalMultiProcessorCount
  EXPECT_EQ(value(hip::kAttributeCanUseStreamWaitValue), 1);
  EXPECT_EQ(value(hip::kAttributeIsLargeBar), 0);
  int v = 0;
  EXPECT_EQ(hip().hipDeviceGetAttribute(&v, 64, 0), hip::kErrorInvalidValue);  // Name
  EXPECT_EQ(hip().hipDeviceGetAttribute(&v, 5000, 0), hip::kErrorInvalidValue);
  EXPECT_EQ(hip().hipDeviceGetAttribute(&v, -1, 0), hip::kErrorInvalidValue);
  EXPECT_EQ(hip().hipDeviceGetAttribute(&v, 16, 9), hip::kErrorInvalidDevice);
  EXPECT_EQ(hip().hipDeviceGetAttribute(nullptr, 16, 0), hip::kErrorInvalidValue);
}

TEST_P(Cuda, DescribesDevicesInHipsTerms) {
  char text[64];
  EXPECT_EQ(call("hipDeviceGetPCIBusId", &text[0], int{sizeof text}, 0), hip::kSuccess);
  EXPECT_STREQ(text, "0001:a0:1f.0");
  int device = -1;
  EXPECT_EQ(call("hipDeviceGetByPCIBusId", &device, const_cast<const char*>(text)), hip::kSuccess);
  EXPECT_EQ(device, 0);
  unsigned char uuid[16] = {};
  EXPECT_EQ(hip().hipDeviceGetUuid(uuid, 0), hip::kSuccess);
  EXPECT_EQ(uuid[15], 0x40);
  std::vector<char> properties(1472, 'x');
  EXPECT_EQ(call("hipGetDevicePropertiesR0600", static_cast<void*>(properties.data()), 0), hip::kSuccess);
  EXPECT_STREQ(properties.data(), "Fake CUDA device 0");
  EXPECT_STREQ(properties.data() + 1160, "sm_90");
  size_t memory = 0;
  memcpy(&memory, properties.data() + 288, sizeof memory);
  EXPECT_EQ(memory, size_t{3} << 30);
}

TEST_P(Cuda, AThreadGetsThePrimaryContextWhenItFirstNeedsOne) {
  std::thread([&] {
    const int before = calls("cuCtxSetCurrent");
    int device = -1;
    EXPECT_EQ(hip().hipGetDevice(&device), hip::kSuccess);
    EXPECT_EQ(device, 0);
    EXPECT_EQ(hip().hipSetDevice(0), hip::kSuccess);
    EXPECT_EQ(calls("cuCtxSetCurrent"), before);
    char* p = device_memory(16);
    EXPECT_EQ(calls("cuCtxSetCurrent"), before + 1);
    EXPECT_EQ(hip().hipFree(p), hip::kSuccess);
    EXPECT_EQ(calls("cuCtxSetCurrent"), before + 1);
  }).join();
}

TEST_P(Cuda, RetainsAPrimaryContextOnceWhateverTheThreads) {
  hip().hipFree(device_memory(16));
  const int before = calls("cuDevicePrimaryCtxRetain");
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; i++)
    threads.emplace_back([&] {
      for (int j = 0; j < 100; j++) hip().hipFree(device_memory(64));
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(calls("cuDevicePrimaryCtxRetain"), before);
}

using Context = void*;

TEST_P(Cuda, TheCurrentDeviceIsThatOfTheDriversContext) {
  if (runtime_->device_count() < 2) GTEST_SKIP() << "needs two devices";
  std::thread([&] {
    auto set = driver_function<hip::Error (*)(Context)>("cuCtxSetCurrent");
    auto get = driver_function<hip::Error (*)(Context*)>("cuCtxGetCurrent");
    auto retain = driver_function<hip::Error (*)(Context*, int)>("cuDevicePrimaryCtxRetain");
    Context one = nullptr, now = nullptr;
    retain(&one, 1);  // as another runtime in the process does
    set(one);
    int device = -1;
    EXPECT_EQ(hip().hipGetDevice(&device), hip::kSuccess);
    EXPECT_EQ(device, 1);
    hip().hipFree(device_memory(100));
    EXPECT_EQ(last("cuMemAlloc"), "device 1 size 100");
    {
      gpu::DeviceGuard guard(*runtime_, 0);
      EXPECT_EQ(guard.status(), hip::kSuccess);
      hip().hipFree(device_memory(100));
      EXPECT_EQ(last("cuMemAlloc"), "device 0 size 100");
    }
    get(&now);
    EXPECT_EQ(now, one);
  }).join();
}

TEST_P(Cuda, AContextOfTheProgramsOwnComesBackWithItsDevice) {
  if (runtime_->device_count() < 2) GTEST_SKIP() << "needs two devices";
  std::thread([&] {
    auto create = driver_function<hip::Error (*)(Context*, unsigned, int)>("cuCtxCreate_v2");
    auto get = driver_function<hip::Error (*)(Context*)>("cuCtxGetCurrent");
    auto destroy = driver_function<hip::Error (*)(Context)>("cuCtxDestroy_v2");
    Context own = nullptr, now = nullptr;
    create(&own, 0, 1);
    { gpu::DeviceGuard guard(*runtime_, 1); }
    get(&now);
    EXPECT_EQ(now, own);
    { gpu::DeviceGuard guard(*runtime_, 0); }
    get(&now);
    EXPECT_EQ(now, own);
    // Gone meanwhile: the device's primary context takes its place.
    {
      gpu::DeviceGuard guard(*runtime_, 0);
      destroy(own);
    }
    int device = -1;
    EXPECT_EQ(hip().hipGetDevice(&device), hip::kSuccess);
    EXPECT_EQ(device, 1);
    hip().hipFree(device_memory(100));
    EXPECT_EQ(last("cuMemAlloc"), "device 1 size 100");
  }).join();
}

TEST_P(Cuda, ResettingADeviceGivesItANewContext) {
  std::thread([&] {
    hip().hipFree(device_memory(16));
    EXPECT_EQ(call("hipDeviceReset"), hip::kSuccess);
    EXPECT_EQ(last("cuDevicePrimaryCtxReset"), "0");
    char* p = device_memory(16);
    EXPECT_NE(p, nullptr);
    EXPECT_EQ(hip().hipFree(p), hip::kSuccess);
  }).join();
}

TEST_P(Cuda, CopiesOfEveryKindArriveBeforeTheCallReturns) {
  char* a = device_memory(kMiB);
  char* b = device_memory(kMiB);
  std::vector<char> from(kMiB, 'f'), to(kMiB);
  int waits = calls("cuStreamSynchronize");
  EXPECT_EQ(hip().hipMemcpy(a, from.data(), kMiB, hip::kMemcpyHostToDevice), hip::kSuccess);
  EXPECT_EQ(hip().hipMemcpy(b, a, kMiB, hip::kMemcpyDeviceToDevice), hip::kSuccess);
  EXPECT_EQ(hip().hipMemset(b, 'm', 10), hip::kSuccess);
  EXPECT_EQ(calls("cuStreamSynchronize"), waits + 3);
  EXPECT_EQ(last("cuStreamSynchronize"), "(nil)");
  EXPECT_EQ(hip().hipMemcpy(to.data(), b, kMiB, hip::kMemcpyDeviceToHost), hip::kSuccess);
  memset(from.data(), 'm', 10);
  EXPECT_EQ(to, from);
  EXPECT_EQ(hip().hipMemcpy(b + 20, from.data(), 5, hip::kMemcpyDefault), hip::kSuccess);
  EXPECT_EQ(last("cuMemcpy"), "5");
  EXPECT_EQ(hip().hipMemcpy(a, b, 0, hip::kMemcpyDefault), hip::kSuccess);
  EXPECT_EQ(hip().hipMemcpy(nullptr, b, 1, hip::kMemcpyDefault), hip::kErrorInvalidValue);
  EXPECT_EQ(hip().hipMemcpy(a, b, 1, static_cast<hip::MemcpyKind>(7)), hip::kErrorInvalidMemcpyDirection);
  EXPECT_EQ(hip().hipMemcpy(to.data(), from.data(), 1, hip::kMemcpyHostToDevice), hip::kErrorInvalidValue);
  hip().hipFree(a);
  hip().hipFree(b);
}

TEST_P(Cuda, AsynchronousCopiesGoToTheStreamTheyAreGiven) {
  char* device = device_memory(kMiB);
  void* host = nullptr;
  ASSERT_EQ(hip().hipHostMalloc(&host, kMiB, 0xe0000001u), hip::kSuccess);
  EXPECT_EQ(last("cuMemHostAlloc"), "flags 1");  // AMD's flags mean nothing to CUDA
  hip::Stream stream = nullptr;
  ASSERT_EQ(hip().hipStreamCreateWithFlags(&stream, hip::kStreamNonBlocking), hip::kSuccess);
  EXPECT_EQ(last("cuStreamCreate"), "1");
  char expected[64];
  snprintf(expected, sizeof expected, "1000 on %p", static_cast<void*>(stream));
  EXPECT_EQ(hip().hipMemcpyAsync(device, host, 1000, hip::kMemcpyHostToDevice, stream), hip::kSuccess);
  EXPECT_EQ(last("cuMemcpyHtoDAsync"), expected);
  EXPECT_EQ(hip().hipMemcpyAsync(host, device, 1000, hip::kMemcpyDeviceToHost, stream), hip::kSuccess);
  EXPECT_EQ(last("cuMemcpyDtoHAsync"), expected);
  EXPECT_EQ(hip().hipMemcpyAsync(host, device, 1000, hip::kMemcpyDefault, stream), hip::kSuccess);
  EXPECT_EQ(last("cuMemcpyAsync"), expected);
  auto per_thread = reinterpret_cast<hip::Stream>(uintptr_t{2});
  EXPECT_EQ(hip().hipMemcpyAsync(host, device, 9, hip::kMemcpyDeviceToHost, per_thread), hip::kSuccess);
  EXPECT_EQ(last("cuMemcpyDtoHAsync"), "9 on 0x2");
  int on = -1;
  EXPECT_EQ(hip().hipStreamGetDevice(stream, &on), hip::kSuccess);
  EXPECT_EQ(on, 0);
  EXPECT_EQ(hip().hipStreamGetDevice(per_thread, &on), hip::kSuccess);
  EXPECT_EQ(hip().hipStreamSynchronize(stream), hip::kSuccess);
  EXPECT_EQ(hip().hipStreamDestroy(stream), hip::kSuccess);
  EXPECT_EQ(hip().hipStreamDestroy(per_thread), hip::kErrorInvalidHandle);
  EXPECT_EQ(hip().hipHostFree(host), hip::kSuccess);
  hip().hipFree(device);
}

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

TEST_P(Cuda, StreamsWaitForValuesEventsAndHostFunctions) {
  void* word = nullptr;
  ASSERT_EQ(hip().hipExtMallocWithFlags(&word, 8, hip::kMallocSignalMemory), hip::kSuccess);
  EXPECT_EQ(hip().hipExtMallocWithFlags(&word, 16, hip::kMallocSignalMemory), hip::kErrorInvalidValue);
  *static_cast<uint64_t*>(word) = 0;
  hip::Stream one = nullptr, two = nullptr;
  hip::Event event = nullptr;
  ASSERT_EQ(hip().hipStreamCreateWithFlags(&one, hip::kStreamNonBlocking), hip::kSuccess);
  ASSERT_EQ(hip().hipStreamCreateWithFlags(&two, hip::kStreamNonBlocking), hip::kSuccess);
  ASSERT_EQ(hip().hipEventCreateWithFlags(&event, hip::kEventDisableTiming | 0x80000000u), hip::kSuccess);
  EXPECT_EQ(last("cuEventCreate"), "2");  // AMD's flags mean nothing to CUDA
  static std::atomic<int> order;
  order = 0;
  EXPECT_EQ(hip().hipStreamWaitValue64(one, word, 7, hip::kWaitGte, 0xff), hip::kErrorNotSupported);
  EXPECT_EQ(hip().hipStreamWaitValue64(one, word, 7, 4, ~0ull), hip::kErrorInvalidValue);
  ASSERT_EQ(hip().hipStreamWaitValue64(one, word, 7, hip::kWaitGte, ~0ull), hip::kSuccess);
  ASSERT_EQ(hip().hipLaunchHostFunc(
                one, [](void*) { order = order * 10 + 1; }, nullptr),
            hip::kSuccess);
  ASSERT_EQ(hip().hipEventRecord(event, one), hip::kSuccess);
  ASSERT_EQ(call("hipStreamWaitEvent", two, event, 0u), hip::kSuccess);
  ASSERT_EQ(hip().hipStreamAddCallback(
                two, [](hip::Stream, hip::Error, void*) { order = order * 10 + 2; }, nullptr, 0),
            hip::kSuccess);
  EXPECT_EQ(hip().hipEventQuery(event), hip::kErrorNotReady);
  EXPECT_EQ(hip().hipGetLastError(), hip::kErrorInvalidValue);  // that an event is not ready is no error
  std::atomic_ref<uint64_t>(*static_cast<uint64_t*>(word)).store(7);
  EXPECT_EQ(hip().hipStreamSynchronize(two), hip::kSuccess);
  EXPECT_EQ(order, 12);
  EXPECT_EQ(call("hipStreamWriteValue64", one, word, uint64_t{9}, 0u), hip::kSuccess);
  EXPECT_EQ(hip().hipStreamSynchronize(one), hip::kSuccess);
  EXPECT_EQ(*static_cast<uint64_t*>(word), 9u);
  EXPECT_EQ(hip().hipEventDestroy(event), hip::kSuccess);
  EXPECT_EQ(hip().hipEventRecord(nullptr, one), hip::kErrorInvalidHandle);
  hip().hipStreamDestroy(one);
  hip().hipStreamDestroy(two);
  hip().hipFree(word);
}

TEST_P(Cuda, ErrorsAreTheDriversAndStayWithTheirThread) {
  auto plan = driver_function<int (*)(const char*)>("hipSoftwarePlanFaults");
  ASSERT_EQ(plan("hipMalloc:1:2,hipMalloc:2:220"), 0);
  void* p = nullptr;
  EXPECT_EQ(hip().hipMalloc(&p, 10), hip::kErrorOutOfMemory);
  std::thread([&] { EXPECT_EQ(hip().hipGetLastError(), hip::kSuccess); }).join();
  EXPECT_EQ(call("hipPeekAtLastError"), hip::kErrorOutOfMemory);
  EXPECT_EQ(hip().hipGetLastError(), hip::kErrorOutOfMemory);
  EXPECT_EQ(hip().hipGetLastError(), hip::kSuccess);
  EXPECT_EQ(static_cast<int>(hip().hipMalloc(&p, 10)), 220);  // a number that HIP does not have
  EXPECT_STREQ(hip().hipGetErrorName(220), "CUDA_ERROR_NVLINK_UNCORRECTABLE");
  EXPECT_STREQ(hip().hipGetErrorName(2), "hipErrorOutOfMemory");
  EXPECT_STREQ(hip().hipGetErrorName(12345), "hipErrorUnknown");
  ASSERT_EQ(plan(""), 0);
  hip().hipGetLastError();
  EXPECT_EQ(hip().hipMalloc(&p, 0), hip::kSuccess);
  EXPECT_EQ(p, nullptr);
  EXPECT_EQ(hip().hipSetDevice(77), hip::kErrorInvalidDevice);
}

TEST_P(Cuda, ModulesAreLoadedAndLaunchedWithCudasListOfExtras) {
  void *module = nullptr, *function = nullptr;
  const char* image = "fake gather";
  EXPECT_EQ(call("hipModuleLoadData", &module, static_cast<const void*>("ELF")), hip::kErrorNoBinaryForGpu);
  ASSERT_EQ(call("hipModuleLoadData", &module, static_cast<const void*>(image)), hip::kSuccess);
  EXPECT_EQ(call("hipModuleGetFunction", &function, module, "absent"), hip::kErrorNotFound);
  ASSERT_EQ(call("hipModuleGetFunction", &function, module, "gather"), hip::kSuccess);
  int argument = 1;
  size_t size = sizeof argument;
  void* parameters[] = {&argument};
  EXPECT_EQ(call("hipModuleLaunchKernel", function, 2u, 3u, 4u, 32u, 2u, 1u, 64u, static_cast<void*>(nullptr),
                 static_cast<void**>(parameters), static_cast<void**>(nullptr)),
            hip::kSuccess);
  EXPECT_EQ(last("cuLaunchKernel"), "2 3 4 / 32 2 1 shared 64 on (nil) parameters 1 extras 0");
  auto tag = [](uintptr_t n) { return reinterpret_cast<void*>(n); };
  void* extra[] = {tag(1), &argument, tag(2), &size, tag(3)};
  EXPECT_EQ(call("hipModuleLaunchKernel", function, 1u, 1u, 1u, 1u, 1u, 1u, 0u, static_cast<void*>(nullptr),
                 static_cast<void**>(nullptr), static_cast<void**>(extra)),
            hip::kSuccess);
  EXPECT_EQ(last("cuLaunchKernel"), "1 1 1 / 1 1 1 shared 0 on (nil) parameters 0 extras 4");
  EXPECT_EQ(call("hipModuleUnload", module), hip::kSuccess);
}

TEST_P(Cuda, ItsProcAddressesAreItsOwn) {
  void* found = nullptr;
  EXPECT_EQ(hip().hipGetProcAddress("hipMalloc", &found, runtime_->version(), 0, nullptr), hip::kSuccess);
  EXPECT_EQ(found, reinterpret_cast<void*>(hip().hipMalloc));
  EXPECT_NE(hip().hipGetProcAddress("hipAmdFileRead", &found, runtime_->version(), 0, nullptr),
            hip::kSuccess);
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

// ------------------------------------------------------------------------------------------- between two processes

TEST_P(Cuda, SharesDeviceMemoryAndKeepsTheOffsetOfInteriorPointers) {
  char* device = device_memory(3 * kMiB);
  std::vector<char> pattern(3 * kMiB);
  for (size_t i = 0; i < pattern.size(); i++) pattern[i] = static_cast<char>(i * 7);
  ASSERT_EQ(hip().hipMemcpy(device, pattern.data(), pattern.size(), hip::kMemcpyHostToDevice), hip::kSuccess);
  hip::IpcMemHandle handle, inside;
  ASSERT_EQ(hip().hipIpcGetMemHandle(&handle, device), hip::kSuccess);
  ASSERT_EQ(hip().hipIpcGetMemHandle(&inside, device + 1000), hip::kSuccess);
  void* same = nullptr;
  EXPECT_EQ(hip().hipIpcOpenMemHandle(&same, handle, runtime_->ipc_open_flags()), hip::kErrorInvalidContext);
  EXPECT_EQ(
      ipc_test::open_in_another_process(program_directory() + "/cuda_runtime_test", path_, handle, inside),
      0);
  char changed = 0;
  ASSERT_EQ(hip().hipMemcpy(&changed, device + 5, 1, hip::kMemcpyDeviceToHost), hip::kSuccess);
  EXPECT_EQ(changed, 'c');
  setenv("FAKE_CUDA_FULL_IPC_HANDLES", "1", 1);
  EXPECT_EQ(hip().hipIpcGetMemHandle(&inside, device), hip::kSuccess);
  EXPECT_EQ(hip().hipIpcGetMemHandle(&inside, device + 1000),
            hip::kErrorInvalidValue);  // no place for the offset
  unsetenv("FAKE_CUDA_FULL_IPC_HANDLES");
  hip().hipFree(device);
  EXPECT_NE(hip().hipIpcGetMemHandle(&handle, device), hip::kSuccess);
}

TEST_P(Cuda, AChildOfForkIsToldThatNothingWorks) {
  hip().hipFree(device_memory(16));
  pid_t child = fork();
  if (child == 0) {
    int count = 0;
    _exit(hip().hipGetDeviceCount(&count) == hip::kErrorNotInitialized && count == 0 ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

INSTANTIATE_TEST_SUITE_P(Hip, Cuda, testing::Values(5, 6), testing::PrintToStringParamName());

// Run alone: what a process has loaded already comes before everything.
TEST(CudaAuto, TakesTheStandInWhereItHasADevice) {
  for (const char* name : {"auto", "auto", "cuda"}) {
    auto runtime = gpu::Runtime::load(name);
    ASSERT_TRUE(runtime) << runtime.error().text();
    EXPECT_EQ((*runtime)->kind(), gpu::RuntimeKind::cuda) << name;
  }
}

TEST(CudaIpcOffset, TravelsInTheHandleAndLeavesItAsItWas) {
  hip::IpcMemHandle handle{};
  handle.reserved[0] = 'a';
  const hip::IpcMemHandle before = handle;
  ASSERT_TRUE(cuda::put_ipc_offset(handle, 0x123456789abc));
  EXPECT_NE(memcmp(&handle, &before, sizeof handle), 0);
  EXPECT_EQ(cuda::take_ipc_offset(handle), 0x123456789abcu);
  EXPECT_EQ(memcmp(&handle, &before, sizeof handle), 0);
  EXPECT_EQ(cuda::take_ipc_offset(handle), 0u);
  ASSERT_TRUE(cuda::put_ipc_offset(handle, 0));
  EXPECT_EQ(memcmp(&handle, &before, sizeof handle), 0);
  EXPECT_FALSE(cuda::put_ipc_offset(handle, uint64_t{1} << 48));
  handle.reserved[63] = 1;
  EXPECT_FALSE(cuda::put_ipc_offset(handle, 8));
  EXPECT_EQ(cuda::take_ipc_offset(handle), 0u);
}

TEST(CudaSharedAllocation, MapsWhatADescriptorHoldsAndLetsItGo) {
  auto init = driver_function<hip::Error (*)(unsigned)>("cuInit");
  auto retain = driver_function<hip::Error (*)(Context*, int)>("cuDevicePrimaryCtxRetain");
  auto set = driver_function<hip::Error (*)(Context)>("cuCtxSetCurrent");
  Context context = nullptr;
  init(0);
  retain(&context, 0);
  set(context);
  posix::Fd fd(memfd_create("allocation", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(fd.get(), 4 * kMiB), 0);
  hip::Error error = hip::kSuccess;
  const int released = calls("cuMemRelease"), unmapped = calls("cuMemUnmap"),
            freed = calls("cuMemAddressFree");
  {
    auto a = cuda::SharedAllocation::map(fd.get(), 3 * kMiB, 0, error);
    ASSERT_TRUE(a) << error;
    EXPECT_EQ(a->size(), 4 * kMiB);
    memcpy(a->address() + 3 * kMiB - 4, "here", 4);
  }
  char back[5] = {};
  ASSERT_EQ(pread(fd.get(), back, 4, 3 * kMiB - 4), 4);
  EXPECT_STREQ(back, "here");
  EXPECT_EQ(calls("cuMemRelease"), released + 1);
  EXPECT_EQ(calls("cuMemUnmap"), unmapped + 1);
  EXPECT_EQ(calls("cuMemAddressFree"), freed + 1);
  // Larger than what is there: everything taken so far is given back.
  EXPECT_EQ(cuda::SharedAllocation::map(fd.get(), 5 * kMiB, 0, error), nullptr);
  EXPECT_EQ(error, hip::kErrorInvalidValue);
  EXPECT_EQ(calls("cuMemRelease"), released + 2);
  EXPECT_EQ(calls("cuMemAddressFree"), freed + 2);
  EXPECT_EQ(cuda::SharedAllocation::map(-1, kMiB, 0, error), nullptr);
  EXPECT_EQ(cuda::SharedAllocation::map(fd.get(), 0, 0, error), nullptr);
  EXPECT_EQ(cuda::SharedAllocation::map(fd.get(), SIZE_MAX, 0, error), nullptr);
}

// The other process of SharesDeviceMemory...: 0, or the number of the check that failed.
int open_ipc_handle() {
  const ipc_test::Given given;
  auto runtime = gpu::Runtime::load(given.library);
  if (!runtime) return 1;
  const auto& hip = (*runtime)->hip();
  const unsigned flags = (*runtime)->ipc_open_flags();
  const hip::IpcMemHandle& handle = given.handle;
  const hip::IpcMemHandle& interior = given.inside;
  void *base = nullptr, *inside = nullptr, *again = nullptr;
  if (hip.hipIpcOpenMemHandle(&base, handle, flags) != hip::kSuccess) return 2;
  if (hip.hipIpcOpenMemHandle(&inside, interior, flags) != hip::kSuccess) return 3;
  if (last("cuIpcOpenMemHandle") != "flags 1 tail 0") return 4;
  if (inside != static_cast<char*>(base) + 1000) return 5;
  if (hip.hipIpcOpenMemHandle(&again, interior, flags) != hip::kSuccess || again != inside) return 6;
  if (hip.hipIpcOpenMemHandle(&again, handle, flags ^ 1) == hip::kSuccess) return 7;
  char byte = 0;
  if (hip.hipMemcpy(&byte, inside, 1, hip::kMemcpyDeviceToHost) != hip::kSuccess) return 8;
  if (byte != static_cast<char>(1000 * 7)) return 9;
  if (hip.hipMemcpy(static_cast<char*>(base) + 5, "c", 1, hip::kMemcpyHostToDevice) != hip::kSuccess)
    return 10;
  auto imported = gpu::import_ipc(*runtime, 0, interior, 24, 100);
  if (!imported || (*imported)->memory().address != static_cast<char*>(base) + 1024) return 11;
  if ((*imported)->memory().kind != gpu::MemoryKind::device || (*imported)->memory().pages) return 12;
  imported->reset();
  if (gpu::import_ipc(*runtime, 0, interior, 0, (3 << 20) - 999)) return 13;  // one byte too many
  for (int i = 0; i < 2; i++)
    if (hip.hipIpcCloseMemHandle(inside) != hip::kSuccess) return 14;
  if (hip.hipIpcCloseMemHandle(base) != hip::kSuccess) return 15;
  return hip.hipIpcCloseMemHandle(base) == hip::kSuccess ? 16 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string(argv[1]) == "--open-ipc-handle") return open_ipc_handle();
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
