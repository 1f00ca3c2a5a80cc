// What was found out, as text with the layout of ROCm's ais-check, or as JSON.
#pragma once

#include <string>

#include "system.h"

namespace check {

/// `release`: "Linux NAME VERSION", the first line. `verbose`: with the libraries that were looked at.
std::string text_report(const SystemCheck& system, const std::string& release, bool verbose);
std::string text_report(const FileCheck& file);
std::string json_report(const SystemCheck& system, const std::string& release);
std::string json_report(const std::vector<FileCheck>& files);

}  // namespace check
