// An engine over the software runtime, or the one that HIPFILE_TEST_RUNTIME names, a file and device memory.
#pragma once

#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <thread>

#include "engine/engine.h"

namespace engine_test {

using engine::CancelToken;
using engine::Direction;
using engine::Outcome;
using engine::Route;

inline constexpr uint64_t kMiB = 1 << 20;

/// "software", or "cuda": over the fake driver or a real one.
inline std::string runtime_name() {
  const char* name = getenv("HIPFILE_TEST_RUNTIME");
  return name ? name : "software";
}
inline bool strict() { return getenv("HIP_SOFTWARE_STRICT") || runtime_name() == "cuda"; }
inline bool without_ais() { return getenv("HIP_SOFTWARE_NO_AIS") || runtime_name() == "cuda"; }

inline std::vector<char> pattern(uint64_t size, uint64_t seed) {
  std::vector<char> bytes(size);
  std::mt19937_64 random(seed);
  for (size_t i = 0; i + 8 <= size; i += 8) {
    uint64_t v = random();
    memcpy(&bytes[i], &v, 8);
  }
  for (size_t i = size / 8 * 8; i < size; i++) bytes[i] = static_cast<char>(i);
  return bytes;
}

class Engine : public testing::Test {
 protected:
  static std::shared_ptr<const gpu::Runtime> runtime() {
    static auto loaded = *gpu::Runtime::load(runtime_name());
    return loaded;
  }

  void make(const engine::Config& config = {}) {
    engine_ = std::make_unique<engine::Engine>(runtime(), config);
  }
  void SetUp() override {
    make();
    const char* directory = getenv("HIPFILE_TEST_DIR");
    path_ = std::string(directory ? directory : "/var/tmp") + "/engine_XXXXXX";
    posix::Fd fd(mkstemp(path_.data()));
    ASSERT_TRUE(fd) << path_;
    file_fd_ = fd.release();
  }
  void TearDown() override {
    try_plan_faults("");
    close(file_fd_);
    unlink(path_.c_str());
    for (void* p : allocated_) runtime()->hip().hipFree(p);
  }

  // The CUDA stand-in's calls fail in the fake driver below it.
  static bool try_plan_faults(const char* spec) {
    for (const char* library : {runtime()->path().c_str(), "libcuda.so.1"})
      if (void* handle = dlopen(library, RTLD_NOW))
        if (auto plan = reinterpret_cast<int (*)(const char*)>(dlsym(handle, "hipSoftwarePlanFaults")))
          return plan(spec) == 0;
    return false;
  }
  static void plan_faults(const char* spec) { ASSERT_TRUE(try_plan_faults(spec)); }

  void fill_file(const std::vector<char>& bytes) {
    ASSERT_EQ(ftruncate(file_fd_, 0), 0);
    ASSERT_EQ(pwrite(file_fd_, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    ASSERT_EQ(fsync(file_fd_), 0);
  }
  void drop_cache() { posix_fadvise(file_fd_, 0, 0, POSIX_FADV_DONTNEED); }
  std::vector<char> file_bytes() {
    struct stat st;
    fstat(file_fd_, &st);
    std::vector<char> bytes(static_cast<size_t>(st.st_size));
    EXPECT_EQ(pread(file_fd_, bytes.data(), bytes.size(), 0), st.st_size);
    return bytes;
  }

  std::shared_ptr<const storage::File> open_file(int flags = O_RDWR) {
    auto file = storage::File::open(posix::Fd(open(path_.c_str(), flags | O_CLOEXEC)), engine_->mounts());
    EXPECT_TRUE(file) << file.error().text();
    return *file;
  }

  gpu::Memory device(uint64_t size) {
    void* p = nullptr;
    EXPECT_EQ(runtime()->hip().hipMalloc(&p, size), hip::kSuccess);
    allocated_.push_back(p);
    return *gpu::describe(*runtime(), p);
  }
  static std::vector<char> contents(const gpu::Memory& m) {
    std::vector<char> bytes(m.length);
    EXPECT_EQ(runtime()->hip().hipMemcpy(bytes.data(), m.address, m.length, hip::kMemcpyDeviceToHost),
              hip::kSuccess);
    return bytes;
  }
  static void fill(const gpu::Memory& m, const std::vector<char>& bytes) {
    ASSERT_EQ(runtime()->hip().hipMemcpy(m.address, bytes.data(), bytes.size(), hip::kMemcpyHostToDevice),
              hip::kSuccess);
  }

  Outcome run(Direction direction, const storage::File& file, const gpu::Memory& memory,
              uint64_t memory_offset, uint64_t file_offset, uint64_t length) {
    return engine_->run({direction, &file, memory, memory_offset, file_offset, length}, CancelToken());
  }

  // Random extents of a file, read and compared, with everything around them left alone.
  void read_random_extents(int rounds, uint64_t seed) {
    const std::vector<char> bytes = pattern(13 * kMiB + 777, 1);
    fill_file(bytes);
    auto file = open_file();
    gpu::Memory memory = device(13 * kMiB + 4096);
    std::mt19937_64 random(seed);
    for (int i = 0; i < rounds; i++) {
      uint64_t length = i % 3 == 0 ? random() % 9000 : random() % (12 * kMiB);
      uint64_t offset = random() % (bytes.size() + 5000);
      uint64_t at = random() % (memory.length - length + 1);
      if (i % 4 == 0) {  // block-aligned, as peer and direct I/O like it
        offset = offset / 4096 * 4096;
        at = at / 4096 * 4096;
      }
      if (i % 2) drop_cache();
      ASSERT_EQ(runtime()->hip().hipMemcpy(memory.address, marker(memory.length).data(), memory.length,
                                           hip::kMemcpyHostToDevice),
                hip::kSuccess);
      Outcome o = run(Direction::read, *file, memory, at, offset, length);
      ASSERT_EQ(o.error, 0) << strerror(o.error);
      uint64_t expected = offset >= bytes.size() ? 0 : std::min(length, bytes.size() - offset);
      ASSERT_EQ(o.bytes, expected) << "offset " << offset << " length " << length;
      auto got = contents(memory);
      ASSERT_EQ(memcmp(&got[at], bytes.data() + offset, expected), 0);
      for (uint64_t j = at > 64 ? at - 64 : 0; j < at; j++) ASSERT_EQ(got[j], kMarker);
      for (uint64_t j = at + expected; j < std::min(at + expected + 64, memory.length); j++)
        ASSERT_EQ(got[j], kMarker);
    }
  }
  void write_random_extents(int rounds, uint64_t seed) {
    std::vector<char> expected = pattern(9 * kMiB + 333, 2);
    fill_file(expected);
    auto file = open_file();
    const std::vector<char> source = pattern(9 * kMiB, seed);
    gpu::Memory memory = device(source.size());
    fill(memory, source);
    std::mt19937_64 random(seed);
    for (int i = 0; i < rounds; i++) {
      uint64_t length = 1 + random() % (i % 3 == 0 ? 9000 : 6 * kMiB);
      uint64_t offset = random() % (10 * kMiB), at = random() % (source.size() - length + 1);
      if (i % 4 == 0) {
        offset = offset / 4096 * 4096;
        at = at / 4096 * 4096;
      }
      Outcome o = run(Direction::write, *file, memory, at, offset, length);
      ASSERT_EQ(o.error, 0) << strerror(o.error);
      ASSERT_EQ(o.bytes, length);
      if (expected.size() < offset + length) expected.resize(offset + length);
      memcpy(&expected[offset], &source[at], length);
      if (i % 5 == 0) {
        ASSERT_EQ(file_bytes(), expected) << "after round " << i;
      }
    }
    EXPECT_EQ(file_bytes(), expected);
  }

  static constexpr char kMarker = 0x5a;
  static const std::vector<char>& marker(uint64_t size) {
    static std::vector<char> bytes;
    bytes.resize(size, kMarker);
    return bytes;
  }

  std::unique_ptr<engine::Engine> engine_;
  std::string path_;
  int file_fd_ = -1;
  std::vector<void*> allocated_;
};

// What holds only where the CPU can address device memory, and only where it cannot.

}  // namespace engine_test
