// The process that takes one worker's steps, in both trees.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "player.h"
#include "posix/fd.h"
#include "step.h"

namespace differential {

class WorkerProcess {
 public:
  /// The directories are those of this sequence.
  WorkerProcess(const Sequence& sequence, const Worker& worker, const Setting& directories);
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  struct Outcomes {
    std::string plain, mount;
  };
  /// Nothing if the process is gone or does not answer.
  std::optional<Outcomes> take(size_t step);

 private:
  bool receive(std::string& text);

  pid_t process_ = -1;
  posix::Fd socket_;
};

}  // namespace differential
