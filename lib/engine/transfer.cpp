#include "engine/transfer.h"

#include <algorithm>
#include <climits>

#include "engine/pipeline.h"

namespace engine {
namespace {

SegmentResult no_device(hip::Error error) {
  SegmentResult r;
  r.error = ENODEV;
  r.hip_error = error;
  return r;
}

SegmentResult result_of(SegmentWork& work) {
  SegmentResult r = before_gap(work.chunks, work.segment.begin);
  r.hip_error = work.hip_error;
  r.direct_refused = work.direct_refused;
  r.by_route = work.by_route;
  if (r.done < work.segment.length && !r.error && !r.ended)
    r.error = work.setup_error ? work.setup_error : work.cancelled ? work.cancelled : ENOMEM;
  // Memory that turned out not to be pages; staging does not need it to be.
  r.route_failed = r.error == EFAULT && work.segment.route != Route::staged;
  return r;
}

// On a thread of the team: false if there is nothing left to join for.
bool help(SegmentWork& work, const Team::Job& job) try {
  const TransferContext& c = work.context;
  std::optional<gpu::DeviceGuard> guard;
  if (work.segment.route == Route::staged) {
    guard.emplace(*c.runtime, c.device);
    if (guard->status() != hip::kSuccess) return false;
  }
  auto lane = c.lanes.borrow();
  const bool more = Pipeline(work, *lane, Pipeline::Role::helper, [&] { return job.should_leave(); }).run();
  c.lanes.give_back(std::move(lane));
  return more;
} catch (const std::bad_alloc&) {  // the owner carries on
  return false;
}

SegmentResult move(const TransferContext& context, const Segment& segment) {
  SegmentWork work(context, segment);
  {
    Team::Job job(context.team, [&work](const Team::Job& j) { return help(work, j); });
    if (context.direction == Direction::read)
      work.help = [&job](uint64_t chunks) {
        job.call(static_cast<unsigned>(std::min<uint64_t>(chunks, UINT_MAX)));
      };
    Pipeline(work, context.lane, Pipeline::Role::owner).run();
  }
  return result_of(work);
}

}  // namespace

SegmentResult run_transfer(const TransferContext& context, const Segment& segment) {
  if (segment.route != Route::staged) return move(context, segment);
  gpu::DeviceGuard guard(*context.runtime, context.device);
  return guard.status() == hip::kSuccess ? move(context, segment) : no_device(guard.status());
}

}  // namespace engine
