// Expected failures are values: an errno with the object and the operation it happened to.
#pragma once

#include <cerrno>
#include <cstring>
#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace posix {

struct Error {
  int code = 0;         ///< errno
  std::string context;  ///< what was being done to what: "open /data/a.bin"

  std::string text() const { return context + ": " + std::strerror(code); }
};

template <typename T>
using Result = tl::expected<T, Error>;

inline tl::unexpected<Error> failure(int code, std::string context) {
  return tl::unexpected<Error>(Error{code, std::move(context)});
}
/// The calling thread's errno, with context.
inline tl::unexpected<Error> last_failure(std::string context) { return failure(errno, std::move(context)); }

}  // namespace posix
