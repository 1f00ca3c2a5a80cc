// hipFileBatchIO*.
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <set>
#include <thread>

#include "hipfile_fixture.h"

namespace {

class Batch : public HipFile {
 protected:
  void SetUp() override {
    HipFile::SetUp();
    expect(hipFileDriverOpen(), hipFileSuccess);
    handle_ = register_fd(fd_);
    expect(hipFileBatchIOSetUp(&batch_, 128), hipFileSuccess);
  }
  void TearDown() override {
    hipFileBatchIODestroy(batch_);
    HipFile::TearDown();
  }
  hipFileIOParams_t operation(size_t size, int64_t file_offset, int64_t device_offset, uintptr_t cookie,
                              hipFileOpcode_t opcode = hipFileBatchRead) const {
    hipFileIOParams_t p{};
    p.mode = hipFileBatch;
    p.u.batch = {device_, file_offset, device_offset, size};
    p.fh = handle_;
    p.opcode = opcode;
    p.cookie = reinterpret_cast<void*>(cookie);
    return p;
  }
  std::vector<hipFileIOEvents_t> fetch(unsigned least, unsigned most, timespec* timeout = nullptr) {
    std::vector<hipFileIOEvents_t> events(most);
    unsigned count = most;
    expect(hipFileBatchIOGetStatus(batch_, least, &count, events.data(), timeout), hipFileSuccess);
    events.resize(count);
    return events;
  }

  hipFileHandle_t handle_ = nullptr;
  hipFileBatchHandle_t batch_ = nullptr;
};

TEST_F(Batch, CompletesEveryOperationOnce) {
  fill_file(pattern(2 << 20));
  std::vector<hipFileIOParams_t> params;
  for (uintptr_t i = 0; i < 128; i++)
    params.push_back(operation(1 + i * 97, static_cast<int64_t>((i * 7919) % (1 << 20)),
                               static_cast<int64_t>(i * 20'000), i));
  expect(hipFileBatchIOSubmit(batch_, 128, params.data(), 0), hipFileSuccess);
  auto events = fetch(128, 128);
  ASSERT_EQ(events.size(), 128u);
  std::set<void*> cookies;
  for (auto& e : events) {
    EXPECT_EQ(e.status, hipFileComplete);
    EXPECT_EQ(e.ret, 1 + reinterpret_cast<uintptr_t>(e.cookie) * 97);
    cookies.insert(e.cookie);
  }
  EXPECT_EQ(cookies.size(), 128u);
  for (auto& p : params)
    EXPECT_EQ(memcmp(from_device(p.u.batch.size, static_cast<size_t>(p.u.batch.devPtr_offset)).data(),
                     pattern(2 << 20).data() + p.u.batch.file_offset, p.u.batch.size),
              0);
  EXPECT_TRUE(fetch(0, 10).empty());
}

using BatchWithoutPeers = WithoutPeers<Batch>;

TEST_F(BatchWithoutPeers, SmallReadsFromThePageCacheAreDoneWhenTheyAreSubmitted) {
  fill_file(pattern(2 << 20));
  std::vector<hipFileIOParams_t> params;
  for (uintptr_t i = 0; i < 64; i++)
    params.push_back(operation(4096, static_cast<int64_t>(i * 8192), static_cast<int64_t>(i * 20'000), i));
  expect(hipFileBatchIOSubmit(batch_, 64, params.data(), 0), hipFileSuccess);
  EXPECT_EQ(fetch(0, 64).size(), 64u);
}

// Some wait for one event, some for more than there will be; each event wakes whom it suffices for.
TEST_F(Batch, SeveralThreadsFetchUntilNothingIsOutstanding) {
  fill_file(pattern(2 << 20));
  for (int round = 0; round < 20; round++) {
    std::vector<hipFileIOParams_t> params;
    for (uintptr_t i = 0; i < 64; i++)
      params.push_back(operation(4096, static_cast<int64_t>(i * 8192), static_cast<int64_t>(i * 20'000), i));
    expect(hipFileBatchIOSubmit(batch_, 64, params.data(), 0), hipFileSuccess);
    std::atomic<size_t> fetched{0};
    std::vector<std::thread> threads;
    for (unsigned least : {1u, 5u, 64u})
      threads.emplace_back([&, least] {
        for (size_t n; (n = fetch(least, 64).size()) > 0;) fetched += n;
      });
    for (auto& thread : threads) thread.join();
    ASSERT_EQ(fetched, 64u);
  }
}

// Merged, an error in the second would otherwise look like the end of the file.
TEST_F(Batch, AnErrorBehindANeighboursBytesIsTheLaterOperationsOwn) {
  rlimit before, limited;
  getrlimit(RLIMIT_FSIZE, &before);
  limited = before;
  limited.rlim_cur = 8192;
  auto old = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limited), 0);
  hipFileIOParams_t params[] = {operation(4096, 0, 0, 0, hipFileBatchWrite),
                                operation(6000, 4096, 4096, 1, hipFileBatchWrite),
                                operation(100, 10096, 10096, 2, hipFileBatchWrite)};
  expect(hipFileBatchIOSubmit(batch_, 3, params, 0), hipFileSuccess);
  auto events = fetch(3, 3);
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, old);
  ASSERT_EQ(events.size(), 3u);
  std::sort(events.begin(), events.end(), [](auto& a, auto& b) { return a.cookie < b.cookie; });
  EXPECT_EQ(events[0].status, hipFileComplete);
  EXPECT_EQ(events[0].ret, 4096u);
  EXPECT_EQ(events[1].status, hipFileComplete);
  EXPECT_EQ(events[1].ret, 4096u);
  EXPECT_EQ(events[2].status, hipFileFailed);
  EXPECT_EQ(static_cast<ssize_t>(events[2].ret), -EFBIG);
}

TEST_F(Batch, MergesNeighboursAndGivesEachItsShare) {
  fill_file(pattern(50'000));
  std::vector<hipFileIOParams_t> params;
  for (uintptr_t i = 0; i < 60; i++)
    params.push_back(operation(1000, static_cast<int64_t>(i * 1000), static_cast<int64_t>(i * 1000), i));
  expect(hipFileBatchIOSubmit(batch_, 60, params.data(), 0), hipFileSuccess);
  auto events = fetch(60, 60);
  ASSERT_EQ(events.size(), 60u);
  for (auto& e : events)
    EXPECT_EQ(e.ret, reinterpret_cast<uintptr_t>(e.cookie) < 50 ? 1000u : 0u);  // end of file
  EXPECT_EQ(from_device(50'000), pattern(50'000));
}

TEST_F(Batch, WritesToo) {
  fill_file(pattern(10'000));
  EXPECT_EQ(hipFileRead(handle_, device_, 10'000, 0, 0), 10'000);
  auto p = operation(4000, 100'000, 3, 1, hipFileBatchWrite);
  expect(hipFileBatchIOSubmit(batch_, 1, &p, 0), hipFileSuccess);
  EXPECT_EQ(fetch(1, 1).at(0).ret, 4000u);
  std::vector<char> back(4000);
  ASSERT_EQ(pread(fd_, back.data(), 4000, 100'000), 4000);
  EXPECT_EQ(memcmp(back.data(), pattern(10'000).data() + 3, 4000), 0);
}

TEST_F(Batch, OneBadOperationQueuesNothing) {
  fill_file(pattern(10'000));
  auto refused = [&](int error, auto change) {
    std::vector<hipFileIOParams_t> params{operation(10, 0, 0, 1), operation(10, 0, 0, 2)};
    change(params[1]);
    expect(hipFileBatchIOSubmit(batch_, 2, params.data(), 0), error);
    EXPECT_TRUE(fetch(0, 2).empty());
  };
  refused(hipFileHandleNotRegistered, [](auto& p) { p.fh = nullptr; });
  refused(hipFileInvalidValue, [](auto& p) { p.mode = static_cast<hipFileBatchMode_t>(9); });
  refused(hipFileInvalidValue, [](auto& p) { p.opcode = static_cast<hipFileOpcode_t>(9); });
  refused(hipFileInvalidValue, [](auto& p) { p.u.batch.file_offset = -1; });
  refused(hipFileInvalidValue, [](auto& p) { p.u.batch.devPtr_offset = -1; });
  refused(hipFileInvalidValue, [](auto& p) { p.u.batch.devPtr_offset = kSize; });
  refused(hipFileInvalidValue, [](auto& p) { p.u.batch.size = kSize + 1; });
  refused(hipFileInvalidValue, [](auto& p) { p.u.batch.devPtr_base = nullptr; });
}

TEST_F(Batch, HasACapacityThatFetchingGivesBack) {
  hipFileBatchHandle_t small = nullptr;
  expect(hipFileBatchIOSetUp(&small, 3), hipFileSuccess);
  std::vector<hipFileIOParams_t> params(4, operation(10, 0, 0, 1));
  expect(hipFileBatchIOSubmit(small, 4, params.data(), 0), hipFileBatchFull);
  expect(hipFileBatchIOSubmit(small, 3, params.data(), 0), hipFileSuccess);
  expect(hipFileBatchIOSubmit(small, 1, params.data(), 0), hipFileBatchFull);
  hipFileIOEvents_t events[3];
  unsigned count = 3;
  expect(hipFileBatchIOGetStatus(small, 3, &count, events, nullptr), hipFileSuccess);
  EXPECT_EQ(count, 3u);
  expect(hipFileBatchIOSubmit(small, 3, params.data(), 0), hipFileSuccess);
  hipFileBatchIODestroy(small);
  expect(hipFileBatchIOSubmit(small, 1, params.data(), 0), hipFileInvalidValue);
}

TEST_F(Batch, HoldsNothingOnceTheEventsAreThere) {
  fill_file(pattern(4096));
  for (int i = 0; i < 300; i++) {
    expect(hipFileBufRegister(device_, 4096, 0), hipFileSuccess);
    auto p = operation(4096, 0, 0, 1);
    expect(hipFileBatchIOSubmit(batch_, 1, &p, 0), hipFileSuccess);
    ASSERT_EQ(fetch(1, 1).size(), 1u);
    ASSERT_EQ(hipFileBufDeregister(device_).err, hipFileSuccess) << "round " << i;
  }
}

TEST_F(Batch, RefusesBadCalls) {
  hipFileBatchHandle_t none = nullptr;
  expect(hipFileBatchIOSetUp(nullptr, 1), hipFileInvalidValue);
  expect(hipFileBatchIOSetUp(&none, 0), hipFileInvalidValue);
  expect(hipFileBatchIOSetUp(&none, 129), hipFileInvalidValue);
  EXPECT_EQ(none, nullptr);
  auto p = operation(10, 0, 0, 1);
  expect(hipFileBatchIOSubmit(nullptr, 1, &p, 0), hipFileInvalidValue);
  expect(hipFileBatchIOSubmit(batch_, 0, &p, 0), hipFileInvalidValue);
  expect(hipFileBatchIOSubmit(batch_, 1, nullptr, 0), hipFileInvalidValue);
  hipFileIOEvents_t events[4];
  unsigned count = 4, zero = 0;
  timespec negative{-1, 0}, large{0, 1'000'000'000};
  expect(hipFileBatchIOGetStatus(nullptr, 0, &count, events, nullptr), hipFileInvalidValue);
  expect(hipFileBatchIOGetStatus(batch_, 0, nullptr, events, nullptr), hipFileInvalidValue);
  expect(hipFileBatchIOGetStatus(batch_, 0, &zero, events, nullptr), hipFileInvalidValue);
  expect(hipFileBatchIOGetStatus(batch_, 0, &count, nullptr, nullptr), hipFileInvalidValue);
  expect(hipFileBatchIOGetStatus(batch_, 5, &count, events, nullptr), hipFileInvalidValue);
  expect(hipFileBatchIOGetStatus(batch_, 0, &count, events, &negative), hipFileInvalidValue);
  expect(hipFileBatchIOGetStatus(batch_, 0, &count, events, &large), hipFileInvalidValue);
  expect(hipFileBatchIOCancel(nullptr), hipFileInvalidValue);
  expect(hipFileBatchIOCancel(batch_), hipFileSuccess);
  hipFileBatchIODestroy(nullptr);
  hipFileBatchIODestroy(reinterpret_cast<hipFileBatchHandle_t>(0x77));
}

TEST_F(Batch, CancelledOperationsEndOnceAsCanceledOrComplete) {
  ASSERT_EQ(ftruncate(fd_, 64 << 20), 0);
  for (int round = 0; round < 10; round++) {
    std::vector<hipFileIOParams_t> params;
    for (uintptr_t i = 0; i < 128; i++)
      params.push_back(operation(4 << 20, static_cast<int64_t>((i % 16) << 22), 0, i));
    expect(hipFileBatchIOSubmit(batch_, 128, params.data(), 0), hipFileSuccess);
    expect(hipFileBatchIOCancel(batch_), hipFileSuccess);
    std::set<void*> cookies;
    while (cookies.size() < 128) {
      auto events = fetch(1, 64);
      ASSERT_FALSE(events.empty());
      for (auto& e : events) {
        EXPECT_TRUE(cookies.insert(e.cookie).second);
        EXPECT_TRUE((e.status == hipFileCanceled && e.ret == 0) ||
                    (e.status == hipFileComplete && e.ret == 4 << 20))
            << e.status << " " << e.ret;
      }
    }
    EXPECT_TRUE(std::is_sorted(cookies.begin(), cookies.end()));
  }
}

TEST_F(Batch, WaitsAsLongAsItIsTold) {
  timespec now{0, 0}, little{0, 1'000'000};
  EXPECT_TRUE(fetch(1, 1, &now).empty());     // nothing is outstanding
  EXPECT_TRUE(fetch(1, 1, nullptr).empty());  // so this does not wait for ever
  ASSERT_EQ(ftruncate(fd_, 1 << 30), 0);
  auto p = operation(kSize, 0, 0, 1);
  expect(hipFileBatchIOSubmit(batch_, 1, &p, 0), hipFileSuccess);
  size_t got = fetch(1, 1, &little).size();
  if (!got) got = fetch(1, 1).size();
  EXPECT_EQ(got, 1u);
}

TEST_F(Batch, OperationsThatWaitTooLongTimeOut) {
  while (hipFileUseCount() > 0) expect(hipFileDriverClose(), hipFileSuccess);
  expect(hipFileSetParameterSizeT(hipFileParamPropertiesBatchIOTimeoutMs, 1), hipFileSuccess);
  expect(hipFileSetParameterSizeT(hipFileParamExecutionMaxIOThreads, 1), hipFileSuccess);
  expect(hipFileDriverOpen(), hipFileSuccess);
  handle_ = register_fd(fd_);
  expect(hipFileBatchIOSetUp(&batch_, 128), hipFileSuccess);
  ASSERT_EQ(ftruncate(fd_, 1 << 30), 0);
  std::vector<hipFileIOParams_t> params;
  for (uintptr_t i = 0; i < 128; i++)
    params.push_back(operation(kSize, static_cast<int64_t>(i % 100) << 23, 0, i));
  expect(hipFileBatchIOSubmit(batch_, 128, params.data(), 0), hipFileSuccess);
  unsigned timed_out = 0, completed = 0;
  while (timed_out + completed < 128)
    for (auto& e : fetch(1, 128)) {
      if (e.status == hipFileTimeout) {
        timed_out++;
        EXPECT_EQ(e.ret, 0u);
      } else {
        EXPECT_EQ(e.status, hipFileComplete);
        completed++;
      }
    }
  EXPECT_GT(timed_out, 0u);
}

TEST_F(Batch, FailuresCarryTheErrno) {
  signal(SIGXFSZ, SIG_IGN);
  rlimit limit, small;
  getrlimit(RLIMIT_FSIZE, &limit);
  small = limit;
  small.rlim_cur = 1 << 20;
  setrlimit(RLIMIT_FSIZE, &small);
  auto p = operation(4096, 2 << 20, 0, 1, hipFileBatchWrite);
  expect(hipFileBatchIOSubmit(batch_, 1, &p, 0), hipFileSuccess);
  auto events = fetch(1, 1);
  setrlimit(RLIMIT_FSIZE, &limit);
  EXPECT_EQ(events.at(0).status, hipFileFailed);
  EXPECT_EQ(events.at(0).ret, static_cast<size_t>(-EFBIG));
}

TEST_F(Batch, EndsWithTheDriver) {
  ASSERT_EQ(ftruncate(fd_, 64 << 20), 0);
  std::vector<hipFileIOParams_t> params(128, operation(kSize, 0, 0, 1));
  expect(hipFileBatchIOSubmit(batch_, 128, params.data(), 0), hipFileSuccess);
  while (hipFileUseCount() > 0) expect(hipFileDriverClose(), hipFileSuccess);
  hipFileIOEvents_t event;
  unsigned count = 1;
  expect(hipFileBatchIOGetStatus(batch_, 0, &count, &event, nullptr), hipFileInvalidValue);
  expect(hipFileBatchIOSubmit(batch_, 1, params.data(), 0), hipFileInvalidValue);
  expect(hipFileBatchIOSetUp(&batch_, 1), hipFileSuccess);  // needs no open driver
  expect(hipFileBatchIOSubmit(batch_, 1, params.data(), 0), hipFileDriverNotInitialized);
}

}  // namespace
