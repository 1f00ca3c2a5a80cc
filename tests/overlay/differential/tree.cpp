#include "tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <climits>
#include <cstring>
#include <map>
#include <memory>

namespace differential {
namespace {

// Times that a step has set are all far from the present; what the kernel has set differs from tree to tree.
std::string time_text(const timespec& time) {
  constexpr time_t kOldest = 1'500'000'000, kNewest = 4'000'000'000;
  if (time.tv_sec > kOldest && time.tv_sec < kNewest) return "now";
  return std::to_string(time.tv_sec) + "." + std::to_string(time.tv_nsec);
}

std::string xattr_text(const char* path) {
  char names[4096], value[4096];
  ssize_t size = llistxattr(path, names, sizeof names);
  if (size <= 0) return size < 0 ? "  xattrs " + result_text(size) + "\n" : "";
  std::string text;
  for (const char* name = names; name < names + size; name += strlen(name) + 1) {
    ssize_t n = lgetxattr(path, name, value, sizeof value);
    text += std::string("  ") + name + " " + result_text(n);
    if (n > 0) text += " " + describe_bytes({value, static_cast<size_t>(n)});
    text += "\n";
  }
  return text;
}

std::string content_text(int fd) {
  constexpr size_t kEnough = 160 << 10;
  auto bytes = std::make_unique<char[]>(kEnough);
  ssize_t n = pread(fd, bytes.get(), kEnough, 0);
  if (n < 0) return "  content " + result_text(n) + "\n";
  return n ? "  content " + describe_bytes({bytes.get(), static_cast<size_t>(n)}) + "\n" : "";
}

std::string file_text(const char* path) {
  posix::Fd fd(open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  return fd ? content_text(fd.get()) : "  open " + result_text(-1) + "\n";
}

std::string link_text(const char* path) {
  char target[PATH_MAX];
  ssize_t n = readlink(path, target, sizeof target);
  return "  target " + (n < 0 ? result_text(n) : std::string(target, static_cast<size_t>(n))) + "\n";
}

std::vector<std::string> names_in(const std::string& path) {
  std::vector<std::string> names;
  std::unique_ptr<DIR, int (*)(DIR*)> stream(opendir(path.c_str()), closedir);
  while (dirent* e = stream ? readdir(stream.get()) : nullptr)
    if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) names.emplace_back(e->d_name);
  std::sort(names.begin(), names.end());
  return names;
}

std::string walk(const std::string& path) {
  std::string text = path + ": " + path_status(path.c_str(), false) + "\n" + xattr_text(path.c_str());
  struct stat st;
  if (lstat(path.c_str(), &st) < 0) return text;
  if (S_ISREG(st.st_mode)) text += file_text(path.c_str());
  if (S_ISLNK(st.st_mode)) text += link_text(path.c_str());
  if (!S_ISDIR(st.st_mode)) return text;
  posix::Fd fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  text += fd ? listing(fd.get()) : "  open " + result_text(-1) + "\n";
  for (const std::string& name : names_in(path)) text += walk(path + "/" + name);
  return text;
}

std::string slot_text(const Tree& tree, int slot) {
  const int fd = tree.fd(slot);
  if (fd < 0) return "";
  const int flags = fcntl(fd, F_GETFL);
  std::string text = "fd " + std::to_string(slot) + ": " + fd_status(fd) + " flags " + std::to_string(flags) +
                     " at " + result_text(lseek(fd, 0, SEEK_CUR)) + "\n";
  struct stat st;
  if (flags & (O_PATH | O_DIRECT) || (flags & O_ACCMODE) == O_WRONLY) return text;
  return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? text + content_text(fd) : text;
}

std::string look(const Tree& tree, const Step& s) {
  const unsigned fields = s.operation->fields;
  std::string text;
  if (fields & kPath) text += "\n" + s.path + ": " + path_status(s.path.c_str(), false);
  if (fields & kPath2) text += "\n" + s.path2 + ": " + path_status(s.path2.c_str(), false);
  if (fields & kSlot) text += "\nfd " + std::to_string(s.slot) + ": " + fd_status(tree.fd(s.slot));
  if (fields & kSlot2) text += "\nfd " + std::to_string(s.slot2) + ": " + fd_status(tree.fd(s.slot2));
  return text;
}

}  // namespace

std::string result_text(int64_t result) {
  if (result >= 0) return std::to_string(result);
  const char* name = strerrorname_np(errno);
  return "-1 " + (name ? std::string(name) : std::to_string(errno));
}

std::string status_text(const struct stat& st) {
  char text[256];
  snprintf(text, sizeof text, "inode <%ju> mode 0%o uid %u gid %u nlink %ju size %jd rdev %jx blksize %jd",
           static_cast<uintmax_t>(st.st_ino), st.st_mode, st.st_uid, st.st_gid,
           static_cast<uintmax_t>(st.st_nlink), static_cast<intmax_t>(st.st_size),
           static_cast<uintmax_t>(st.st_rdev), static_cast<intmax_t>(st.st_blksize));
  std::string all = text;
  // Not how many: ext4 counts the blocks of the extent tree, and that depends on when data is written out.
  if (S_ISREG(st.st_mode)) all += st.st_blocks ? " blocks some" : " blocks none";
  const std::string kind = S_ISLNK(st.st_mode) ? " link-" : S_ISFIFO(st.st_mode) ? " pipe-" : " ";
  return all + kind + "atime " + time_text(st.st_atim) + kind + "mtime " + time_text(st.st_mtim);
}

std::string path_status(const char* path, bool follow) {
  struct stat st;
  if ((follow ? stat(path, &st) : lstat(path, &st)) < 0) return result_text(-1);
  return status_text(st);
}

std::string fd_status(int fd) {
  struct stat st;
  return fstat(fd, &st) < 0 ? result_text(-1) : status_text(st);
}

std::string with_inode_names(const std::string& text) {
  std::map<std::string, size_t> numbers;
  std::string out;
  for (size_t at = 0; at < text.size();) {
    size_t end = at + 1;
    while (text[at] == '<' && end < text.size() && isdigit(static_cast<unsigned char>(text[end]))) end++;
    if (end > at + 1 && end < text.size() && text[end] == '>') {
      auto [known, added] = numbers.emplace(text.substr(at, end - at), numbers.size());
      out += "#" + std::to_string(known->second);
      at = end + 1;
    } else {
      out += text[at++];
    }
  }
  return out;
}

std::string observe(Tree& tree, const Step&) {
  std::string text = walk(".");
  for (int slot = 0; slot < kSlots; slot++) text += slot_text(tree, slot);
  return text;
}

std::string perform(Tree& tree, const Step& step) {
  if (fchdir(step.base < 0 ? tree.root.get() : tree.fd(step.base)) < 0)
    return "cannot start there: " + result_text(-1);
  std::string text = step.operation->run(tree, step);
  if (step.look) text += look(tree, step);
  return with_inode_names(text);
}

const std::vector<const Operation*>& operations() {
  static const std::vector<const Operation*> all = [] {
    std::vector<const Operation*> list;
    for (auto room : {name_operations(), attribute_operations(), xattr_operations(), file_operations(),
                      data_operations(), mapping_operations(), directory_operations()})
      for (const Operation& o : room) list.push_back(&o);
    return list;
  }();
  return all;
}

}  // namespace differential
