#include "sysfs/tree.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace sysfs {
namespace {

namespace stdfs = std::filesystem;

std::optional<uint64_t> to_number(const std::string& text) {
  if (text.empty()) return std::nullopt;
  char* end = nullptr;
  const uint64_t value = strtoull(text.c_str(), &end, 0);
  if (*end) return std::nullopt;
  return value;
}

}  // namespace

Tree::Tree(std::string root) {
  std::error_code error;
  if (root.empty()) return;
  stdfs::path canonical = stdfs::canonical(root, error);
  root_ = error ? std::move(root) : canonical.string();
}

std::optional<std::string> Tree::read(const std::string& path) const {
  std::ifstream in(root_ + path, std::ios::binary);
  std::ostringstream out;
  if (!in || !(out << in.rdbuf())) return std::nullopt;
  std::string text = out.str();
  text.erase(text.find_last_not_of(" \n\t") + 1);
  return text;
}

std::optional<uint64_t> Tree::number(const std::string& path) const {
  auto text = read(path);
  return text ? to_number(*text) : std::nullopt;
}

std::optional<uint64_t> Tree::property(const std::string& path, const std::string& name) const {
  std::istringstream lines(read(path).value_or(""));
  std::string key, value;
  while (lines >> key >> value)
    if (key == name) return to_number(value);
  return std::nullopt;
}

std::vector<std::string> Tree::list(const std::string& path) const {
  std::vector<std::string> names;
  std::error_code error;
  for (stdfs::directory_iterator at(root_ + path, error), end; !error && at != end; at.increment(error))
    names.push_back(at->path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

bool Tree::exists(const std::string& path) const {
  std::error_code error;
  return stdfs::exists(root_ + path, error);
}

std::optional<std::string> Tree::real(const std::string& path) const {
  std::error_code error;
  std::string full = stdfs::canonical(root_ + path, error).string();
  if (error || full.compare(0, root_.size(), root_) != 0) return std::nullopt;
  return full.substr(root_.size());
}

std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

}  // namespace sysfs
