// What is said about io_uring's registered dma-bufs, by kernels that have them and kernels that do not.
#include "dmabuf_probe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <vector>

namespace {

using check::DmabufStep;

constexpr int kFile = 7;

class FakeKernel : public check::DmabufCalls {
 public:
  std::map<DmabufStep, int> errors;
  int busy = 0;  // reads that are to be issued again
  bool loses_bytes = false;
  std::vector<char> file = std::vector<char>(1 << 20, 'f');
  int registered = -1;

  int make_ring() override { return errors[DmabufStep::ring]; }
  int register_empty() override { return errors[DmabufStep::api]; }
  int make_memory(size_t bytes) override {
    memory_.resize(bytes);
    return errors[DmabufStep::memory];
  }
  char* memory() override { return memory_.data(); }
  int register_memory(int target) override {
    registered = target;
    return errors[DmabufStep::registration];
  }
  int read_plainly(int, char* to, size_t bytes) override {
    if (int error = errors[DmabufStep::file]) return -error;
    const size_t n = std::min(bytes, file.size());
    memcpy(to, file.data(), n);
    return static_cast<int>(n);
  }
  int read_registered(int target, size_t bytes) override {
    if (int error = errors[DmabufStep::read]) return -error;
    if (target != registered) return -EBADF;
    if (busy-- > 0) return -EAGAIN;
    memcpy(memory_.data(), file.data(), loses_bytes ? bytes - 1 : bytes);
    return static_cast<int>(bytes);
  }

 private:
  std::vector<char> memory_;
};

TEST(DmabufProbe, AKernelThatHasItIsNotTrustedWithoutASelfTest) {
  FakeKernel kernel;
  const auto answer = check::probe_dmabuf(kernel);
  EXPECT_FALSE(answer.failed);
  EXPECT_FALSE(answer.tested);
  EXPECT_EQ(answer.text(), "the kernel has it; untested, no route uses it");
}

TEST(DmabufProbe, AnOlderKernelRefusesTheForm) {
  FakeKernel kernel;
  kernel.errors[DmabufStep::api] = EINVAL;
  for (const auto& answer : {check::probe_dmabuf(kernel), check::test_dmabuf(kernel, kFile)}) {
    EXPECT_EQ(answer.failed, DmabufStep::api);
    EXPECT_EQ(answer.text(),
              "not available: this kernel does not have it (merged for Linux 7.4): Invalid argument");
  }
}

TEST(DmabufProbe, TheSelfTestComparesBytes) {
  FakeKernel kernel;
  kernel.busy = 3;
  const auto answer = check::test_dmabuf(kernel, kFile);
  EXPECT_FALSE(answer.failed);
  EXPECT_TRUE(answer.tested);
  EXPECT_EQ(kernel.registered, kFile);
}

TEST(DmabufProbe, AFileOfZerosProvesSomething) {
  FakeKernel kernel;
  kernel.file.assign(kernel.file.size(), 0);
  EXPECT_TRUE(check::test_dmabuf(kernel, kFile).tested);
  kernel.loses_bytes = true;
  EXPECT_EQ(check::test_dmabuf(kernel, kFile).failed, DmabufStep::compare);
}

TEST(DmabufProbe, EveryStepThatFailsIsNamed) {
  for (auto step :
       {DmabufStep::ring, DmabufStep::memory, DmabufStep::file, DmabufStep::registration, DmabufStep::read}) {
    FakeKernel kernel;
    kernel.errors[step] = ENOTTY;
    const auto answer = check::test_dmabuf(kernel, kFile);
    EXPECT_EQ(answer.failed, step);
    EXPECT_EQ(answer.error, ENOTTY);
    EXPECT_FALSE(answer.tested);
    EXPECT_EQ(answer.text().rfind("not available: ", 0), 0u) << answer.text();
  }
}

TEST(DmabufProbe, AFileThatIsTooShortCannotBeTested) {
  FakeKernel kernel;
  kernel.file.resize(100);
  EXPECT_EQ(check::test_dmabuf(kernel, kFile).failed, DmabufStep::file);
}

TEST(DmabufProbe, AReadThatNeverEndsInAnythingButTryAgainIsGivenUp) {
  FakeKernel kernel;
  kernel.errors[DmabufStep::read] = EAGAIN;
  EXPECT_EQ(check::test_dmabuf(kernel, kFile).failed, DmabufStep::read);
}

TEST(DmabufProbe, ThisKernelGivesAnAnswer) {
  const auto answer = check::probe_dmabuf(*check::make_dmabuf_calls());
  EXPECT_FALSE(answer.tested);
  if (answer.failed) {
    EXPECT_TRUE(answer.failed == DmabufStep::ring || answer.failed == DmabufStep::api) << answer.text();
  }
}

}  // namespace
