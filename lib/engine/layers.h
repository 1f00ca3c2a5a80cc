// The layers of a block stack, as what they may stand in the way of.
#pragma once

#include "engine/route.h"
#include "storage/block_device.h"

namespace engine {

struct LayerJudgement {
  Reason reason = Reason::none;
  bool certain = true;  ///< false: the kernel decides when it is tried
};

/// What a layer is called where it stands in the way of peer DMA; none for NVMe disks on PCIe and their partitions, and for
/// RDMA. Which layers pass such DMA on after all depends on the kind of DMA.
Reason reason_of(const storage::BlockDevice& device);

}  // namespace engine
