// The GPU of the tests in this folder: any that a HIP runtime shows, NVIDIA's over the CUDA stand-in included.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "gpu/hip.h"
#include "gpu/memory.h"

namespace gpu_test {

inline constexpr size_t kMiB = size_t{1} << 20;

/// The runtime that HIPFILE_TEST_RUNTIME names, or the one that is found. Null if there is none.
inline std::shared_ptr<const gpu::Runtime> runtime() {
  static auto loaded = [] {
    const char* name = getenv("HIPFILE_TEST_RUNTIME");
    auto found = gpu::Runtime::load(name ? name : "auto");
    return found ? *found : nullptr;
  }();
  return loaded;
}
inline const gpu::HipTable& api() { return runtime()->hip(); }

/// What is missing, for GTEST_SKIP; empty if there is a GPU.
inline std::string missing() {
  if (!runtime()) return "needs a GPU: there is no HIP runtime";
  if (runtime()->kind() == gpu::RuntimeKind::software || runtime()->device_count() == 0)
    return "needs a GPU: found only " + runtime()->describe();
  return "";
}

inline std::vector<char> pattern(size_t size, unsigned seed) {
  std::vector<char> bytes(size);
  std::mt19937_64 random(seed);
  for (size_t i = 0; i + 8 <= size; i += 8) {
    uint64_t v = random();
    memcpy(&bytes[i], &v, 8);
  }
  for (size_t i = size / 8 * 8; i < size; i++) bytes[i] = static_cast<char>(i + seed);
  return bytes;
}

/// Device memory that frees itself.
class DeviceMemory {
 public:
  explicit DeviceMemory(size_t size) : size_(size) {
    EXPECT_EQ(api().hipMalloc(&address_, size), hip::kSuccess);
  }
  ~DeviceMemory() {
    if (address_) api().hipFree(address_);
  }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  char* address() const { return static_cast<char*>(address_); }
  size_t size() const { return size_; }
  void fill(const std::vector<char>& bytes, size_t offset = 0) const {
    ASSERT_EQ(api().hipMemcpy(address() + offset, bytes.data(), bytes.size(), hip::kMemcpyHostToDevice),
              hip::kSuccess);
  }
  std::vector<char> bytes(size_t offset, size_t length) const {
    std::vector<char> out(length);
    EXPECT_EQ(api().hipMemcpy(out.data(), address() + offset, length, hip::kMemcpyDeviceToHost),
              hip::kSuccess);
    return out;
  }
  std::vector<char> bytes() const { return bytes(0, size_); }

 private:
  void* address_ = nullptr;
  size_t size_;
};

/// A function of the runtime that is not in its table.
template <typename... A>
hip::Error call(const char* name, A... arguments) {
  void* library = dlopen(runtime()->path().c_str(), RTLD_NOW);
  auto function = reinterpret_cast<hip::Error (*)(A...)>(dlsym(library, name));
  return function ? function(arguments...) : hip::kErrorNotSupported;
}

class Gpu : public testing::Test {
 protected:
  void SetUp() override {
    if (auto why = missing(); !why.empty()) GTEST_SKIP() << why;
    ASSERT_EQ(api().hipSetDevice(0), hip::kSuccess);
  }
};

}  // namespace gpu_test
