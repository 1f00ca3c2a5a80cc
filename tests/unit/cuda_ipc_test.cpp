// Memory of the CUDA stand-in that two processes share.
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "cuda/ipc_offset.h"
#include "cuda_fixture.h"
#include "gpu/import.h"
#include "ipc_handle.h"
#include "ipc_main.h"

using namespace cuda_test;

namespace {

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

int main(int argc, char** argv) { return ipc_test::main_of(argc, argv, open_ipc_handle); }
