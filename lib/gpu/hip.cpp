#include "gpu/hip.h"

#include <dlfcn.h>

#include <cstring>
#include <filesystem>
#include <vector>

namespace gpu {
namespace {

constexpr int kNewestSoname = 10, kOldestSoname = 5;

// Fills the table from a library; an empty string, or the name of the first required function that is
// missing.
std::string fill(HipTable& table, void* library) {
  std::string missing;
  auto find = [library](const char* name, auto& slot) {
    slot = reinterpret_cast<std::remove_reference_t<decltype(slot)>>(dlsym(library, name));
    return slot != nullptr;
  };
#define GPU_HIP_FIND(name, parameters) \
  if (!find(#name, table.name) && missing.empty()) missing = #name;
  GPU_HIP_REQUIRED(GPU_HIP_FIND)
#undef GPU_HIP_FIND
#define GPU_HIP_FIND(name, parameters) find(#name, table.name);
  GPU_HIP_OPTIONAL(GPU_HIP_FIND)
#undef GPU_HIP_FIND
  find("hipGetErrorName", table.hipGetErrorName);
  return missing;
}

// AIS entry points are in no symbol table; only hipGetProcAddress knows them.
void find_ais(HipTable& table, int version) {
  if (!table.hipGetProcAddress) return;
  void *read = nullptr, *write = nullptr;
  if (table.hipGetProcAddress("hipAmdFileRead", &read, version, 0, nullptr) != hip::kSuccess ||
      table.hipGetProcAddress("hipAmdFileWrite", &write, version, 0, nullptr) != hip::kSuccess) {
    if (table.hipGetLastError) table.hipGetLastError();
    return;
  }
  table.hipAmdFileRead = reinterpret_cast<decltype(table.hipAmdFileRead)>(read);
  table.hipAmdFileWrite = reinterpret_cast<decltype(table.hipAmdFileWrite)>(write);
}

std::string library_path(void* symbol) {
  Dl_info info;
  return dladdr(symbol, &info) && info.dli_fname ? info.dli_fname : "";
}

posix::Result<std::shared_ptr<const Runtime>> from_library(void* library, const std::string& name) {
  HipTable table;
  if (std::string missing = fill(table, library); !missing.empty())
    return posix::failure(ENOSYS, name + " has no " + missing);
  int version = 0;
  table.hipRuntimeGetVersion(&version);
  find_ais(table, version);
  auto software = reinterpret_cast<unsigned (*)()>(dlsym(library, "hipSoftwareProperties"));
  RuntimeKind kind = software ? RuntimeKind::software : RuntimeKind::amd;
  if (dlsym(library, "hipCudaDriverVersion")) kind = RuntimeKind::cuda;
  return std::make_shared<const Runtime>(table, kind, library_path(reinterpret_cast<void*>(table.hipInit)),
                                         version, software && (software() & 1));
}

posix::Result<std::shared_ptr<const Runtime>> open_library(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) return posix::failure(ENOENT, std::string("load HIP runtime: ") + dlerror());
  return from_library(library, path);
}

// A stand-in lies beside whatever this code is in: build/lib/NAME for build/lib and build/bin, and lib/hipfile/NAME
// once installed.
std::vector<std::string> stand_ins(const std::string& name) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  std::vector<std::string> found;
  for (const std::string& anchor :
       {library_path(reinterpret_cast<void*>(stand_ins)), std::string("/proc/self/exe")}) {
    fs::path here = fs::canonical(anchor, ignored).parent_path();
    if (here.empty()) continue;
    for (const char* relative :
         {"", "hipfile", "../lib", "../lib/hipfile", "../lib/x86_64-linux-gnu/hipfile"}) {
      fs::path candidate = here / relative / name / "libamdhip64.so.6";
      if (fs::exists(candidate, ignored)) found.push_back(candidate.string());
    }
  }
  return found;
}

posix::Result<std::shared_ptr<const Runtime>> load_stand_in(const std::string& name) {
  for (const auto& path : stand_ins(name))
    if (auto runtime = open_library(path)) return runtime;
  return posix::failure(ENODEV, "no HIP runtime '" + name + "' beside this program");
}

// Unlike AMD's runtime, the stand-in can be unloaded, as long as it has no device: the process is left as it was.
posix::Result<std::shared_ptr<const Runtime>> load_cuda_with_device() {
  for (const auto& path : stand_ins("cuda")) {
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) continue;
    auto runtime = from_library(library, path);
    if (runtime && (*runtime)->device_count() > 0) return runtime;
    dlclose(library);
  }
  return posix::failure(ENODEV, "no NVIDIA GPU");
}

// A runtime that the process has already: the program's own pointers belong to it.
posix::Result<std::shared_ptr<const Runtime>> load_present() {
  if (dlsym(RTLD_DEFAULT, "hipGetDeviceCount")) return from_library(RTLD_DEFAULT, "this process");
  for (int major = kNewestSoname; major >= kOldestSoname; major--) {
    std::string soname = "libamdhip64.so." + std::to_string(major);
    if (void* library = dlopen(soname.c_str(), RTLD_NOW | RTLD_NOLOAD)) return from_library(library, soname);
  }
  return posix::failure(ENODEV, "no HIP runtime in this process");
}

posix::Result<std::shared_ptr<const Runtime>> load_installed() {
  for (int major = kNewestSoname; major >= kOldestSoname; major--) {
    std::string soname = "libamdhip64.so." + std::to_string(major);
    for (const std::string& path : {soname, "/opt/rocm/lib/" + soname}) {
      auto runtime = open_library(path);
      if (runtime && (*runtime)->device_count() > 0) return runtime;
    }
  }
  return posix::failure(ENODEV, "no HIP runtime with a device");
}

}  // namespace

Runtime::Runtime(const HipTable& table, RuntimeKind kind, std::string path, int version,
                 bool device_memory_is_pages)
    : table_(table),
      kind_(kind),
      path_(std::move(path)),
      version_(version),
      device_memory_is_pages_(device_memory_is_pages) {}

posix::Result<std::shared_ptr<const Runtime>> Runtime::load(const std::string& name) {
  if (name == "software" || name == "cuda") return load_stand_in(name);
  if (name == "amd") {
    if (auto present = load_present()) return present;
    return load_installed();
  }
  if (name.find('/') != std::string::npos) return open_library(name);
  if (name != "auto") return posix::failure(EINVAL, "HIP runtime '" + name + "'");
  if (auto present = load_present()) return present;
  if (auto installed = load_installed()) return installed;
  if (auto cuda = load_cuda_with_device()) return cuda;
  return load_stand_in("software");
}

int Runtime::device_count() const {
  int count = 0;
  if (table_.hipGetDeviceCount(&count) != hip::kSuccess) {
    table_.hipGetLastError();
    return 0;
  }
  return count;
}

std::string Runtime::describe() const {
  char name[256] = "no device";
  if (device_count() > 0) table_.hipDeviceGetName(name, sizeof name, 0);
  std::string version = std::to_string(major()) + "." + std::to_string(version_ / 100000 % 100);
  return std::string(name) + ", HIP " + version + (kind_ == RuntimeKind::cuda ? " over CUDA" : "") +
         (path_.empty() ? "" : " from " + path_);
}

std::string Runtime::error_name(hip::Error error) const {
  const char* name = table_.hipGetErrorName ? table_.hipGetErrorName(error) : nullptr;
  return name ? name : "hipError " + std::to_string(error);
}

DeviceGuard::DeviceGuard(const Runtime& runtime, int device) : runtime_(runtime) {
  int current = -1;
  status_ = runtime.hip().hipGetDevice(&current);
  if (status_ != hip::kSuccess || current == device) return;
  status_ = runtime.hip().hipSetDevice(device);
  if (status_ == hip::kSuccess) former_ = current;
}

DeviceGuard::~DeviceGuard() {
  if (former_ >= 0) runtime_.hip().hipSetDevice(former_);
}

}  // namespace gpu
