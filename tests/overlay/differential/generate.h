// Sequences from seeds: the same seed gives the same sequence everywhere.
#pragma once

#include "step.h"

namespace differential {

/// The last steps observe the whole tree, once as each worker.
Sequence generate(uint64_t seed, size_t steps);

/// A step like `step` but simpler, for each way to simplify it.
std::vector<Step> simpler(const Step& step);

}  // namespace differential
