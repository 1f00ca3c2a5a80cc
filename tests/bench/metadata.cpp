// What metadata operations cost in a directory, in nanoseconds per operation, as JSON. One operation per run, so
// that a caller can interleave directories: "create" makes the files that the others use, "unlink" removes them.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>

#include "posix/fd.h"

namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kBlock = 4096;

struct Options {
  std::string operation, directory;
  int files = 10000;
  int operations = 20000;
  bool cold = false;
};

[[noreturn]] void die(const std::string& what) {
  fprintf(stderr, "bench_metadata: %s: %s\n", what.c_str(), strerror(errno));
  exit(1);
}

void expect(bool good, const std::string& what) {
  if (!good) die(what);
}

/// The names that operations go over, made before the clock runs.
struct Names {
  Names(const std::string& directory, int count, const char* suffix = "") {
    for (int i = 0; i < count; i++) {
      char name[32];
      snprintf(name, sizeof name, "/file%06d", i);
      paths.push_back(directory + name + suffix);
    }
  }
  std::vector<std::string> paths;
};

/// One pass of an operation over the files; `number` counts passes. Returns how many operations it made.
using Pass = std::function<int(int number)>;

/// A pass that does `each` to every file.
template <typename Each>
Pass over_files(const Options& o, Each each) {
  return [names = Names(o.directory, o.files), each](int number) {
    for (const auto& path : names.paths) each(path, number);
    return static_cast<int>(names.paths.size());
  };
}

posix::Fd opened(const std::string& path, int flags) {
  posix::Fd fd(open(path.c_str(), flags | O_CLOEXEC, 0644));
  expect(static_cast<bool>(fd), path);
  return fd;
}

Pass create_pass(const Options& o) {
  return over_files(o, [](const std::string& path, int) { opened(path, O_WRONLY | O_CREAT | O_EXCL); });
}

Pass unlink_pass(const Options& o) {
  return over_files(o, [](const std::string& path, int) { expect(::unlink(path.c_str()) == 0, path); });
}

Pass stat_pass(const Options& o) {
  return over_files(o, [](const std::string& path, int) {
    struct stat st;
    expect(::stat(path.c_str(), &st) == 0, path);
  });
}

Pass enoent_pass(const Options& o) {
  return [names = Names(o.directory, o.files, ".absent")](int) {
    struct stat st;
    for (const auto& path : names.paths) expect(::stat(path.c_str(), &st) < 0 && errno == ENOENT, path);
    return static_cast<int>(names.paths.size());
  };
}

Pass open_close_pass(const Options& o) {
  return over_files(o, [](const std::string& path, int) { opened(path, O_RDONLY); });
}

Pass open_read_close_pass(const Options& o) {
  return over_files(o, [](const std::string& path, int) {
    char block[kBlock];
    expect(read(opened(path, O_RDONLY).get(), block, kBlock) == kBlock, path);
  });
}

Pass open_write_close_pass(const Options& o) {
  return over_files(o, [](const std::string& path, int) {
    static const char block[kBlock] = {1};
    expect(write(opened(path, O_WRONLY).get(), block, kBlock) == kBlock, path);
  });
}

Pass chmod_pass(const Options& o) {
  return over_files(o, [](const std::string& path, int number) {
    expect(::chmod(path.c_str(), number % 2 ? 0600 : 0644) == 0, path);
  });
}

// To new names and back again.
Pass rename_pass(const Options& o) {
  return [from = Names(o.directory, o.files), to = Names(o.directory, o.files, ".renamed")](int) {
    for (size_t i = 0; i < from.paths.size(); i++)
      expect(::rename(from.paths[i].c_str(), to.paths[i].c_str()) == 0, from.paths[i]);
    for (size_t i = 0; i < from.paths.size(); i++)
      expect(::rename(to.paths[i].c_str(), from.paths[i].c_str()) == 0, to.paths[i]);
    return static_cast<int>(2 * from.paths.size());
  };
}

// What "ls -l" does: every entry of the directory, and its attributes.
Pass ls_l_pass(const Options& o) {
  return [directory = o.directory](int) {
    DIR* stream = opendir(directory.c_str());
    expect(stream, directory);
    int entries = 0;
    while (const dirent* e = readdir(stream)) {
      struct stat st;
      expect(fstatat(dirfd(stream), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0, e->d_name);
      entries++;
    }
    closedir(stream);
    return entries;
  };
}

struct Operation {
  const char* name;
  Pass (*prepare)(const Options&);
  bool repeatable = true;
};

constexpr Operation kOperations[] = {
    {"create", create_pass, false},
    {"unlink", unlink_pass, false},
    {"stat", stat_pass},
    {"enoent", enoent_pass},
    {"open_close", open_close_pass},
    {"open_read_close", open_read_close_pass},
    {"open_write_close", open_write_close_pass},
    {"chmod", chmod_pass},
    {"rename", rename_pass},
    {"ls_l", ls_l_pass},
};

const Operation* find_operation(const std::string& name) {
  for (const auto& operation : kOperations)
    if (name == operation.name) return &operation;
  return nullptr;
}

std::string operation_names() {
  std::string names;
  for (const auto& operation : kOperations) names += std::string(names.empty() ? "" : ", ") + operation.name;
  return names;
}

}  // namespace

int main(int argc, char** argv) {
  Options o;
  CLI::App app("What one metadata operation costs in a directory.", "bench_metadata");
  app.add_option("OPERATION", o.operation, operation_names())->required();
  app.add_option("DIRECTORY", o.directory, "holds the files, and nothing else")->required();
  app.add_option("--files", o.files, "how many files it goes over")->capture_default_str();
  app.add_option("--operations", o.operations, "passes over the files are repeated up to this number")
      ->capture_default_str();
  app.add_flag("--cold", o.cold, "one pass, and none before it to warm up");
  CLI11_PARSE(app, argc, argv);
  const Operation* operation = find_operation(o.operation);
  if (!operation) {
    fprintf(stderr, "bench_metadata: no operation %s (known: %s)\n", o.operation.c_str(),
            operation_names().c_str());
    return 2;
  }

  const Pass pass = operation->prepare(o);
  const bool repeat = operation->repeatable && !o.cold;
  int number = 0, made = 0;
  if (repeat) pass(number++);
  const auto start = Clock::now();
  do {
    made += pass(number++);
  } while (repeat && made < o.operations);
  const std::chrono::duration<double, std::nano> elapsed = Clock::now() - start;
  printf("{\"operation\": \"%s\", \"operations\": %d, \"ns_per_operation\": %.1f}\n", operation->name, made,
         elapsed.count() / made);
  return 0;
}
