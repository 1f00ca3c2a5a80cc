#include "hip_libraries.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <sstream>

namespace check {
namespace {

namespace stdfs = std::filesystem;

enum class Answer : int { no_ais = 10, ais, not_hip };

Answer examine_here(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library || dlsym(library, "hipSoftwareProperties") || dlsym(library, "hipCudaDriverVersion"))
    return Answer::not_hip;
  auto version_of = reinterpret_cast<int (*)(int*)>(dlsym(library, "hipRuntimeGetVersion"));
  auto find = reinterpret_cast<int (*)(const char*, void**, int, uint64_t, void*)>(
      dlsym(library, "hipGetProcAddress"));
  if (!version_of) return Answer::not_hip;
  int version = 0;
  version_of(&version);
  for (const char* name : {"hipAmdFileRead", "hipAmdFileWrite"}) {
    void* function = nullptr;
    if (!find || find(name, &function, version, 0, nullptr) != 0 || !function) return Answer::no_ais;
  }
  return Answer::ais;
}

Answer examine_elsewhere(const std::string& path) {
  const pid_t child = fork();
  if (child < 0) return Answer::not_hip;
  if (child == 0) {
    const int nowhere = open("/dev/null", O_WRONLY);
    dup2(nowhere, STDOUT_FILENO);
    dup2(nowhere, STDERR_FILENO);
    _exit(static_cast<int>(examine_here(path)));
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child || !WIFEXITED(status)) return Answer::not_hip;
  return static_cast<Answer>(WEXITSTATUS(status));
}

bool is_hip_library(const std::string& name) { return name.starts_with("libamdhip64.so"); }

void add_directory(const stdfs::path& directory, std::vector<std::string>& found) {
  std::error_code error;
  for (stdfs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error)) {
    if (!is_hip_library(at->path().filename().string())) continue;
    std::error_code ignored;
    std::string real = stdfs::canonical(at->path(), ignored).string();
    if (!ignored && std::find(found.begin(), found.end(), real) == found.end())
      found.push_back(std::move(real));
  }
}

// lib, lib64 and core-X/lib of a ROCm installation.
void add_installation(const stdfs::path& root, std::vector<std::string>& found) {
  for (const char* name : {"lib", "lib64"}) add_directory(root / name, found);
  std::error_code error;
  for (stdfs::directory_iterator at(root, error), end; !error && at != end; at.increment(error))
    if (at->path().filename().string().starts_with("core-"))
      for (const char* name : {"lib", "lib64"}) add_directory(at->path() / name, found);
}

}  // namespace

std::vector<std::string> find_hip_libraries() {
  std::vector<std::string> found;
  const char* searched = getenv("LD_LIBRARY_PATH");
  std::istringstream directories(searched ? searched : "");
  for (std::string directory; std::getline(directories, directory, ':');)
    if (!directory.empty()) add_directory(directory, found);
  for (const char* name : {"ROCM_HOME", "ROCM_PATH", "HIP_PATH"})
    if (const char* root = getenv(name); root && *root) add_installation(root, found);
  std::error_code error;
  for (stdfs::directory_iterator at("/opt", error), end; !error && at != end; at.increment(error))
    if (at->path().filename().string().starts_with("rocm")) add_installation(at->path(), found);
  for (const char* directory : {"/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib"})
    add_directory(directory, found);
  return found;
}

std::vector<HipLibrary> examine_hip_libraries(const std::vector<std::string>& paths) {
  std::vector<HipLibrary> libraries;
  for (const auto& path : paths) {
    const Answer answer = examine_elsewhere(path);
    if (answer == Answer::ais || answer == Answer::no_ais) libraries.push_back({path, answer == Answer::ais});
  }
  return libraries;
}

}  // namespace check
