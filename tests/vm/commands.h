// What vm_io can be asked for. Each prints what it does and returns the program's exit status.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "client.h"
#include "report.h"

namespace vm {

struct Options {
  std::string directory;
  std::string mount;     ///< where a hipfile-fuse mount shows the directory
  std::string allocate;  ///< p2pmem/allocate of a PCI device; empty: only memory of the runtime
  size_t bytes = 0;
  bool only_device_memory = false;
  bool no_page_cache = false;  ///< only requests that need none, and it must stay without the files' bytes
  /// By memory ("runtime", "p2pmem"): the routes of which requests for whole blocks must take one, as "pages|cached". Empty: any. "kernel": around the page cache if the
  /// kernel does it with a plain O_DIRECT request, otherwise through it.
  std::map<std::string, std::string> routes;
  size_t bad_offset = 0;        ///< of the first byte of the file that cannot be read
  std::string slow, quick;      ///< directories in `directory`, on disks of their own
  unsigned slow_requests = 1;   ///< at the same time
  std::string suspend, resume;  ///< commands that stop the disk of `slow`, and let it go on
};

/// Memory to be used by one client after the other.
using Use = std::function<void(Client& client, const Memory& memory, const std::string& kind)>;
/// Every kind of memory with the library and with the mount.
void with_each(const Options& options, Report& report, const Use& use);

/// Files come into memory and go out of it in every way there is, and are compared.
int transfer(const Options& options);
/// One read of a request's whole blocks, of some bytes before and some behind them.
int mixed(const Options& options);
/// Makes the file `in`, and prints where on the disk the byte at bad_offset lies, in sectors.
int prepare(const Options& options);
/// Reads the file `in`, of which some bytes cannot be read.
int read_failing(const Options& options);
/// Writes to a disk that takes nothing.
int write_failing(const Options& options);
/// Reads from a disk that has stopped do not hold up reads from another.
int stall(const Options& options);
/// Makes the directory an encrypted one (fscrypt), with a key known to this machine.
int encrypt(const Options& options);

}  // namespace vm
