// Delta debugging: a sequence has its state in the file system, so that a candidate can only be judged by playing it.
#include <algorithm>
#include <chrono>

#include "generate.h"
#include "player.h"

namespace differential {
namespace {

constexpr auto kPatience = std::chrono::seconds(60);

class Shrinker {
 public:
  Shrinker(Sequence sequence, const Setting& setting, Difference& difference)
      : sequence_(std::move(sequence)), setting_(setting), difference_(difference) {
    cut();
  }

  Sequence run() {
    // Each makes room for the other.
    for (bool better = true; better;) {
      better = drop_steps();
      better = simplify_steps() || better;
    }
    return std::move(sequence_);
  }

 private:
  bool late() const { return std::chrono::steady_clock::now() > end_; }

  // Nothing behind the difference matters.
  void cut() { sequence_.resize(difference_.step + 1); }

  bool accept(Sequence candidate) {
    if (late()) return false;
    auto difference = play(candidate, setting_);
    if (!difference || difference->mount_is_gone) return false;
    sequence_ = std::move(candidate);
    difference_ = *difference;
    cut();
    return true;
  }

  bool drop_steps() {
    bool dropped = false;
    for (size_t size = std::max<size_t>(sequence_.size() / 2, 1); size > 0; size /= 2)
      for (size_t start = 0; start < sequence_.size() && !late();) {
        Sequence candidate = sequence_;
        auto first = candidate.begin() + static_cast<std::ptrdiff_t>(start);
        candidate.erase(first, first + static_cast<std::ptrdiff_t>(std::min(size, sequence_.size() - start)));
        if (accept(std::move(candidate)))
          dropped = true;
        else
          start += size;
      }
    return dropped;
  }

  bool simplify_steps() {
    bool simplified = false;
    for (size_t i = 0; i < sequence_.size() && !late(); i++)
      for (const Step& step : simpler(sequence_[i])) {
        if (i >= sequence_.size()) break;
        Sequence candidate = sequence_;
        candidate[i] = step;
        simplified |= accept(std::move(candidate));
      }
    return simplified;
  }

  Sequence sequence_;
  const Setting& setting_;
  Difference& difference_;
  const std::chrono::steady_clock::time_point end_ = std::chrono::steady_clock::now() + kPatience;
};

}  // namespace

Sequence shrink(Sequence sequence, const Setting& setting, Difference& difference) {
  return Shrinker(std::move(sequence), setting, difference).run();
}

}  // namespace differential
