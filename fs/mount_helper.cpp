#include "mount_helper.h"

#include <sstream>

#include "options.h"

namespace fs {
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
    if (option == "remount" || is_kernel_option(option)) kept += (kept.empty() ? "" : ",") + option;
  }
  if (call.remount) call.options = kept;
  if (!call.options.empty()) {
    call.arguments.push_back("-o");
    call.arguments.push_back(call.options);
  }
  return call;
}

}  // namespace fs
