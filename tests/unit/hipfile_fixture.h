// A file, device memory and a closed driver for every test of the C API.
#pragma once

#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <vector>

#include "gpu/hip.h"
#include "hipfile.h"

inline const gpu::HipTable& hip_api() {
  static auto runtime = *gpu::Runtime::load("auto");
  return runtime->hip();
}

inline void expect(hipFileError_t got, int err) {
  EXPECT_EQ(got.err, err) << hipFileGetOpErrorString(got.err);
  EXPECT_EQ(got.hip_drv_err, hipSuccess);
}

class HipFile : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/var/tmp/hipfile_XXXXXX";
    fd_ = mkstemp(name);
    path_ = name;
    ASSERT_EQ(hip_api().hipMalloc(&device_, kSize), ::hip::kSuccess);
  }
  void TearDown() override {
    while (hipFileUseCount() > 0) expect(hipFileDriverClose(), hipFileSuccess);
    hip_api().hipFree(device_);
    close(fd_);
    unlink(path_.c_str());
  }
  hipFileHandle_t register_fd(int fd) {
    hipFileDescr_t d{};
    d.type = hipFileHandleTypeOpaqueFD;
    d.handle.fd = fd;
    hipFileHandle_t handle = nullptr;
    expect(hipFileHandleRegister(&handle, &d), hipFileSuccess);
    return handle;
  }
  void fill_file(const std::vector<char>& bytes) {
    ASSERT_EQ(pwrite(fd_, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  }
  std::vector<char> from_device(size_t size, size_t offset = 0) {
    std::vector<char> out(size);
    EXPECT_EQ(hip_api().hipMemcpy(out.data(), static_cast<char*>(device_) + offset, size,
                                  ::hip::kMemcpyDeviceToHost),
              ::hip::kSuccess);
    return out;
  }
  static std::vector<char> pattern(size_t size) {
    std::vector<char> bytes(size);
    std::mt19937 random(7);
    for (auto& b : bytes) b = static_cast<char>(random());
    return bytes;
  }

  static constexpr size_t kSize = 8 << 20;
  int fd_ = -1;
  std::string path_;
  void* device_ = nullptr;
};

/// The tests of `Base`, where no request goes by peer-to-peer DMA.
template <typename Base>
class WithoutPeers : public Base {
 protected:
  void SetUp() override {
    expect(hipFileSetParameterBool(hipFileParamForceCompatMode, true), hipFileSuccess);
    Base::SetUp();
  }
  void TearDown() override {
    Base::TearDown();
    expect(hipFileSetParameterBool(hipFileParamForceCompatMode, false), hipFileSuccess);
  }
};
