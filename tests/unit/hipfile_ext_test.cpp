// hipfile_ext.h: which way a request would go, and what became of the last one.
#include "hipfile_ext.h"

#include "hipfile_fixture.h"

namespace {

class Ext : public HipFile {
 protected:
  static bool strict() { return getenv("HIP_SOFTWARE_STRICT") != nullptr; }
};

TEST_F(Ext, ExplainsTheRouteAndWhyNotABetterOne) {
  fill_file(pattern(4 << 20));
  hipFileExplanation_t e;
  expect(hipFileExplain(nullptr, device_, 1, 0, 0, &e), hipFileDriverNotInitialized);
  hipFileHandle_t handle = register_fd(fd_);
  expect(hipFileExplain(handle, device_, 4 << 20, 0, 0, nullptr), hipFileInvalidValue);
  expect(hipFileExplain(nullptr, device_, 1, 0, 0, &e), hipFileHandleNotRegistered);
  expect(hipFileExplain(handle, device_, kSize + 1, 0, 0, &e), hipFileInvalidValue);
  expect(hipFileExplain(handle, device_, 1, -1, 0, &e), hipFileInvalidValue);
  expect(hipFileExplain(handle, device_, 4 << 20, 0, 0, &e), hipFileSuccess);
  EXPECT_NE(e.route, hipFileRouteNone);
  EXPECT_EQ(e.refused[e.route], 0u);
  if (!strict()) {
    EXPECT_NE(e.route, hipFileRoutePeer);
    EXPECT_EQ(e.reason, e.refused[hipFileRoutePages]);  // the best there is for memory that is pages
    EXPECT_EQ(e.refused[hipFileRoutePeer], 3u);         // host pages
  }
  EXPECT_NE(std::string(e.text).find("taken"), std::string::npos) << e.text;
  EXPECT_NE(std::string(e.text).find("peer: "), std::string::npos) << e.text;
  if (e.offset_align) {
    EXPECT_GT(e.direct_bytes, 0u);
  }
  expect(hipFileExplain(handle, device_, 100, 3, 0, &e), hipFileSuccess);
  EXPECT_EQ(e.direct_bytes, 0u);
}

TEST_F(Ext, RemembersTheThreadsLastOutcome) {
  hipFileOutcome_t o;
  expect(hipFileLastOutcome(nullptr), hipFileInvalidValue);
  fill_file(pattern(1000));
  hipFileHandle_t handle = register_fd(fd_);
  EXPECT_EQ(hipFileRead(handle, device_, 1000, 0, 0), 1000);
  expect(hipFileLastOutcome(&o), hipFileSuccess);
  EXPECT_EQ(o.result, 1000);
  EXPECT_EQ(o.error, 0);
  EXPECT_NE(o.route, hipFileRouteNone);
  int read_only = open(path_.c_str(), O_RDONLY);
  EXPECT_EQ(hipFileWrite(register_fd(read_only), device_, 10, 0, 0), -1);
  expect(hipFileLastOutcome(&o), hipFileSuccess);
  EXPECT_EQ(o.result, -1);
  EXPECT_EQ(o.error, EBADF);
  close(read_only);
}

}  // namespace
