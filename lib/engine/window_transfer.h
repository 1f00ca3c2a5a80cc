// Moves a segment by letting the device read the page cache itself.
#pragma once

#include "engine/file_windows.h"
#include "engine/transfer.h"

namespace engine {

/// `segment.route` is cached and the memory belongs to a device. All of the segment, or nothing: then route_failed is
/// set, and another route is to be taken.
SegmentResult run_windows(const TransferContext& context, const Segment& segment, FileWindows& windows);

}  // namespace engine
