// The HIP boundary over the software runtime, in both generations of HIP's ABI.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "gpu/hip.h"
#include "gpu/memory.h"
#include "gpu/stream.h"
#include "ipc_handle.h"
#include "ipc_main.h"

namespace {

std::string beside(const char* relative) {
  char self[4096];
  ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  std::string directory(self, static_cast<size_t>(n));
  return directory.substr(0, directory.rfind('/')) + relative;
}

// Streams, wait values and host functions are not in the library's table; tests look them up themselves.
template <typename F>
F symbol(const std::string& library, const char* name) {
  return reinterpret_cast<F>(dlsym(dlopen(library.c_str(), RTLD_NOW), name));
}

class Software : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    path_ =
        beside(GetParam() == 5 ? "/../lib/software5/libamdhip64.so.5" : "/../lib/software6/libamdhip64.so.6");
    auto runtime = gpu::Runtime::load(path_);
    ASSERT_TRUE(runtime) << runtime.error().text();
    runtime_ = *runtime;
  }
  void plan_faults(const char* spec) {
    ASSERT_EQ(symbol<int (*)(const char*)>(path_, "hipSoftwarePlanFaults")(spec), 0);
  }
  const gpu::HipTable& hip() const { return runtime_->hip(); }
  void* device_memory(size_t size) {
    void* p = nullptr;
    EXPECT_EQ(hip().hipMalloc(&p, size), hip::kSuccess);
    return p;
  }
  std::string path_;
  std::shared_ptr<const gpu::Runtime> runtime_;
};

TEST_P(Software, SaysThatItIsNoGpu) {
  EXPECT_EQ(runtime_->kind(), gpu::RuntimeKind::software);
  EXPECT_EQ(runtime_->major(), GetParam());
  EXPECT_EQ(runtime_->device_count(), 1);
  EXPECT_NE(runtime_->describe().find("Software"), std::string::npos);
}

TEST_P(Software, TellsMemoryKindsApartInBothNumberings) {
  void *device = device_memory(4096), *host = nullptr;
  ASSERT_EQ(hip().hipHostMalloc(&host, 4096, 0), hip::kSuccess);
  auto d = gpu::describe(*runtime_, static_cast<char*>(device) + 100);
  ASSERT_TRUE(d);
  EXPECT_EQ(d->kind, gpu::MemoryKind::device);
  EXPECT_EQ(d->length, 4096u - 100);
  EXPECT_EQ(d->device, 0);
  auto h = gpu::describe(*runtime_, host);
  ASSERT_TRUE(h);
  EXPECT_EQ(h->kind, gpu::MemoryKind::host);
  int local = 0;
  auto unknown = gpu::describe(*runtime_, &local);
  if (GetParam() == 5)
    EXPECT_FALSE(unknown);
  else
    EXPECT_EQ(unknown->kind, gpu::MemoryKind::pageable);
  EXPECT_FALSE(gpu::describe(*runtime_, nullptr));
  hip().hipFree(device);
  hip().hipHostFree(host);
}

TEST_P(Software, NeverGivesAnAddressTwice) {
  void* first = device_memory(4096);
  ASSERT_EQ(hip().hipFree(first), hip::kSuccess);
  for (int i = 0; i < 100; i++) {
    void* next = device_memory(4096);
    EXPECT_NE(next, first);
    hip().hipFree(next);
  }
  EXPECT_NE(hip().hipFree(first), hip::kSuccess);
}

TEST_P(Software, RefusesCopiesBeyondAnAllocation) {
  void* device = device_memory(4096);
  std::vector<char> host(8192);
  EXPECT_EQ(hip().hipMemcpy(device, host.data(), 4096, hip::kMemcpyHostToDevice), hip::kSuccess);
  EXPECT_NE(hip().hipMemcpy(device, host.data(), 4097, hip::kMemcpyHostToDevice), hip::kSuccess);
  EXPECT_NE(hip().hipMemcpy(host.data(), host.data() + 4096, 1, hip::kMemcpyHostToDevice), hip::kSuccess);
  hip().hipGetLastError();
  hip().hipFree(device);
}

TEST_P(Software, StreamsKeepOrderAndWaitForValuesEventsAndHostFunctions) {
  auto wait_value =
      symbol<int (*)(void*, void*, uint64_t, unsigned, uint64_t)>(path_, "hipStreamWaitValue64");
  auto host_function = symbol<int (*)(void*, void (*)(void*), void*)>(path_, "hipLaunchHostFunc");
  auto wait_event = symbol<int (*)(void*, void*, unsigned)>(path_, "hipStreamWaitEvent");
  auto signal_memory = symbol<int (*)(void**, size_t, unsigned)>(path_, "hipExtMallocWithFlags");
  void* flag = nullptr;
  ASSERT_EQ(signal_memory(&flag, 8, hip::kMallocSignalMemory), 0);
  hip::Stream one = nullptr, two = nullptr;
  hip::Event event = nullptr;
  ASSERT_EQ(hip().hipStreamCreateWithFlags(&one, hip::kStreamNonBlocking), hip::kSuccess);
  ASSERT_EQ(hip().hipStreamCreateWithFlags(&two, hip::kStreamNonBlocking), hip::kSuccess);
  ASSERT_EQ(hip().hipEventCreateWithFlags(&event, hip::kEventDisableTiming), hip::kSuccess);
  static std::atomic<int> order;
  order = 0;
  ASSERT_EQ(wait_value(one, flag, 7, hip::kWaitGte, ~0ull), 0);
  ASSERT_EQ(host_function(
                one, [](void*) { order = order * 10 + 1; }, nullptr),
            0);
  ASSERT_EQ(hip().hipEventRecord(event, one), hip::kSuccess);
  ASSERT_EQ(wait_event(two, event, 0), 0);
  ASSERT_EQ(host_function(
                two, [](void*) { order = order * 10 + 2; }, nullptr),
            0);
  EXPECT_EQ(hip().hipEventQuery(event), hip::kErrorNotReady);
  uint64_t seven = 7;
  ASSERT_EQ(hip().hipMemcpy(flag, &seven, 8, hip::kMemcpyDefault),
            hip::kSuccess);  // does not wait for non-blocking
  ASSERT_EQ(hip().hipStreamSynchronize(two), hip::kSuccess);
  EXPECT_EQ(order, 12);
  EXPECT_EQ(hip().hipEventQuery(event), hip::kSuccess);
  hip().hipEventDestroy(event);
  hip().hipStreamDestroy(one);
  hip().hipStreamDestroy(two);
  EXPECT_NE(hip().hipStreamSynchronize(one), hip::kSuccess);
  hip().hipGetLastError();
}

TEST_P(Software, DestroyingAStreamEndsAWaitThatNobodyWillSatisfy) {
  auto wait_value =
      symbol<int (*)(void*, void*, uint64_t, unsigned, uint64_t)>(path_, "hipStreamWaitValue64");
  auto signal_memory = symbol<int (*)(void**, size_t, unsigned)>(path_, "hipExtMallocWithFlags");
  void* flag = nullptr;
  ASSERT_EQ(signal_memory(&flag, 8, hip::kMallocSignalMemory), 0);
  hip::Stream stream = nullptr;
  ASSERT_EQ(hip().hipStreamCreateWithFlags(&stream, hip::kStreamNonBlocking), hip::kSuccess);
  ASSERT_EQ(wait_value(stream, flag, 1, hip::kWaitEq, ~0ull), 0);
  EXPECT_EQ(hip().hipStreamDestroy(stream), hip::kSuccess);
}

TEST_P(Software, SharesDeviceMemoryWithAnotherProcess) {
  char* device = static_cast<char*>(device_memory(3 << 20));
  std::vector<char> pattern(3 << 20);
  for (size_t i = 0; i < pattern.size(); i++) pattern[i] = static_cast<char>(i * 7);
  ASSERT_EQ(hip().hipMemcpy(device, pattern.data(), pattern.size(), hip::kMemcpyHostToDevice), hip::kSuccess);
  hip::IpcMemHandle handle, inside;
  ASSERT_EQ(hip().hipIpcGetMemHandle(&handle, device), hip::kSuccess);
  ASSERT_EQ(hip().hipIpcGetMemHandle(&inside, device + 1000), hip::kSuccess);
  void* same = nullptr;
  EXPECT_NE(hip().hipIpcOpenMemHandle(&same, handle, runtime_->ipc_open_flags()), hip::kSuccess);
  EXPECT_EQ(ipc_test::open_in_another_process(beside("/runtime_test"), path_, handle, inside), 0);
  char changed = 0;
  ASSERT_EQ(hip().hipMemcpy(&changed, device + 5, 1, hip::kMemcpyDeviceToHost), hip::kSuccess);
  EXPECT_EQ(changed, 'c');
  hip().hipFree(device);
}

TEST_P(Software, FailsTheCallsItIsToldToFail) {
  plan_faults("hipMalloc:2:2,hipMemcpy:*:719");
  void* p = nullptr;
  EXPECT_EQ(hip().hipMalloc(&p, 16), hip::kSuccess);
  void* q = nullptr;
  EXPECT_EQ(hip().hipMalloc(&q, 16), hip::kErrorOutOfMemory);
  EXPECT_EQ(hip().hipMalloc(&q, 16), hip::kSuccess);
  char byte = 0;
  EXPECT_EQ(hip().hipMemcpy(p, &byte, 1, hip::kMemcpyHostToDevice), hip::kErrorLaunchFailure);
  EXPECT_EQ(hip().hipGetLastError(), hip::kErrorLaunchFailure);
  EXPECT_EQ(hip().hipGetLastError(), hip::kSuccess);
  EXPECT_EQ(symbol<int (*)(const char*)>(path_, "hipSoftwarePlanFaults")("nonsense"),
            hip::kErrorInvalidValue);
  plan_faults("");
  EXPECT_EQ(hip().hipMemcpy(p, &byte, 1, hip::kMemcpyHostToDevice), hip::kSuccess);
  hip().hipFree(p);
  hip().hipFree(q);
}

TEST_P(Software, HasAisOnlyThroughGetProcAddress) {
  EXPECT_EQ(dlsym(dlopen(path_.c_str(), RTLD_NOW), "hipAmdFileRead"), nullptr);
  EXPECT_TRUE(runtime_->has_ais());
}

TEST_P(Software, GuardRestoresTheCurrentDevice) {
  int before = -1, after = -1;
  ASSERT_EQ(hip().hipGetDevice(&before), hip::kSuccess);
  { gpu::DeviceGuard guard(*runtime_, 0); }
  { EXPECT_NE(gpu::DeviceGuard(*runtime_, 5).status(), hip::kSuccess); }
  ASSERT_EQ(hip().hipGetDevice(&after), hip::kSuccess);
  EXPECT_EQ(before, after);
}

INSTANTIATE_TEST_SUITE_P(Hip, Software, testing::Values(5, 6), testing::PrintToStringParamName());

TEST(Runtime, RefusesNamesAndLibrariesThatAreNone) {
  EXPECT_EQ(gpu::Runtime::load("nvidia").error().code, EINVAL);
  EXPECT_EQ(gpu::Runtime::load("/nowhere/libamdhip64.so.6").error().code, ENOENT);
  EXPECT_EQ(gpu::Runtime::load("libc.so.6/..").error().code, ENOENT);
}

TEST(Runtime, FindsTheStandInBesideTheProgram) {
  auto runtime = gpu::Runtime::load("software");
  ASSERT_TRUE(runtime) << runtime.error().text();
  EXPECT_EQ((*runtime)->kind(), gpu::RuntimeKind::software);
}

}  // namespace

namespace {

// The other process of SharesDeviceMemoryWithAnotherProcess: 0, or the number of the check that failed.
int open_ipc_handle() {
  const ipc_test::Given given;
  auto runtime = gpu::Runtime::load(given.library);
  if (!runtime) return 1;
  const auto& hip = (*runtime)->hip();
  const unsigned flags = (*runtime)->ipc_open_flags();
  const hip::IpcMemHandle& handle = given.handle;
  void *base = nullptr, *inside = nullptr, *again = nullptr;
  if (hip.hipIpcOpenMemHandle(&base, handle, flags) != hip::kSuccess) return 2;
  if (hip.hipIpcOpenMemHandle(&inside, given.inside, flags) != hip::kSuccess) return 3;
  if (hip.hipIpcOpenMemHandle(&again, handle, flags) != hip::kSuccess || again != base) return 4;
  if (inside != static_cast<char*>(base) + 1000) return 5;
  if (hip.hipIpcOpenMemHandle(&again, handle, flags ^ 1) == hip::kSuccess) return 6;
  // A handle that somebody made up opens nothing, wherever a single bit of it differs.
  for (size_t i = 0; i < 32; i++) {
    if (i >= 4 && i < 8) continue;  // the process: a thread of it leads to the same memory
    hip::IpcMemHandle forged = handle;
    forged.reserved[i] = static_cast<char>(forged.reserved[i] ^ 4);
    if (hip.hipIpcOpenMemHandle(&again, forged, flags) == hip::kSuccess) return 7;
  }
  char byte = 0;
  if (hip.hipMemcpy(&byte, inside, 1, hip::kMemcpyDeviceToHost) != hip::kSuccess) return 8;
  if (byte != static_cast<char>(1000 * 7)) return 9;
  if (hip.hipMemcpy(static_cast<char*>(base) + 5, "c", 1, hip::kMemcpyHostToDevice) != hip::kSuccess)
    return 10;
  for (int i = 0; i < 3; i++)
    if (hip.hipIpcCloseMemHandle(base) != hip::kSuccess) return 11;
  return hip.hipIpcCloseMemHandle(base) == hip::kSuccess ? 12 : 0;
}

}  // namespace

int main(int argc, char** argv) { return ipc_test::main_of(argc, argv, open_ipc_handle); }
