// Open directories.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <vector>

#include "filesystem.h"

namespace fs {
namespace {

bool is_dot(const char* name) { return !strcmp(name, ".") || !strcmp(name, ".."); }

int64_t now_ms() {
  using namespace std::chrono;
  return duration_cast<milliseconds>(steady_clock::now().time_since_epoch()).count();
}

// The kernel may keep the entries where changes are noticed, for as long as it may also believe the attributes that came
// with them: after that one listing with new attributes costs less than asking for each. What is read from the kernel's
// memory does not count as reading the directory, so that is not for when it would show.
void remember_listing(Filesystem& fs, const Place& place, fuse_file_info& fi) {
  Node& node = *place.node;
  if (!fs.watches() || node.device != fs.nodes().root()->device) return;
  const int64_t now = now_ms();
  const auto good_for = static_cast<int64_t>(fs.times_in(node).attributes * 1000);
  std::lock_guard lock(node.mutex);
  fi.cache_readdir = 1;
  struct stat st;
  fi.keep_cache = now - node.listed_ms < good_for && fstat(place.fd(), &st) == 0 && !fs.listing_counts(st);
  if (!fi.keep_cache) node.listed_ms = now;
}

void op_opendir(fuse_req_t request, fuse_ino_t id, fuse_file_info* fi) {
  Filesystem& fs = filesystem_of(request);
  auto place = place_of(request, id);
  if (!place) return;
  auto directory = std::make_shared<OpenDirectory>(place->node, place->path);
  remember_listing(fs, *place, *fi);
  // The kernel hardly comes back for entries that it has kept.
  if (!fi->keep_cache && !directory->stream()) return void(fuse_reply_err(request, errno));
  directory->opener = opener_of(fs, fuse_req_ctx(request)->pid);
  fi->fh = to_handle(std::move(directory));
  // If the caller is gone already, no release will come.
  if (fuse_reply_open(request, fi) == -ENOENT) drop_handle(fi);
}

void op_releasedir(fuse_req_t request, fuse_ino_t, fuse_file_info* fi) {
  Filesystem& fs = filesystem_of(request);
  fs.forget_buffers(fs.buffers().description_closed(directory_of(fi).id));
  drop_handle(fi);
  fuse_reply_err(request, 0);
}

void op_fsyncdir(fuse_req_t request, fuse_ino_t, int data_only, fuse_file_info* fi) {
  filesystem_of(request).may_block(request, [request, data_only, description = description_of(fi)] {
    const int fd = static_cast<OpenDirectory&>(*description).descriptor();
    reply_status(request, fd < 0 ? -1 : data_only ? fdatasync(fd) : fsync(fd));
  });
}

// Adds one entry to `out`; false if it does not fit.
bool add_entry(fuse_req_t request, const OpenDirectory& directory, const dirent& e, bool plus,
               std::vector<char>& out, size_t& used) {
  Filesystem& fs = filesystem_of(request);
  char* at = out.data() + used;
  size_t room = out.size() - used, needed;
  fuse_entry_param entry{};
  entry.attr.st_ino = e.d_ino;
  entry.attr.st_mode = static_cast<mode_t>(DTTOIF(e.d_type));
  bool counted = plus && !is_dot(e.d_name);
  if (counted) {
    int failed = look_up(fs, {directory.node, directory.path}, e.d_name, entry);
    if (failed == ENOENT) return true;  // removed since it was listed
    if (failed) {                       // listed all the same; asking for it will say what is wrong
      counted = false;
      entry = {};
      entry.attr.st_ino = e.d_ino;
      entry.attr.st_mode = static_cast<mode_t>(DTTOIF(e.d_type));
    }
  }
  if (plus)
    needed = fuse_add_direntry_plus(request, at, room, e.d_name, &entry, e.d_off);
  else
    needed = fuse_add_direntry(request, at, room, e.d_name, &entry.attr, e.d_off);
  if (needed > room) {
    if (counted) fs.forget(entry.ino, 1);
    return false;
  }
  used += needed;
  return true;
}

void read_directory(fuse_req_t request, size_t size, off_t offset, fuse_file_info* fi, bool plus) {
  // With the answer the client may close it, while we still hold its lock.
  const auto held = description_of(fi);
  auto& directory = static_cast<OpenDirectory&>(*held);
  std::vector<char> out(size);
  size_t used = 0;
  int error = 0;
  std::lock_guard lock(directory.mutex);
  DIR* const stream = directory.stream();
  if (!stream) return void(fuse_reply_err(request, errno));
  if (offset != directory.position) {
    seekdir(stream, offset);
    directory.position = offset;
    directory.pending = nullptr;
  }
  for (;;) {
    if (!directory.pending) {
      errno = 0;
      directory.pending = readdir(stream);
      if (!directory.pending) {
        error = errno;
        break;
      }
    }
    if (!add_entry(request, directory, *directory.pending, plus, out, used)) break;
    directory.position = directory.pending->d_off;
    directory.pending = nullptr;
  }
  if (error && used == 0)
    fuse_reply_err(request, error);
  else
    fuse_reply_buf(request, out.data(), used);
}

void op_readdir(fuse_req_t request, fuse_ino_t, size_t size, off_t offset, fuse_file_info* fi) {
  read_directory(request, size, offset, fi, false);
}
void op_readdirplus(fuse_req_t request, fuse_ino_t, size_t size, off_t offset, fuse_file_info* fi) {
  read_directory(request, size, offset, fi, true);
}

}  // namespace

void add_directory_operations(fuse_lowlevel_ops& ops) {
  ops.opendir = guard<op_opendir>;
  ops.releasedir = guard<op_releasedir>;
  ops.fsyncdir = guard<op_fsyncdir>;
  ops.readdir = guard<op_readdir>;
  ops.readdirplus = guard<op_readdirplus>;
}

}  // namespace fs
