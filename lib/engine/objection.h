// What speaks against a route.
#pragma once

#include <string>

#include "engine/route.h"

namespace engine {

struct Objection {
  Reason reason = Reason::none;
  /// False: the kernel decides when it is tried, and may well refuse.
  bool certain = true;
  std::string subject;  ///< what it is about: "dm-0 (dm-crypt LUKS2 home)"; "" if there is no more to say

  /// The reason with its subject.
  std::string text() const {
    return subject.empty() ? engine::text(reason) : engine::text(reason) + (": " + subject);
  }
};

}  // namespace engine
