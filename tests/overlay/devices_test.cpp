// A mount and clients with two devices.
#include <cstdlib>

#include "ioctl_fixture.h"

namespace {

using namespace overlay;

// Memory of both devices, registered by IPC handle for one description.
class TwoDevices : public Ioctl {
 protected:
  static constexpr size_t kSize = 4 << 20;
  struct Buffer {
    char* memory;
    uint64_t id;
  };

  // Before anything loads the runtime, here or in the daemon.
  static void SetUpTestSuite() { setenv("HIP_SOFTWARE_DEVICES", "2", 1); }
  static const gpu::HipTable& hip() {
    static auto runtime = *gpu::Runtime::load("software");
    return runtime->hip();
  }

  void SetUp() override {
    Ioctl::SetUp();
    if (IsSkipped()) return;
    file_ = open_file();
    for (int device : {0, 1}) buffers_.push_back(registered(device));
  }
  void TearDown() override {
    file_.reset();
    for (const Buffer& b : buffers_) EXPECT_EQ(hip().hipFree(b.memory), hip::kSuccess);
    Ioctl::TearDown();
  }
  Buffer registered(int device) {
    EXPECT_EQ(hip().hipSetDevice(device), hip::kSuccess);
    void* memory = nullptr;
    EXPECT_EQ(hip().hipMalloc(&memory, kSize), hip::kSuccess);
    hipfile_fuse_register r{};
    r.version = HIPFILE_FUSE_ABI_VERSION;
    r.kind = HIPFILE_FUSE_BUFFER_HIP_IPC;
    r.device = device;
    r.fd = -1;
    r.flags = HIPFILE_FUSE_REGISTER_PROCESS;
    r.length = kSize;
    hip::IpcMemHandle handle;
    EXPECT_EQ(hip().hipIpcGetMemHandle(&handle, memory), hip::kSuccess);
    memcpy(r.ipc_handle, &handle, sizeof handle);
    EXPECT_EQ(try_register(file_.get(), r), 0);
    return {static_cast<char*>(memory), r.buffer_id};
  }
  std::vector<char> contents(const Buffer& b, size_t offset, size_t size) {
    std::vector<char> bytes(size);
    EXPECT_EQ(hip().hipMemcpy(bytes.data(), b.memory + offset, size, hip::kMemcpyDeviceToHost),
              hip::kSuccess);
    return bytes;
  }
  std::vector<char> part(size_t offset, size_t size) const {
    const auto begin = kBytes.begin() + static_cast<ptrdiff_t>(offset);
    return {begin, begin + static_cast<ptrdiff_t>(size)};
  }

  posix::Fd file_;
  std::vector<Buffer> buffers_;
};

TEST_F(TwoDevices, OneDescriptionFillsBoth) {
  EXPECT_EQ(info(file_.get()).device_count, 2);
  for (size_t size : {size_t{4096}, kBytes.size()})
    for (size_t i : {1, 0}) {
      EXPECT_EQ(read_io(file_.get(), buffers_[i].id, 0, 0, size), static_cast<int64_t>(size));
      EXPECT_EQ(contents(buffers_[i], 0, size), part(0, size));
    }
}

TEST_F(TwoDevices, OneBatchFillsBoth) {
  BatchOf batch(64);
  for (uint32_t i = 0; i < 64; i++) {
    auto& e = batch.entries[i];
    e.buffer_id = buffers_[i % 2].id;
    e.buffer_offset = i * 32768;
    e.file_offset = i * 10007;
    e.length = i % 7 == 0 ? 32768 : 1 + i * 71;
  }
  ASSERT_EQ(batch.submit(file_.get(), 64), 0);
  for (uint32_t i = 0; i < 64; i++) {
    const auto& e = batch.entries[i];
    ASSERT_EQ(e.result, static_cast<int64_t>(e.length)) << i;
    EXPECT_EQ(contents(buffers_[i % 2], e.buffer_offset, e.length), part(e.file_offset, e.length)) << i;
  }
}

TEST_F(TwoDevices, ATagIsOfTheBuffersDevice) {
  const posix::Fd tagged = open_file();
  for (size_t i : {1, 0}) {
    ASSERT_EQ(try_tag(tagged.get(), make_tag(buffers_[i].id, 512, 0, kBytes.size())), 0);
    std::vector<char> own(kBytes.size());
    EXPECT_EQ(pread(tagged.get(), own.data(), own.size(), 0), static_cast<ssize_t>(own.size()));
    EXPECT_EQ(contents(buffers_[i], 512, kBytes.size()), kBytes);
    ASSERT_EQ(try_untag(tagged.get()), 0);
  }
}

TEST_F(TwoDevices, WhatOneHoldsIsWrittenWhileTheOtherIsFilled) {
  constexpr size_t kPart = 1 << 20;
  ASSERT_EQ(read_io(file_.get(), buffers_[1].id, 0, 0, kPart), static_cast<int64_t>(kPart));
  make_file("copy", part(kPart, kPart));
  posix::Fd copy = open_file(O_RDWR, "copy");
  BatchOf batch(2);
  for (uint32_t i : {0, 1}) {
    batch.entries[i].buffer_id = buffers_[i].id;
    batch.entries[i].length = kPart;
  }
  batch.entries[1].op = HIPFILE_FUSE_OP_WRITE;
  batch.entries[1].file_offset = kPart;
  ASSERT_EQ(batch.submit(copy.get(), 2), 0);
  for (const auto& e : batch.entries) EXPECT_EQ(e.result, static_cast<int64_t>(kPart));
  EXPECT_EQ(contents(buffers_[0], 0, kPart), part(kPart, kPart));
  const auto got = file_bytes("copy");
  EXPECT_EQ(std::vector<char>(got.begin() + kPart, got.end()), part(0, kPart));
}

}  // namespace
