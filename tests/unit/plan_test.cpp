#include "engine/plan.h"

#include <gtest/gtest.h>

namespace {

using engine::Direction;
using engine::plan;
using engine::Plan;
using engine::Reason;
using engine::Route;
using engine::RouteSet;
using engine::Situation;

constexpr uint64_t kMiB = 1 << 20;

// A GPU with AIS, a file on NVMe with 512-byte blocks, everything aligned.
Situation best() {
  Situation s;
  s.length = 16 * kMiB;
  s.address = 0x7f0000000000;
  s.offset_align = 512;
  s.memory_align = 4;
  s.runtime_has_ais = true;
  return s;
}

Reason refused(const Plan& p, Route r) { return p.refused[static_cast<size_t>(r)]; }

// Segments follow each other without gap or overlap and cover the request.
void expect_covers(const Plan& p, uint64_t length) {
  uint64_t at = 0;
  for (const auto& s : p.segments) {
    EXPECT_EQ(s.begin, at);
    EXPECT_GT(s.length, 0u);
    at += s.length;
  }
  EXPECT_EQ(at, length);
}

TEST(Plan, TakesPeerWhereEverythingAllowsIt) {
  Plan p = plan(best());
  ASSERT_EQ(p.segments.size(), 1u);
  EXPECT_EQ(p.route(), Route::peer);
  EXPECT_TRUE(p.segments[0].direct);
  EXPECT_EQ(p.reason, Reason::none);
}

struct PeerCase {
  const char* name;
  void (*change)(Situation&);
  Reason reason;
  Route route;
};

TEST(Plan, GivesTheReasonAgainstTheBestRouteForSuchMemory) {
  Situation s = best();
  s.memory_is_pages = true;
  EXPECT_EQ(plan(s).reason, Reason::none);
  s.pages_failed_before = true;
  EXPECT_EQ(plan(s).reason, Reason::failed_before);
  EXPECT_EQ(plan(s).route(), Route::cached);
  s = best();
  s.pages_failed_before = true;  // of no concern to other memory
  EXPECT_EQ(plan(s).reason, Reason::none);
  s.runtime_has_ais = false;
  EXPECT_EQ(plan(s).reason, Reason::no_runtime_ais);
}

class PeerRefused : public testing::TestWithParam<PeerCase> {};

TEST_P(PeerRefused, SaysWhyAndTakesTheNextRoute) {
  Situation s = best();
  GetParam().change(s);
  Plan p = plan(s);
  EXPECT_EQ(refused(p, Route::peer), GetParam().reason);
  EXPECT_EQ(p.route(), GetParam().route);
  expect_covers(p, s.length);
}

INSTANTIATE_TEST_SUITE_P(
    All, PeerRefused,
    testing::Values(PeerCase{"option", [](Situation& s) { s.allowed.remove(Route::peer); }, Reason::disabled,
                             Route::staged},
                    PeerCase{"no_ais", [](Situation& s) { s.runtime_has_ais = false; },
                             Reason::no_runtime_ais, Route::staged},
                    PeerCase{"pages", [](Situation& s) { s.memory_is_pages = true; }, Reason::host_pages,
                             Route::pages},
                    PeerCase{"p2pmem",
                             [](Situation& s) {
                               s.memory = gpu::MemoryKind::peer;
                               s.memory_is_pages = true;
                             },
                             Reason::imported_memory, Route::pages},
                    PeerCase{"btrfs", [](Situation& s) { s.file_objection = Reason::file_system; },
                             Reason::file_system, Route::staged},
                    PeerCase{"journal", [](Situation& s) { s.file_objection = Reason::journaled_data; },
                             Reason::journaled_data, Route::staged},
                    PeerCase{"more_than_no_o_direct",
                             [](Situation& s) {
                               s.offset_align = 0;
                               s.file_objection = Reason::inline_data;
                             },
                             Reason::inline_data, Route::staged},
                    PeerCase{"gpu", [](Situation& s) { s.device_objection = Reason::small_bar; },
                             Reason::small_bar, Route::staged},
                    PeerCase{"no_o_direct", [](Situation& s) { s.offset_align = 0; }, Reason::no_direct_io,
                             Route::staged},
                    PeerCase{"memory",
                             [](Situation& s) {
                               s.memory_align = 512;
                               s.address += 4;
                             },
                             Reason::memory_alignment, Route::staged},
                    PeerCase{"tiny", [](Situation& s) { s.length = 100; }, Reason::too_small, Route::staged},
                    PeerCase{"crossing",
                             [](Situation& s) {
                               s.file_offset = 100;
                               s.length = 600;
                             },
                             Reason::offset_alignment, Route::staged},
                    PeerCase{"failed_now", [](Situation& s) { s.failed_now.add(Route::peer); },
                             Reason::failed, Route::staged},
                    PeerCase{"failed_before", [](Situation& s) { s.peer_failed_before = true; },
                             Reason::failed_before, Route::staged},
                    PeerCase{"fifo", [](Situation& s) { s.file = storage::FileKind::other; },
                             Reason::not_regular, Route::staged}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(Plan, SplitsUnalignedRequestsIntoBufferedEdgesAndADirectMiddle) {
  for (uint64_t offset : {uint64_t{1}, uint64_t{511}, uint64_t{513}, 5 * kMiB + 7}) {
    Situation s = best();
    s.file_offset = offset;
    s.length = 8 * kMiB + 13;
    s.address += offset;  // congruent, so that the middle is aligned in memory too
    Plan p = plan(s);
    expect_covers(p, s.length);
    ASSERT_EQ(p.segments.size(), 3u) << offset;
    EXPECT_EQ(p.segments[0].route, Route::staged);
    EXPECT_FALSE(p.segments[0].direct);
    EXPECT_EQ(p.segments[1].route, Route::peer);
    EXPECT_EQ((s.file_offset + p.segments[1].begin) % 512, 0u);
    EXPECT_EQ(p.segments[1].length % 512, 0u);
    EXPECT_EQ(p.segments[2].route, Route::staged);
  }
}

TEST(Plan, DirectWritesKeepOffPagesOfTheEdges) {
  Situation s = best();
  s.direction = Direction::write;
  s.file_offset = 512;
  s.length = 4 * kMiB;
  Plan p = plan(s);
  expect_covers(p, s.length);
  for (const auto& segment : p.segments)
    if (segment.direct) {
      EXPECT_EQ((s.file_offset + segment.begin) % 4096, 0u);
      EXPECT_EQ((s.file_offset + segment.begin + segment.length) % 4096, 0u);
    }
}

TEST(Plan, PagesTakeDirectIoForTheMiddleAndThePageCacheForTheEdges) {
  Situation s = best();
  s.memory_is_pages = true;
  s.file_offset = 3;
  s.address += 3;
  Plan p = plan(s);
  ASSERT_EQ(p.segments.size(), 3u);
  EXPECT_EQ(p.segments[0].route, Route::cached);
  EXPECT_EQ(p.segments[1].route, Route::pages);
  EXPECT_EQ(p.segments[2].route, Route::cached);
}

TEST(Plan, PagesWithMemoryThatIsNotAlignedGoThroughThePageCache) {
  Situation s = best();
  s.memory_is_pages = true;
  s.memory_align = 512;
  s.address += 1;
  Plan p = plan(s);
  EXPECT_EQ(p.route(), Route::cached);
  EXPECT_EQ(refused(p, Route::pages), Reason::memory_alignment);
}

TEST(Plan, SmallRequestsIntoPagesGoThroughThePageCache) {
  Situation s = best();
  s.memory_is_pages = true;
  s.length = 4096;
  Plan p = plan(s);
  EXPECT_EQ(p.route(), Route::cached);
  EXPECT_EQ(refused(p, Route::pages), Reason::too_small);
}

TEST(Plan, EmptyRequestHasNoSegments) {
  Situation s = best();
  s.length = 0;
  EXPECT_TRUE(plan(s).segments.empty());
}

TEST(Plan, DeviceMemoryWithEverythingSwitchedOffHasNoRoute) {
  Situation s = best();
  s.allowed = RouteSet();
  Plan p = plan(s);
  EXPECT_TRUE(p.segments.empty());
  EXPECT_EQ(p.route(), Route::none);
}

TEST(Plan, PageMemoryAlwaysHasThePageCacheLeft) {
  Situation s = best();
  s.memory_is_pages = true;
  s.allowed = RouteSet();
  EXPECT_EQ(plan(s).route(), Route::cached);
}

TEST(Plan, MemoryThatFaultsIsStagedIfTheRuntimeKnowsItAndRefusedIfNot) {
  Situation s = best();
  s.memory_is_pages = true;
  s.runtime_has_ais = false;
  s.failed_now.add(Route::pages);
  s.failed_now.add(Route::cached);
  EXPECT_EQ(plan(s).route(), Route::staged);
  s.memory = gpu::MemoryKind::host;
  EXPECT_EQ(plan(s).route(), Route::none);
}

// Every situation in a grid: segments always cover the request, direct ones are aligned, and a refused route
// carries nothing of the bulk.
TEST(Plan, HoldsItsPromisesOverAGridOfSituations) {
  for (bool pages : {false, true})
    for (Direction direction : {Direction::read, Direction::write})
      for (uint32_t align : {0u, 512u, 4096u, 65536u})
        for (uint64_t offset : {0ull, 1ull, 511ull, 4096ull, 65537ull, (1ull << 32) + 3})
          for (uint64_t length : {1ull, 512ull, 4096ull, 300000ull, 1ull << 20, (5ull << 30) + 1})
            for (uint64_t address : {0x10000ull, 0x10001ull, 0x10200ull}) {
              Situation s = best();
              s.memory_is_pages = pages;
              s.direction = direction;
              s.offset_align = align;
              s.memory_align = align ? 512 : 0;
              s.file_offset = offset;
              s.length = length;
              s.address = address;
              Plan p = plan(s);
              expect_covers(p, length);
              EXPECT_EQ(refused(p, p.route()), Reason::none);
              for (const auto& segment : p.segments) {
                if (!segment.direct) continue;
                EXPECT_EQ((offset + segment.begin) % align, 0u);
                EXPECT_EQ(segment.length % align, 0u);
                if (segment.route != Route::staged) {
                  EXPECT_EQ((address + segment.begin) % 512, 0u);
                }
              }
            }
}

TEST(RouteSet, ParsesNames) {
  auto set = RouteSet::parse("pages,staged");
  ASSERT_TRUE(set);
  EXPECT_TRUE(set->has(Route::pages));
  EXPECT_FALSE(set->has(Route::peer));
  EXPECT_FALSE(RouteSet::parse("pages,fast"));
  EXPECT_FALSE(RouteSet::parse(""));
  EXPECT_TRUE(RouteSet::parse("all")->has(Route::peer));
}

}  // namespace
