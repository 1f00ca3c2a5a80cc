// Plays sequences in two trees at once.
#pragma once

#include <optional>
#include <string>

#include "deviations.h"
#include "step.h"

namespace differential {

struct Setting {
  std::string plain, mount;  ///< directories in which a sequence may make its own
  Conditions conditions;
};

struct Difference {
  size_t step;
  std::string plain, mount;
  bool mount_is_gone = false;  ///< nothing could be played, and nothing will be
};

/// In fresh directories and with fresh workers; ends at the first difference.
std::optional<Difference> play(const Sequence& sequence, const Setting& setting);

/// The shortest and simplest sequence found that still differs. `difference` becomes that one's.
Sequence shrink(Sequence sequence, const Setting& setting, Difference& difference);

/// For people: the program and where it goes wrong.
std::string report(const Sequence& sequence, const Difference& difference);

}  // namespace differential
