// What streams wait on: how its memory is asked for, and used again.
#include "streams.h"

#include <gtest/gtest.h>

namespace {

using api::SignalPool;

// A runtime that tells how signal memory was asked for.
struct Asked {
  int calls = 0, device = -1, errors_taken = 0;
  size_t size = 0;
  unsigned flags = 0;
  hip::Error answer = hip::kSuccess;
  uint64_t words[4] = {~0ull, ~0ull, ~0ull, ~0ull};
} asked;
thread_local int current_device = 0;

hip::Error malloc_with_flags(void** p, size_t size, unsigned flags) {
  asked.size = size;
  asked.flags = flags;
  asked.device = current_device;
  if (asked.answer == hip::kSuccess) *p = &asked.words[asked.calls++];
  return asked.answer;
}
hip::Error set_device(int device) {
  current_device = device;
  return hip::kSuccess;
}
hip::Error get_device(int* device) {
  *device = current_device;
  return hip::kSuccess;
}
hip::Error last_error() {
  asked.errors_taken++;
  return hip::kSuccess;
}

class Signals : public testing::Test {
 protected:
  void SetUp() override {
    asked = {};
    gpu::HipTable table = (*gpu::Runtime::load("software"))->hip();
    table.hipExtMallocWithFlags = malloc_with_flags;
    table.hipSetDevice = set_device;
    table.hipGetDevice = get_device;
    table.hipGetLastError = last_error;
    runtime_ = std::make_shared<gpu::Runtime>(table, gpu::RuntimeKind::amd, "fake", 60000000, false);
  }
  std::optional<SignalPool::Signal> take(int device) {
    gpu::DeviceGuard guard(*runtime_, device);
    return pool_.take(*runtime_, device);
  }
  SignalPool pool_;
  std::shared_ptr<const gpu::Runtime> runtime_;
};

TEST_F(Signals, AreWordsOfSignalMemoryOfTheirDevice) {
  auto signal = take(1);
  ASSERT_TRUE(signal);
  EXPECT_EQ(asked.size, sizeof(uint64_t));
  EXPECT_EQ(asked.flags, hip::kMallocSignalMemory);
  EXPECT_EQ(asked.device, 1);
  EXPECT_EQ(current_device, 0);
  EXPECT_EQ(*signal->word, 0u);  // whatever was there
  EXPECT_EQ(signal->value, 1u);
}

TEST_F(Signals, ServeTheNextOperationOfTheirDeviceWithAGreaterValue) {
  auto first = take(0);
  auto beside = take(0);
  ASSERT_TRUE(first && beside);
  EXPECT_NE(first->word, beside->word);
  pool_.raise(0, *first);
  EXPECT_EQ(*first->word, 1u);
  auto of_another_device = take(1);
  ASSERT_TRUE(of_another_device);
  EXPECT_NE(of_another_device->word, first->word);
  auto next = take(0);
  ASSERT_TRUE(next);
  EXPECT_EQ(next->word, first->word);
  EXPECT_EQ(next->value, 2u);
  EXPECT_EQ(*next->word, 1u);  // until it is raised
  EXPECT_EQ(asked.calls, 3);
}

TEST_F(Signals, AreNoneWhereThereIsNoSuchMemory) {
  asked.answer = hip::kErrorOutOfMemory;
  EXPECT_FALSE(take(0));
  EXPECT_EQ(asked.errors_taken, 1);  // it is nothing to the client
  asked.answer = hip::kSuccess;
  EXPECT_TRUE(take(0));
}

}  // namespace
