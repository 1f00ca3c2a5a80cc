// hipfile-tag FILE -- COMMAND...: runs an unmodified command whose standard input is a tagged descriptor, so
// that what the command reads arrives in device memory.
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "mount_client.h"

namespace {

struct Options {
  std::string file;
  std::vector<std::string> command;
  std::string runtime = "auto";
  int device = 0;
  int fd = -1;
  uint64_t offset = 0;
  uint64_t length = 0;
  bool tee = false;
  bool write = false;
  bool checksum = false;
};

posix::Result<tools::TargetMemory> make_memory(const Options& options, uint64_t length) {
  if (options.fd >= 0) return tools::TargetMemory::from_descriptor(options.fd, length);
  auto runtime = gpu::Runtime::load(options.runtime);
  if (!runtime) return tl::unexpected(runtime.error());
  return tools::TargetMemory::on_device(*runtime, options.device, length);
}

// The command's exit status, with 128 + the signal that ended it, as shells count.
posix::Result<int> run_command(const Options& options, int fd) {
  pid_t child = fork();
  if (child < 0) return posix::last_failure("fork");
  if (child == 0) {
    if (lseek(fd, static_cast<off_t>(options.offset), SEEK_SET) < 0 || dup2(fd, options.write ? 1 : 0) < 0)
      _exit(126);
    std::vector<char*> arguments;
    for (const auto& a : options.command) arguments.push_back(const_cast<char*>(a.c_str()));
    arguments.push_back(nullptr);
    execvp(arguments[0], arguments.data());
    fprintf(stderr, "hipfile-tag: %s: %s\n", arguments[0], strerror(errno));
    _exit(127);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return posix::last_failure("wait");
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

posix::Result<int> run(const Options& options) {
  // Registered before the file is opened: that is what makes the descriptor one that can be tagged.
  std::string parent = std::filesystem::path(options.file).parent_path();
  posix::Fd directory(open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory) return posix::last_failure("open directory of " + options.file);
  if (auto info = tools::mount_info(directory.get()); !info) return tl::unexpected(info.error());
  struct stat st;
  if (stat(options.file.c_str(), &st) < 0) return posix::last_failure(options.file);
  uint64_t length = options.length;
  if (!length && static_cast<uint64_t>(st.st_size) > options.offset)
    length = static_cast<uint64_t>(st.st_size) - options.offset;
  if (!length) return posix::failure(EINVAL, "nothing to tag: give --length");
  auto memory = make_memory(options, length);
  if (!memory) return tl::unexpected(memory.error());
  auto buffer = tools::register_memory(directory.get(), *memory, HIPFILE_FUSE_REGISTER_PROCESS);
  if (!buffer) return tl::unexpected(buffer.error());
  posix::Fd file(open(options.file.c_str(), (options.write ? O_WRONLY : O_RDONLY) | O_CLOEXEC));
  if (!file) return posix::last_failure("open " + options.file);
  hipfile_fuse_tag tag{};
  tag.version = HIPFILE_FUSE_ABI_VERSION;
  tag.flags = (options.tee ? HIPFILE_FUSE_TAG_TEE : 0) | (options.write ? HIPFILE_FUSE_TAG_WRITE : 0);
  tag.buffer_id = *buffer;
  tag.file_offset = options.offset;
  tag.length = length;
  if (ioctl(file.get(), HIPFILE_FUSE_IOC_TAG, &tag) < 0) return posix::last_failure("tag " + options.file);
  auto status = run_command(options, file.get());
  if (!status) return status;
  hipfile_fuse_untag ended{};
  ended.version = HIPFILE_FUSE_ABI_VERSION;
  if (ioctl(file.get(), HIPFILE_FUSE_IOC_UNTAG, &ended) < 0)
    return posix::last_failure("untag " + options.file);
  uint64_t bytes = options.write ? ended.bytes_written : ended.bytes_read;
  fprintf(stderr, "hipfile-tag: %llu bytes %s %s, %llu requests, %llu failed, route %s (%s)\n",
          static_cast<unsigned long long>(bytes), options.write ? "from" : "into", memory->describe().c_str(),
          static_cast<unsigned long long>(ended.requests), static_cast<unsigned long long>(ended.failures),
          tools::route_name(ended.route), tools::reason_text(ended.reason).c_str());
  if (options.checksum) {
    auto sum = memory->checksum(std::min(bytes, length));
    if (!sum) return tl::unexpected(sum.error());
    fprintf(stderr, "hipfile-tag: xxh128 %s\n", sum->c_str());
  }
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app(
      "hipfile-tag [OPTIONS] FILE -- COMMAND [ARGUMENT...]\n"
      "Runs COMMAND with FILE as its standard input, tagged: what it reads arrives in device memory.",
      "hipfile-tag");
  app.add_option("FILE", options.file, "file on a hipfile-fuse mount")->required();
  app.add_option("COMMAND", options.command, "command and its arguments")->required();
  app.add_option("--runtime", options.runtime, "HIP runtime: auto, amd, cuda, software or a path")
      ->capture_default_str();
  app.add_option("--device", options.device, "HIP device")->capture_default_str();
  app.add_option("--fd", options.fd, "use the memory behind this open descriptor instead of making some");
  app.add_option("--offset", options.offset, "first byte of the window")->capture_default_str();
  app.add_option("--length", options.length, "bytes of the window (default: to the end of the file)");
  app.add_flag("--tee", options.tee, "give the command the bytes too");
  app.add_flag("--write", options.write, "tag its standard output instead: it writes from device memory");
  app.add_flag("--checksum", options.checksum, "print the checksum of what arrived, as xxh128sum would");
  CLI11_PARSE(app, argc, argv);
  auto status = run(options);
  if (status) return *status;
  fprintf(stderr, "hipfile-tag: %s\n", status.error().text().c_str());
  return 125;
}
