// One system call of a sequence, as pure data: drawn from a seed, dropped or simplified while shrinking, printed as a
// line of a program.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace differential {

struct Tree;
struct Step;

/// The arguments that an operation takes from its step.
enum Field : unsigned {
  kFilePath = 1 << 0,       // `path`, with files, directories or links more likely than the rest
  kDirectoryPath = 1 << 1,  //
  kLinkPath = 1 << 2,
  kPath2 = 1 << 3,
  kSlot = 1 << 4,
  kSlot2 = 1 << 5,
  kOpenFlags = 1 << 6,  // `flags`: any of the choices together
  kFlags = 1 << 7,      // `flags`: one of the choices
  kMode = 1 << 8,
  kOffset = 1 << 9,
  kOffset2 = 1 << 10,
  kLength = 1 << 11,
  kOwner = 1 << 12,
  kTimes = 1 << 13,
  kAttribute = 1 << 14,
  kValue = 1 << 15,
  kFill = 1 << 16,
  kDirectorySlot = 1 << 17,  // with kSlot
};
inline constexpr unsigned kPath = kFilePath | kDirectoryPath | kLinkPath;

struct Choice {
  int value;
  const char* name;
};

/// A kind of step. `run` carries it out in one tree and tells what came of it, in words that do not depend on the tree.
struct Operation {
  const char* name;
  int weight;
  unsigned fields;
  std::span<const Choice> choices;
  std::string (*run)(Tree&, const Step&);
};

/// In `atime` and `mtime`, beside seconds.
inline constexpr int64_t kTimeNow = -1, kTimeOmitted = -2;
inline constexpr int kSlots = 4;

struct Step {
  const Operation* operation = nullptr;
  int worker = 0;
  bool look = false;  ///< also compare the attributes of what the step names
  int base = -1;      ///< slot of the directory that paths start from, -1: the top of the tree
  std::string path, path2;
  int slot = 0, slot2 = 0;
  int flags = 0;
  mode_t mode = 0;
  off_t offset = 0, offset2 = 0;
  size_t length = 0;
  uid_t uid = 0;
  gid_t gid = 0;
  int64_t atime = kTimeOmitted, mtime = kTimeOmitted;
  std::string attribute, value;
  char fill = 'a';
};

using Sequence = std::vector<Step>;

/// Who takes the steps.
struct Worker {
  const char* name;
  uid_t uid;
  gid_t gid;
  std::vector<gid_t> groups;
};
const std::vector<Worker>& workers();

std::string to_string(const Step& step);
/// As a numbered program.
std::string to_string(const Sequence& sequence);

/// Bytes as runs, for people: "4096 x 'a', 10 x 0".
std::string describe_bytes(std::string_view bytes);

}  // namespace differential
