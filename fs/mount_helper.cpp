#include "mount_helper.h"

#include <algorithm>
#include <array>
#include <sstream>

namespace fs {
namespace {

// What a mount that is there can be told: the kernel refuses everything else, also what it has said itself.
bool is_of_the_kernel(const std::string& option) {
  constexpr std::array known{"remount", "ro",       "rw",          "nosuid",      "suid",
                             "nodev",   "dev",      "noexec",      "exec",        "noatime",
                             "atime",   "relatime", "strictatime", "nodiratime",  "diratime",
                             "sync",    "async",    "dirsync",     "nosymfollow", "symfollow"};
  return std::find(known.begin(), known.end(), option) != known.end();
}

}  // namespace

bool is_mount_helper(const std::string& program) {
  return program.substr(program.rfind('/') + 1).rfind("mount.", 0) == 0;
}

MountCall parse_mount_call(const std::vector<std::string>& arguments) {
  MountCall call;
  for (size_t i = 0; i < arguments.size(); i++) {
    const std::string& argument = arguments[i];
    const bool has_value = argument == "-o" || argument == "-N" || argument == "-t";
    if (has_value) {
      if (++i == arguments.size()) break;
      if (argument == "-o") call.options += (call.options.empty() ? "" : ",") + arguments[i];
    } else if (argument.size() > 1 && argument[0] == '-') {
      call.fake |= argument.find('f') != std::string::npos;
    } else {
      call.directory = argument;  // the last is where
      call.arguments.push_back(argument);
    }
  }
  std::istringstream options(call.options);
  std::string kept;
  for (std::string option; std::getline(options, option, ',');) {
    call.remount |= option == "remount";
    if (is_of_the_kernel(option)) kept += (kept.empty() ? "" : ",") + option;
  }
  if (call.remount) call.options = kept;
  if (!call.options.empty()) {
    call.arguments.push_back("-o");
    call.arguments.push_back(call.options);
  }
  return call;
}

}  // namespace fs
