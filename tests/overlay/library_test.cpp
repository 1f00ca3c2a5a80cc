// libhipfile on descriptors of a mount: it goes around the daemon where it can, and works where it cannot.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cstring>
#include <filesystem>

#include "hipfile.h"
#include "mounted.h"

namespace {

using namespace overlay;

class Library : public Mounted {
 protected:
  static const gpu::HipTable& hip_api() {
    static auto runtime = *gpu::Runtime::load("auto");
    return runtime->hip();
  }
  static bool has_open(const std::string& path) {
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code gone;
      if (std::filesystem::read_symlink(entry.path(), gone) == path) return true;
    }
    return false;
  }
  void TearDown() override {
    while (hipFileUseCount() > 0) (void)hipFileDriverClose();
    Mounted::TearDown();
  }
};

TEST_F(Library, UsesTheFileBehindTheMount) {
  const auto bytes = pattern(3'000'000);
  make_file("a", bytes);
  mount();
  posix::Fd fd(open(mounted("a").c_str(), O_RDWR));
  hipFileDescr_t d{};
  d.type = hipFileHandleTypeOpaqueFD;
  d.handle.fd = fd.get();
  hipFileHandle_t handle = nullptr, again = nullptr;
  EXPECT_FALSE(has_open(source("a")));
  ASSERT_EQ(hipFileHandleRegister(&handle, &d).err, hipFileSuccess);
  EXPECT_TRUE(has_open(source("a")));
  EXPECT_EQ(hipFileHandleRegister(&again, &d).err, hipFileHandleAlreadyRegistered);
  void* device = nullptr;
  ASSERT_EQ(hip_api().hipMalloc(&device, 4 << 20), hip::kSuccess);
  EXPECT_EQ(hipFileRead(handle, device, 4 << 20, 0, 0), static_cast<ssize_t>(bytes.size()));
  std::vector<char> back(bytes.size());
  hip_api().hipMemcpy(back.data(), device, back.size(), hip::kMemcpyDeviceToHost);
  EXPECT_EQ(back, bytes);
  EXPECT_EQ(hipFileWrite(handle, device, 1000, 3'000'000, 0), 1000);
  EXPECT_EQ(file_bytes("a").size(), 3'001'000u);
  hipFileHandleDeregister(handle);
  EXPECT_FALSE(has_open(source("a")));
  hip_api().hipFree(device);
}

TEST_F(Library, WorksThroughTheMountWhereThePathBehindItIsAnother) {
  const auto bytes = pattern(500'000);
  make_file("a", bytes);
  mount();
  posix::Fd fd(open(mounted("a").c_str(), O_RDONLY));
  // Renamed underneath and replaced: the path that the mount names is another file now.
  std::filesystem::rename(source("a"), source("b"));
  make_file("a", pattern(100, 9));
  hipFileDescr_t d{};
  d.type = hipFileHandleTypeOpaqueFD;
  d.handle.fd = fd.get();
  hipFileHandle_t handle = nullptr;
  ASSERT_EQ(hipFileHandleRegister(&handle, &d).err, hipFileSuccess);
  void* device = nullptr;
  ASSERT_EQ(hip_api().hipMalloc(&device, 1 << 20), hip::kSuccess);
  EXPECT_EQ(hipFileRead(handle, device, 1 << 20, 0, 0), static_cast<ssize_t>(bytes.size()));
  std::vector<char> back(bytes.size());
  hip_api().hipMemcpy(back.data(), device, back.size(), hip::kMemcpyDeviceToHost);
  EXPECT_EQ(back, bytes);
  hip_api().hipFree(device);
}

}  // namespace
