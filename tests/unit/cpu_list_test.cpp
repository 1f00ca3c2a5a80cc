#include "cpu_list.h"

#include <gtest/gtest.h>

namespace {

using Set = std::set<unsigned>;

TEST(CpuList, ReadsRangesAndSingleOnes) {
  EXPECT_EQ(fs::parse_cpu_list("0"), (Set{0}));
  EXPECT_EQ(fs::parse_cpu_list("0-3,8,10-11"), (Set{0, 1, 2, 3, 8, 10, 11}));
}

TEST(CpuList, RefusesWhatIsNone) {
  for (const char* text : {"", "a", "3-1", "0-", "-1", "1 2", "0,,1", "0-99999999"})
    EXPECT_TRUE(fs::parse_cpu_list(text).empty()) << text;
}

TEST(CpuList, EverySystemHasOneOnline) {
  EXPECT_FALSE(fs::cpus("online").empty());
  for (unsigned cpu : fs::cpus("online")) EXPECT_TRUE(fs::cpus("possible").count(cpu)) << cpu;
}

}  // namespace
