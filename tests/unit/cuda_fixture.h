// The CUDA stand-in of each HIP major over the fake driver, and what the driver was asked for.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "fake_cuda.h"
#include "gpu/hip.h"

namespace cuda_test {

inline constexpr size_t kMiB = 1 << 20;

/// The driver's own.
using Context = void*;

inline std::string program_directory() {
  char self[4096];
  ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  std::string path(self, static_cast<size_t>(n));
  return path.substr(0, path.rfind('/'));
}

inline void* driver_library() {
  static void* library = dlopen("libcuda.so.1", RTLD_NOW);
  return library;
}
template <typename F>
F driver_function(const char* name) {
  return reinterpret_cast<F>(dlsym(driver_library(), name));
}
inline int calls(const char* name) {
  return driver_function<decltype(&fakeCudaCalls)>("fakeCudaCalls")(name);
}
inline std::string last(const char* name) {
  return driver_function<decltype(&fakeCudaLast)>("fakeCudaLast")(name);
}

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

}  // namespace cuda_test
