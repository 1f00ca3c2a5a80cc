// Extended attributes, and with them ACLs and file capabilities by their raw values.
#include <sys/xattr.h>

#include <algorithm>
#include <array>

#include "tree.h"

namespace differential {
namespace {

constexpr Choice kSet[] = {{0, "0"}, {XATTR_CREATE, "XATTR_CREATE"}, {XATTR_REPLACE, "XATTR_REPLACE"}};
constexpr size_t kLargest = 65536;

template <typename Get>
std::string value_text(const Step& s, Get get) {
  static std::array<char, kLargest> buffer;
  ssize_t n = get(buffer.data(), std::min(s.length, kLargest));
  if (n < 0 || s.length == 0) return result_text(n);
  return result_text(n) + " " + describe_bytes({buffer.data(), static_cast<size_t>(n)});
}

std::string run_set(Tree&, const Step& s) {
  return result_text(setxattr(s.path.c_str(), s.attribute.c_str(), s.value.data(), s.value.size(), s.flags));
}
std::string run_lset(Tree&, const Step& s) {
  return result_text(lsetxattr(s.path.c_str(), s.attribute.c_str(), s.value.data(), s.value.size(), s.flags));
}
std::string run_fset(Tree& t, const Step& s) {
  return result_text(fsetxattr(t.fd(s.slot), s.attribute.c_str(), s.value.data(), s.value.size(), s.flags));
}

std::string run_get(Tree&, const Step& s) {
  return value_text(
      s, [&](char* at, size_t size) { return getxattr(s.path.c_str(), s.attribute.c_str(), at, size); });
}
std::string run_fget(Tree& t, const Step& s) {
  return value_text(
      s, [&](char* at, size_t size) { return fgetxattr(t.fd(s.slot), s.attribute.c_str(), at, size); });
}
std::string run_list(Tree&, const Step& s) {
  return value_text(s, [&](char* at, size_t size) { return listxattr(s.path.c_str(), at, size); });
}

std::string run_remove(Tree&, const Step& s) {
  return result_text(removexattr(s.path.c_str(), s.attribute.c_str()));
}
std::string run_fremove(Tree& t, const Step& s) {
  return result_text(fremovexattr(t.fd(s.slot), s.attribute.c_str()));
}

const Operation kOperations[] = {
    {"setxattr", 6, kFilePath | kAttribute | kValue | kFlags, kSet, run_set},
    {"setxattr", 4, kDirectoryPath | kAttribute | kValue | kFlags, kSet, run_set},
    {"lsetxattr", 1, kLinkPath | kAttribute | kValue | kFlags, kSet, run_lset},
    {"fsetxattr", 2, kSlot | kAttribute | kValue | kFlags, kSet, run_fset},
    {"getxattr", 4, kFilePath | kAttribute | kLength, {}, run_get},
    {"fgetxattr", 1, kSlot | kAttribute | kLength, {}, run_fget},
    {"listxattr", 2, kFilePath | kLength, {}, run_list},
    {"removexattr", 3, kFilePath | kAttribute, {}, run_remove},
    {"fremovexattr", 1, kSlot | kAttribute, {}, run_fremove},
};

}  // namespace

std::span<const Operation> xattr_operations() { return kOperations; }

}  // namespace differential
