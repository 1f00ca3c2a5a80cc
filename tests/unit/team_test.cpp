#include "engine/team.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <set>

namespace {

using engine::Team;
using namespace std::chrono_literals;

// Waits for what other threads do; false if it takes absurdly long.
template <typename Condition>
bool eventually(Condition condition) {
  for (int i = 0; i < 10000; i++) {
    if (condition()) return true;
    std::this_thread::sleep_for(1ms);
  }
  return false;
}

TEST(Team, LetsAsManyThreadsJoinAsWereCalledFor) {
  Team team(4);
  std::atomic<int> present{0};
  std::atomic<bool> go{false};
  Team::Job job(team, [&](const Team::Job&) {
    present++;
    while (!go) std::this_thread::yield();
    return false;
  });
  job.call(3);
  EXPECT_TRUE(eventually([&] { return present == 3; }));
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(present, 3);
  go = true;
}

TEST(Team, HasFinishedWhenEverybodyHasLeft) {
  Team team(3);
  std::atomic<int> inside{0}, ended{0};
  {
    Team::Job job(team, [&](const Team::Job&) {
      inside++;
      std::this_thread::sleep_for(20ms);
      ended++;
      return false;
    });
    job.call(3);
    EXPECT_TRUE(eventually([&] { return inside > 0; }));
  }
  EXPECT_EQ(inside, ended);
}

TEST(Team, NobodyComesBackToAJobThatHasNothingLeft) {
  Team team(2);
  std::atomic<int> runs{0};
  Team::Job job(team, [&](const Team::Job&) {
    runs++;
    return false;
  });
  job.call(2);
  EXPECT_TRUE(eventually([&] { return runs > 0; }));
  std::this_thread::sleep_for(50ms);
  EXPECT_LE(runs, 2);
}

TEST(Team, SharesItsThreadsBetweenJobs) {
  Team team(4);
  std::atomic<int> of_first{0}, of_second{0};
  std::atomic<bool> over{false};
  Team::Job first(team, [&](const Team::Job& job) {
    of_first++;
    while (!over && !job.should_leave()) std::this_thread::yield();
    of_first--;
    return !over;
  });
  first.call(4);
  EXPECT_TRUE(eventually([&] { return of_first == 4; }));
  Team::Job second(team, [&](const Team::Job&) {
    of_second++;
    while (!over) std::this_thread::yield();
    of_second--;
    return false;
  });
  second.call(4);
  EXPECT_TRUE(eventually([&] { return of_second == 2 && of_first == 2; }));
  over = true;
}

TEST(Team, OfNobodyHelpsNobody) {
  Team team(0);
  bool ran = false;
  {
    Team::Job job(team, [&](const Team::Job&) {
      ran = true;
      return false;
    });
    job.call(8);
  }
  EXPECT_FALSE(ran);
}

}  // namespace
