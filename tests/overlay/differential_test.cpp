// Random sequences of system calls, played on the mount and in a plain directory of the same file system: whatever can
// be seen of the two must be the same.
//
//   HIPFILE_DIFF_STEPS=100000 HIPFILE_DIFF_SEED=7 HIPFILE_TEST_FS=xfs build/bin/differential_test
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "differential/generate.h"
#include "differential/player.h"
#include "mounted.h"

namespace {

constexpr size_t kStepsOfSequence = 150;
constexpr uint64_t kSteps = 8000;  // some five seconds with each set of options

uint64_t number_from(const char* variable, uint64_t otherwise) {
  const char* text = getenv(variable);
  return text ? strtoull(text, nullptr, 0) : otherwise;
}

class TwoTrees : public overlay::Mounted {
 protected:
  void SetUp() override {
    Mounted::SetUp();
    if (IsSkipped()) return;
    plain_ = overlay::Volume::instance().path() + "/plain";
    std::filesystem::remove_all(plain_);
    ASSERT_EQ(mkdir(plain_.c_str(), 0755), 0);
  }
  void TearDown() override {
    Mounted::TearDown();
    if (!plain_.empty()) std::filesystem::remove_all(plain_);
  }

  void play_sequences(uint64_t steps, const differential::Setting& setting) {
    uint64_t seed = number_from("HIPFILE_DIFF_SEED", 1);
    for (uint64_t done = 0; done < steps; seed++) {
      const auto sequence = differential::generate(seed, kStepsOfSequence);
      done += sequence.size();
      auto difference = differential::play(sequence, setting);
      if (!difference) continue;
      const auto shortest = differential::shrink(sequence, setting, *difference);
      FAIL() << "HIPFILE_DIFF_SEED=" << seed << "\n" << differential::report(shortest, *difference);
    }
  }

  bool on_xfs() const {
    struct statfs fs;
    return statfs(plain_.c_str(), &fs) == 0 && fs.f_type == XFS_SUPER_MAGIC;
  }

  std::string plain_;
};

// What differs here depends on time or on the place, and must not be compared.
TEST_F(TwoTrees, PlainDirectoriesAreAlike) {
  play_sequences(number_from("HIPFILE_DIFF_STEPS", kSteps), {plain_, source_, {true, on_xfs()}});
}

class Differential : public TwoTrees, public testing::WithParamInterface<const char*> {};

TEST_P(Differential, MountIsLikeAPlainDirectory) {
  mount(GetParam());
  if (IsSkipped()) return;
  const bool passthrough = std::string(GetParam()) != "passthrough=off";
  play_sequences(number_from("HIPFILE_DIFF_STEPS", kSteps), {plain_, mount_, {passthrough, on_xfs()}});
}

INSTANTIATE_TEST_SUITE_P(Mount, Differential,
                         testing::Values("passthrough=on", "passthrough=off", "cache=never", "fds=0",
                                         "uring=on"),
                         overlay::name_of_options);

}  // namespace
