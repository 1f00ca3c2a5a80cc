// Paths as text.
#pragma once

#include <string_view>

namespace posix {

/// Whether `path` is `directory` or lies under it, going by the text alone: full paths without "." and "..".
inline bool lies_under(std::string_view path, std::string_view directory) {
  while (directory.ends_with('/')) directory.remove_suffix(1);
  return path.starts_with(directory) && (path.size() == directory.size() || path[directory.size()] == '/');
}

}  // namespace posix
