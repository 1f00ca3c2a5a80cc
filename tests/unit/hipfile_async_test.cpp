// hipFileReadAsync and hipFileWriteAsync in the order of streams.
#include <dlfcn.h>

#include <atomic>
#include <optional>
#include <thread>

#include "hipfile_fixture.h"

namespace {

using StreamHandle = hip::Stream;

class Async : public HipFile {
 protected:
  void SetUp() override {
    HipFile::SetUp();
    expect(hipFileDriverOpen(), hipFileSuccess);
    handle_ = register_fd(fd_);
    ASSERT_EQ(hip_api().hipStreamCreateWithFlags(&stream_, ::hip::kStreamNonBlocking), ::hip::kSuccess);
  }
  void TearDown() override {
    hip_api().hipStreamSynchronize(stream_);
    hip_api().hipStreamDestroy(stream_);
    HipFile::TearDown();
  }
  hipStream_t stream() const { return reinterpret_cast<hipStream_t>(stream_); }
  void synchronize() { ASSERT_EQ(hip_api().hipStreamSynchronize(stream_), ::hip::kSuccess); }
  hipFileError_t read(hipStream_t s) {
    return hipFileReadAsync(handle_, device_, &size_, &file_offset_, &buffer_offset_, &bytes_, s);
  }
  hipFileError_t write(hipStream_t s) {
    return hipFileWriteAsync(handle_, device_, &size_, &file_offset_, &buffer_offset_, &bytes_, s);
  }
  // Holds a stream until release() is called.
  void hold(StreamHandle held) {
    released_ = false;
    ASSERT_EQ(hip_api().hipLaunchHostFunc(
                  held,
                  [](void* flag) {
                    while (!*static_cast<std::atomic<bool>*>(flag)) std::this_thread::yield();
                  },
                  &released_),
              ::hip::kSuccess);
  }
  void release() { released_ = true; }

  hipFileHandle_t handle_ = nullptr;
  StreamHandle stream_ = nullptr;
  size_t size_ = 0;
  hoff_t file_offset_ = 0, buffer_offset_ = 0;
  ssize_t bytes_ = -77;
  std::atomic<bool> released_{false};
};

TEST_F(Async, MovesDataAndPublishesTheBytes) {
  fill_file(pattern(3'000'000));
  size_ = 3'000'000;
  expect(read(stream()), hipFileSuccess);
  synchronize();
  EXPECT_EQ(bytes_, 3'000'000);
  EXPECT_EQ(from_device(3'000'000), pattern(3'000'000));
  size_ = 1'000'000;
  file_offset_ = 5'000'001;
  buffer_offset_ = 3;
  expect(write(stream()), hipFileSuccess);
  synchronize();
  EXPECT_EQ(bytes_, 1'000'000);
  std::vector<char> back(1'000'000);
  ASSERT_EQ(pread(fd_, back.data(), back.size(), 5'000'001), 1'000'000);
  EXPECT_EQ(memcmp(back.data(), pattern(3'000'000).data() + 3, back.size()), 0);
}

TEST_F(Async, TakesTheNullStreamAndPageableShortReads) {
  fill_file(pattern(1000));
  size_ = 5000;
  expect(read(nullptr), hipFileSuccess);
  ASSERT_EQ(hip_api().hipStreamSynchronize(nullptr), ::hip::kSuccess);
  EXPECT_EQ(bytes_, 1000);
}

// The software runtime only says that streams are captured; NVIDIA's driver does it.
class Capture {
 public:
  explicit Capture(StreamHandle stream) : stream_(stream) {
    setenv("HIP_SOFTWARE_CAPTURING", "1", 1);
    if (auto begin = function<int (*)(StreamHandle, int)>("cuStreamBeginCapture_v2")) begin(stream, 0);
  }
  ~Capture() {
    unsetenv("HIP_SOFTWARE_CAPTURING");
    void* graph = nullptr;
    if (auto end = function<int (*)(StreamHandle, void**)>("cuStreamEndCapture")) end(stream_, &graph);
  }

 private:
  template <typename F>
  static F function(const char* name) {
    void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    return driver ? reinterpret_cast<F>(dlsym(driver, name)) : nullptr;
  }
  StreamHandle stream_;
};

TEST_F(Async, StreamsThatAreCapturedAreRefused) {
  fill_file(pattern(1000));
  size_ = 1000;
  std::optional<Capture> capture(stream_);
  const hipFileError_t error = read(stream());
  capture.reset();
  EXPECT_EQ(error.err, hipFileHipDriverError);
  EXPECT_EQ(static_cast<int>(error.hip_drv_err), 900);  // hipErrorStreamCaptureUnsupported
  EXPECT_EQ(hipFileUseCount(), 1);
  expect(read(stream()), hipFileSuccess);
}

class AsyncWithoutPeers : public WithoutPeers<Async> {
 protected:
  void SetUp() override {
    WithoutPeers::SetUp();
    fill_file(pattern(100'000));
    size_ = 5000;
  }
};

TEST_F(AsyncWithoutPeers, ASmallReadFromThePageCacheOnAnIdleStreamIsDoneAtOnce) {
  expect(read(stream()), hipFileSuccess);
  EXPECT_EQ(bytes_, 5000);
  EXPECT_EQ(from_device(5000), pattern(5000));
}

TEST_F(AsyncWithoutPeers, ASmallReadWaitsForWhatIsInTheStream) {
  hold(stream_);
  expect(read(stream()), hipFileSuccess);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(bytes_, 0);
  release();
  synchronize();
  EXPECT_EQ(bytes_, 5000);
}

TEST_F(AsyncWithoutPeers, ASmallReadWaitsForTheNullStreamWhereItsStreamDoes) {
  StreamHandle blocking = nullptr;
  ASSERT_EQ(hip_api().hipStreamCreateWithFlags(&blocking, 0), ::hip::kSuccess);
  hold(nullptr);
  expect(read(reinterpret_cast<hipStream_t>(blocking)), hipFileSuccess);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(bytes_, 0);
  release();
  ASSERT_EQ(hip_api().hipStreamSynchronize(blocking), ::hip::kSuccess);
  EXPECT_EQ(bytes_, 5000);
  hip_api().hipStreamDestroy(blocking);
}

TEST_F(Async, ZeroBytesAreDoneAtOnce) {
  expect(read(stream()), hipFileSuccess);
  EXPECT_EQ(bytes_, 0);
}

TEST_F(Async, RefusesBadCalls) {
  size_ = 10;
  hoff_t* none = nullptr;
  expect(hipFileReadAsync(handle_, nullptr, &size_, &file_offset_, &buffer_offset_, &bytes_, stream()),
         hipFileInvalidValue);
  expect(hipFileReadAsync(handle_, device_, nullptr, &file_offset_, &buffer_offset_, &bytes_, stream()),
         hipFileInvalidValue);
  expect(hipFileReadAsync(handle_, device_, &size_, none, &buffer_offset_, &bytes_, stream()),
         hipFileInvalidValue);
  expect(hipFileReadAsync(handle_, device_, &size_, &file_offset_, none, &bytes_, stream()),
         hipFileInvalidValue);
  expect(hipFileReadAsync(handle_, device_, &size_, &file_offset_, &buffer_offset_, nullptr, stream()),
         hipFileInvalidValue);
  expect(hipFileReadAsync(nullptr, device_, &size_, &file_offset_, &buffer_offset_, &bytes_, stream()),
         hipFileHandleNotRegistered);
  size_ = kSize + 1;
  expect(read(stream()), hipFileInvalidValue);
  size_ = 10;
  buffer_offset_ = kSize;
  expect(read(stream()), hipFileInvalidValue);
  buffer_offset_ = -1;
  expect(read(stream()), hipFileInvalidValue);
  buffer_offset_ = 0;
  file_offset_ = -1;
  expect(read(stream()), hipFileInvalidValue);
  expect(hipFileDriverClose(), hipFileSuccess);
  file_offset_ = 0;
  expect(read(stream()), hipFileInvalidValue);
  EXPECT_EQ(hipFileUseCount(), 1);  // it is opened all the same
}

TEST_F(Async, OperationsOfAStreamRunInOrder) {
  fill_file(pattern(100'000));
  // Each read is followed by a write of what it brought to another place; the last read sees what was written.
  struct Step {
    size_t size = 1000;
    hoff_t file_offset, buffer_offset = 0;
    ssize_t bytes = 0;
  };
  std::vector<Step> steps(60);
  for (size_t i = 0; i < steps.size(); i++) steps[i].file_offset = static_cast<hoff_t>(i / 2 + i % 2) * 1000;
  hold(stream_);
  for (size_t i = 0; i < steps.size(); i++) {
    auto& s = steps[i];
    auto call = i % 2 ? hipFileWriteAsync : hipFileReadAsync;
    expect(call(handle_, device_, &s.size, &s.file_offset, &s.buffer_offset, &s.bytes, stream()),
           hipFileSuccess);
  }
  release();
  synchronize();
  for (auto& s : steps) EXPECT_EQ(s.bytes, 1000);
  std::vector<char> last(1000);
  ASSERT_EQ(pread(fd_, last.data(), 1000, 30'000), 1000);
  EXPECT_EQ(memcmp(last.data(), pattern(100'000).data(), 1000),
            0);  // the first block, carried along thirty times
}

TEST_F(Async, WorkBehindAnOperationSeesItsData) {
  fill_file(pattern(4 << 20));
  size_ = 4 << 20;
  void* pinned = nullptr;
  ASSERT_EQ(hip_api().hipHostMalloc(&pinned, 4 << 20, 0), ::hip::kSuccess);
  expect(read(stream()), hipFileSuccess);
  ASSERT_EQ(hip_api().hipMemcpyAsync(pinned, device_, 4 << 20, ::hip::kMemcpyDeviceToHost, stream_),
            ::hip::kSuccess);
  synchronize();
  EXPECT_EQ(memcmp(pinned, pattern(4 << 20).data(), 4 << 20), 0);
  hip_api().hipHostFree(pinned);
}

TEST_F(Async, ParametersAreReadWhenTheStreamReachesTheOperation) {
  fill_file(pattern(100'000));
  size_ = 50'000;
  hold(stream_);
  expect(read(stream()), hipFileSuccess);
  size_ = 20'000;
  file_offset_ = 7;
  buffer_offset_ = 100;
  release();
  synchronize();
  EXPECT_EQ(bytes_, 20'000);
  EXPECT_EQ(memcmp(from_device(20'000, 100).data(), pattern(100'000).data() + 7, 20'000), 0);
}

TEST_F(Async, AParameterThatTurnsBadLateIsReported) {
  fill_file(pattern(100'000));
  for (int which : {0, 1, 2}) {
    size_ = 1000;
    file_offset_ = buffer_offset_ = 0;
    hold(stream_);
    expect(read(stream()), hipFileSuccess);
    if (which == 0) size_ = 1001;
    if (which == 1) file_offset_ = -5;
    if (which == 2) buffer_offset_ = kSize;
    release();
    synchronize();
    EXPECT_EQ(bytes_, -hipFileInvalidValue) << which;
  }
}

TEST_F(Async, FixedParametersAreFinalAtTheCall) {
  fill_file(pattern(100'000));
  expect(hipFileStreamRegister(stream(), HIPFILE_STREAM_FIXED_BUF_OFFSET | HIPFILE_STREAM_FIXED_FILE_OFFSET |
                                             HIPFILE_STREAM_FIXED_FILE_SIZE),
         hipFileSuccess);
  size_ = 1000;
  file_offset_ = 50;
  hold(stream_);
  expect(read(stream()), hipFileSuccess);
  size_ = 99;
  file_offset_ = 0;
  buffer_offset_ = 12345;
  release();
  synchronize();
  EXPECT_EQ(bytes_, 1000);
  EXPECT_EQ(memcmp(from_device(1000).data(), pattern(100'000).data() + 50, 1000), 0);
  expect(hipFileStreamDeregister(stream()), hipFileSuccess);
}

TEST_F(Async, StreamsAreRegisteredOnceWithKnownFlags) {
  expect(hipFileStreamRegister(stream(), 0x10), hipFileInvalidValue);
  expect(hipFileStreamRegister(stream(), 0xf), hipFileSuccess);
  expect(hipFileStreamRegister(stream(), 0), hipFileInvalidValue);
  expect(hipFileStreamDeregister(stream()), hipFileSuccess);
  expect(hipFileStreamDeregister(stream()), hipFileInvalidValue);
  expect(hipFileStreamRegister(nullptr, 0), hipFileSuccess);
  expect(hipFileStreamDeregister(nullptr), hipFileSuccess);
}

TEST_F(Async, ErrorsOfTheFileArePublished) {
  int read_only = open(path_.c_str(), O_RDONLY);
  hipFileHandle_t handle = register_fd(read_only);
  size_ = 10;
  expect(hipFileWriteAsync(handle, device_, &size_, &file_offset_, &buffer_offset_, &bytes_, stream()),
         hipFileSuccess);
  synchronize();
  EXPECT_EQ(bytes_, -1);
  close(read_only);
}

TEST_F(Async, HandlesMayBeClosedWhileOperationsWait) {
  fill_file(pattern(1000));
  size_ = 1000;
  hold(stream_);
  expect(read(stream()), hipFileSuccess);
  hipFileHandleDeregister(handle_);  // in flight: left alone
  expect(hipFileDriverClose(), hipFileSuccess);
  release();
  synchronize();
  EXPECT_EQ(bytes_, 1000);
  expect(hipFileDriverOpen(), hipFileSuccess);
}

TEST_F(Async, ManyStreamsRunSideBySide) {
  fill_file(pattern(1 << 20));
  struct Lane {
    StreamHandle stream = nullptr;
    size_t size = 100'000;
    hoff_t file_offset = 0, buffer_offset = 0;
    ssize_t bytes[10];
  };
  std::vector<Lane> lanes(12);
  for (size_t i = 0; i < lanes.size(); i++) {
    ASSERT_EQ(hip_api().hipStreamCreateWithFlags(&lanes[i].stream, ::hip::kStreamNonBlocking),
              ::hip::kSuccess);
    lanes[i].buffer_offset = static_cast<hoff_t>(i * 200'000);
    lanes[i].file_offset = static_cast<hoff_t>(i * 1000);
  }
  for (int round = 0; round < 10; round++)
    for (auto& l : lanes)
      expect(hipFileReadAsync(handle_, device_, &l.size, &l.file_offset, &l.buffer_offset, &l.bytes[round],
                              reinterpret_cast<hipStream_t>(l.stream)),
             hipFileSuccess);
  for (auto& l : lanes) {
    ASSERT_EQ(hip_api().hipStreamSynchronize(l.stream), ::hip::kSuccess);
    for (ssize_t b : l.bytes) EXPECT_EQ(b, 100'000);
    EXPECT_EQ(memcmp(from_device(100'000, static_cast<size_t>(l.buffer_offset)).data(),
                     pattern(1 << 20).data() + l.file_offset, 100'000),
              0);
    hip_api().hipStreamDestroy(l.stream);
  }
}

// The second device is never the calling thread's current one.
class AsyncTwoDevices : public Async {
 protected:
  void SetUp() override {
    int count = 0;
    hip_api().hipGetDeviceCount(&count);
    if (count < 2) GTEST_SKIP() << "needs two devices";
    Async::SetUp();
    ASSERT_EQ(hip_api().hipSetDevice(1), ::hip::kSuccess);
    EXPECT_EQ(hip_api().hipStreamCreateWithFlags(&second_stream_, ::hip::kStreamNonBlocking),
              ::hip::kSuccess);
    EXPECT_EQ(hip_api().hipMalloc(&second_memory_, kSize), ::hip::kSuccess);
    ASSERT_EQ(hip_api().hipSetDevice(0), ::hip::kSuccess);
  }
  void TearDown() override {
    if (IsSkipped()) return;
    hip_api().hipStreamDestroy(second_stream_);
    hip_api().hipFree(second_memory_);
    Async::TearDown();
  }
  hipFileError_t read_into(void* memory, StreamHandle stream) {
    return hipFileReadAsync(handle_, memory, &size_, &file_offset_, &buffer_offset_, &bytes_,
                            reinterpret_cast<hipStream_t>(stream));
  }
  StreamHandle second_stream_ = nullptr;
  void* second_memory_ = nullptr;
};

TEST_F(AsyncTwoDevices, AStreamMovesDataOfItsOwnDevice) {
  for (size_t size : {size_t{4096}, size_t{3'000'000}}) {
    fill_file(pattern(size));
    size_ = size;
    expect(read_into(second_memory_, second_stream_), hipFileSuccess);
    ASSERT_EQ(hip_api().hipStreamSynchronize(second_stream_), ::hip::kSuccess);
    EXPECT_EQ(bytes_, static_cast<ssize_t>(size));
    std::vector<char> out(size);
    ASSERT_EQ(hip_api().hipMemcpy(out.data(), second_memory_, size, ::hip::kMemcpyDeviceToHost),
              ::hip::kSuccess);
    EXPECT_EQ(out, pattern(size));
    int current = -1;
    EXPECT_EQ(hip_api().hipGetDevice(&current), ::hip::kSuccess);
    EXPECT_EQ(current, 0);
  }
}

TEST_F(AsyncTwoDevices, AStreamRefusesMemoryOfAnother) {
  size_ = 4096;
  expect(read_into(device_, second_stream_), hipFileInvalidValue);
  expect(read_into(second_memory_, stream_), hipFileInvalidValue);
}

}  // namespace
