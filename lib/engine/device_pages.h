// What keeps a file's direct I/O from memory that is pages of a PCI device (p2pmem). The block layer takes other layers
// there than AMD's driver does for AIS.
#pragma once

#include <vector>

#include "engine/objection.h"
#include "storage/file.h"

namespace engine {

/// Everything in the file and its volume that the kernel is known to refuse such pages by, the upper layers first; not
/// certain where kernels differ. Whether the PCI path between disk and memory is permitted is not looked at.
std::vector<Objection> objections_to_device_pages(const storage::FileFacts& file);

}  // namespace engine
