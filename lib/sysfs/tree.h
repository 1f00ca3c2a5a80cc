// What the kernel says about devices in /sys and /proc, under a root that tests replace.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sysfs {

/// Reads files below a root; "" is the machine itself. Paths are absolute ("/sys/dev/block/8:0") and stay below the
/// root as long as its symbolic links are relative, as those of sysfs are. Immutable, so usable from any thread.
class Tree {
 public:
  explicit Tree(std::string root = "");

  const std::string& root() const { return root_; }
  /// A file's text without blanks at its end; nothing if it cannot be read.
  std::optional<std::string> read(const std::string& path) const;
  /// The same as a number, decimal or 0x...; nothing if it is none.
  std::optional<uint64_t> number(const std::string& path) const;
  /// The value of a line "NAME VALUE" of a file, as KFD writes its properties.
  std::optional<uint64_t> property(const std::string& path, const std::string& name) const;
  /// Names in a directory, sorted; none if it cannot be read.
  std::vector<std::string> list(const std::string& path) const;
  bool exists(const std::string& path) const;
  /// Where symbolic links lead, without the root.
  std::optional<std::string> real(const std::string& path) const;

 private:
  std::string root_;
};

/// The part of a path behind its last slash.
std::string base_name(const std::string& path);

}  // namespace sysfs
