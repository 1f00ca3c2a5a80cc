// Files with known bytes, as the disk has them.
#pragma once

#include <string>
#include <vector>

#include "posix/error.h"

namespace vm {

/// `size` bytes that differ from one call to the next.
std::vector<char> fresh_bytes(size_t size);
/// Makes the file anew; its bytes are on the disk then and not in the page cache.
posix::Result<void> write_file(const std::string& path, const std::vector<char>& bytes);
/// Read back from the disk; empty if that fails.
std::vector<char> file_bytes(const std::string& path);
/// Bytes of the file that the page cache has.
posix::Result<size_t> cached_bytes(const std::string& path);

}  // namespace vm
