// Small reads stored into VRAM by the CPU: what no machine with such a GPU has run yet, over a fake of one.
#include "gpu/large_bar.h"

#include "engine_fixture.h"

namespace {

using namespace engine_test;

unsigned host_data_path = 0;
bool has_register = true, has_large_bar = true;
int copies = 0;

hip::Error attribute(int* out, int which, int) {
  if (which == hip::kAttributeIsLargeBar) {
    *out = has_large_bar;
    return hip::kSuccess;
  }
  if (which == hip::kAttributeHdpMemFlushCntl && has_register) {
    unsigned* address = &host_data_path;
    memcpy(out, &address, sizeof address);
    return hip::kSuccess;
  }
  *out = 0;
  return which == hip::kAttributeHdpMemFlushCntl ? hip::kErrorInvalidValue : hip::kSuccess;
}
hip::Error counting_copy(void* to, const void* from, size_t n, hip::MemcpyKind kind, hip::Stream stream) {
  copies++;
  static auto software = *gpu::Runtime::load("software");
  return software->hip().hipMemcpyAsync(to, from, n, kind, stream);
}

class LargeBar : public Engine {
 protected:
  void SetUp() override {
    Engine::SetUp();
    host_data_path = 0;
    copies = 0;
    has_register = has_large_bar = true;
    make_amd();
  }
  void make_amd(const char* routes = "staged,store") {
    gpu::HipTable table = runtime()->hip();
    table.hipDeviceGetAttribute = attribute;
    table.hipMemcpyAsync = counting_copy;
    engine::Config config;
    config.routes = *engine::RouteSet::parse(routes);
    engine_ = std::make_unique<engine::Engine>(
        std::make_shared<gpu::Runtime>(table, gpu::RuntimeKind::amd, "fake", runtime()->version(), false),
        config);
  }
  Outcome read(uint64_t length) {
    fill_file(bytes_);
    memory_ = device(128 * 1024);
    memory_.pages = false;
    auto file = open_file(O_RDONLY);
    return run(Direction::read, *file, memory_, 100, 5, length);
  }
  bool arrived(uint64_t length) const {
    return memcmp(contents(memory_).data() + 100, bytes_.data() + 5, length) == 0;
  }
  const std::vector<char> bytes_ = pattern(200 * 1024, 101);
  gpu::Memory memory_;
};

class LargeBarPages : public LargeBar {};   // where the CPU can address device memory
class LargeBarStrict : public LargeBar {};  // where it cannot

TEST_F(LargeBarPages, SmallReadsAreStoredAndTheDeviceIsToldSo) {
  Outcome o = read(4096);
  EXPECT_EQ(o.bytes, 4096u);
  EXPECT_EQ(o.route, Route::store);
  EXPECT_TRUE(arrived(4096));
  EXPECT_EQ(host_data_path, 1u);
  EXPECT_EQ(copies, 0);
}

TEST_F(LargeBarPages, WithoutTheRegisterALoadPushesTheStores) {
  has_register = false;
  make_amd();
  EXPECT_EQ(read(4096).route, Route::store);
  EXPECT_TRUE(arrived(4096));
  EXPECT_EQ(host_data_path, 0u);
}

TEST_F(LargeBarStrict, MemoryThatTheCpuCannotAddressIsCopiedTo) {
  Outcome o = read(4096);
  EXPECT_EQ(o.bytes, 4096u);
  EXPECT_NE(o.route, Route::store);
  EXPECT_TRUE(arrived(4096));
  EXPECT_GT(copies, 0);
}

TEST_F(LargeBar, LargerReadsAreCopied) {
  Outcome o = read(128 * 1024 - 200);
  EXPECT_NE(o.route, Route::store);
  EXPECT_TRUE(arrived(128 * 1024 - 200));
}

TEST_F(LargeBarPages, IsWhatIsExplainedForSmallReadsAlone) {
  read(4096);
  auto file = open_file(O_RDONLY);
  auto explained = [&](uint64_t length) {
    return engine_->explain(engine::Request{Direction::read, file.get(), memory_, 100, 5, length});
  };
  EXPECT_EQ(explained(4096).plan.route(), Route::store);
  EXPECT_NE(explained(4096).text().find("store: taken"), std::string::npos) << explained(4096).text();
  EXPECT_EQ(explained(100000).plan.route(), Route::staged);
  EXPECT_EQ(explained(100000).text().find("store"), std::string::npos) << explained(100000).text();
}

TEST_F(LargeBar, IsNotUsedWhereItIsSwitchedOffOrSmall) {
  make_amd("staged");
  EXPECT_NE(read(4096).route, Route::store);
  has_large_bar = false;
  make_amd();
  EXPECT_NE(read(4096).route, Route::store);
}

}  // namespace
