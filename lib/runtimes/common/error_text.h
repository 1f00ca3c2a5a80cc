// Names and texts of hipError_t, as hipGetErrorName and hipGetErrorString give them.
#pragma once

namespace runtimes {

struct ErrorText {
  int number;
  const char* name;
  const char* text;
};

/// Null for a number that is not in the table.
const ErrorText* find_error(int number);
/// hipErrorUnknown for a number that is not in the table.
const ErrorText& describe_error(int number);

}  // namespace runtimes
