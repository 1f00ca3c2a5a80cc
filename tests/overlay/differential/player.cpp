#include "player.h"

#include <sys/stat.h>
#include <sys/types.h>

#include <filesystem>
#include <memory>
#include <sstream>

#include "worker.h"

namespace differential {
namespace {

// The same new directory in both trees, made and removed through each. The steps' top is one level deeper, so that a
// link to "../a" stays inside.
class Playground {
 public:
  explicit Playground(const Setting& setting) {
    static unsigned count = 0;
    const std::string name = "/sequence-" + std::to_string(count++);
    for (const std::string* tree : {&setting.plain, &setting.mount}) {
      outer_.push_back(*tree + name);
      const std::string top = outer_.back() + "/top";
      ready_ &= mkdir(outer_.back().c_str(), 0755) == 0 && mkdir(top.c_str(), 0755) == 0 &&
                chmod(top.c_str(), 0777) == 0;
    }
    inner_ = {outer_[0] + "/top", outer_[1] + "/top", setting.conditions};
  }
  ~Playground() {
    std::error_code ignored;  // what is wrong with the mount has been reported before
    for (const std::string& path : outer_) std::filesystem::remove_all(path, ignored);
  }
  Playground(const Playground&) = delete;
  Playground& operator=(const Playground&) = delete;
  bool ready() const { return ready_; }
  const Setting& directories() const { return inner_; }

 private:
  std::vector<std::string> outer_;
  Setting inner_;
  bool ready_ = true;
};

std::string lines_only_in(const std::string& text, const std::string& other) {
  std::istringstream lines(text);
  std::string line, only;
  while (std::getline(lines, line))
    if (("\n" + other + "\n").find("\n" + line + "\n") == std::string::npos) only += "    " + line + "\n";
  return only.empty() ? "    (no line that the other lacks)\n" : only;
}

}  // namespace

std::optional<Difference> play(const Sequence& sequence, const Setting& setting) {
  Playground playground(setting);
  if (!playground.ready()) return Difference{0, "a new directory", "none: the mount is gone", true};
  std::vector<std::unique_ptr<WorkerProcess>> processes;
  for (const Worker& w : workers())
    processes.push_back(std::make_unique<WorkerProcess>(sequence, w, playground.directories()));
  for (size_t i = 0; i < sequence.size(); i++) {
    auto outcomes = processes[static_cast<size_t>(sequence[i].worker)]->take(i);
    if (!outcomes) return Difference{i, "an answer", "no answer: the worker is gone or hangs", false};
    const std::string plain = comparable(outcomes->plain, setting.conditions);
    const std::string mount = comparable(outcomes->mount, setting.conditions);
    if (plain != mount) return Difference{i, plain, mount, false};
  }
  return std::nullopt;
}

std::string report(const Sequence& sequence, const Difference& d) {
  return to_string(sequence) + "differs at step " + std::to_string(d.step) + ", in the plain directory\n" +
         lines_only_in(d.plain, d.mount) + "and in the mount\n" + lines_only_in(d.mount, d.plain);
}

}  // namespace differential
