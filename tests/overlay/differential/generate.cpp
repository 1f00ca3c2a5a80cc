#include "generate.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/posix_acl_xattr.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <random>

#include "deviations.h"
#include "tree.h"

namespace differential {
namespace {

// So few names that steps meet. Some are links to others, some cannot be.
const std::vector<std::string> kFiles{"a", "b", "c", "d/a", "d/b", "e/a", "d/e/a"};
const std::vector<std::string> kDirectories{"d", "d", "d", "e", "e", "d/e", "d/e", "e/d", "."};
const std::vector<std::string> kLinks{"l", "m", "d/l"};
const std::vector<std::string> kOddities{"",
                                         "a/",
                                         "d/",
                                         "d/.",
                                         "d/..",
                                         "l/a",
                                         "m/a",
                                         "d/l/a",
                                         "nowhere/a",
                                         std::string(255, 'n'),
                                         std::string(256, 'n')};
const std::vector<std::string> kTargets{"a", "d", "d/a",     "../a", "../d",
                                        "l", "m", "nowhere", "",     std::string(70, 't')};

const std::vector<off_t> kOffsets{
    0,     0,     0,      1,  100,  511,  512,   4095,  4096,    4097,           8192,
    12288, 65536, 131072, -1, 3000, 5000, 10000, 40960, 1 << 20, off_t{1} << 33, off_t{1} << 62};
const std::vector<size_t> kLengths{0, 1, 7, 100, 512, 4096, 4096, 4097, 8192, 8192, 10000, 65536, 131072};
const std::vector<mode_t> kModes{0644, 0600, 0666,  0755,  0777,  0700,  0000,  0444,  0222,
                                 0640, 0750, 02755, 04755, 06777, 01777, 02775, 02770, 03777};
const std::vector<mode_t> kDirectoryModes{0777, 0777, 0755, 0770, 01777, 02775, 02777, 0700, 0711, 0000};
const std::vector<mode_t> kUmasks{0, 0, 022, 027, 077};
const std::vector<int64_t> kTimeValues{kTimeNow, kTimeOmitted, 0, 1, 123'456'789, 4'102'444'801};
const std::vector<uid_t> kUids{uid_t(-1), 0, 1000, 1001};
const std::vector<gid_t> kGids{gid_t(-1), 0, 1000, 1001, 2000};

constexpr const char* kAccessAcl = "system.posix_acl_access";
constexpr const char* kDefaultAcl = "system.posix_acl_default";
constexpr const char* kCapability = "security.capability";
const std::vector<std::string> kAttributes{"user.a",   "user.b",    "user.c",    "trusted.t", kCapability,
                                           kAccessAcl, kDefaultAcl, kDefaultAcl, "bogus.x",   "user."};

template <typename T>
std::string bytes_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

struct AclEntry {
  uint16_t tag, permissions;
  uint32_t id;
};

std::string acl(const std::vector<AclEntry>& entries) {
  std::string bytes = bytes_of(posix_acl_xattr_header{POSIX_ACL_XATTR_VERSION});
  for (const AclEntry& e : entries) bytes += bytes_of(posix_acl_xattr_entry{e.tag, e.permissions, e.id});
  return bytes;
}

constexpr uint16_t kUserObj = 1, kUser = 2, kGroupObj = 4, kGroup = 8, kMask = 16, kOther = 32;
constexpr uint32_t kNoId = ~0u;

const std::vector<std::string> kAcls{acl({{kUserObj, 6, kNoId}, {kGroupObj, 4, kNoId}, {kOther, 4, kNoId}}),
                                     acl({{kUserObj, 7, kNoId},
                                          {kUser, 7, 1001},
                                          {kGroupObj, 5, kNoId},
                                          {kMask, 7, kNoId},
                                          {kOther, 0, kNoId}}),
                                     acl({{kUserObj, 6, kNoId},
                                          {kGroupObj, 4, kNoId},
                                          {kGroup, 6, 2000},
                                          {kMask, 4, kNoId},
                                          {kOther, 0, kNoId}}),
                                     acl({{kUserObj, 6, kNoId}, {kOther, 0, kNoId}}),  // no group: not valid
                                     acl({}),
                                     ""};

std::string capabilities() {
  vfs_cap_data data{};
  data.magic_etc = VFS_CAP_REVISION_2 | VFS_CAP_FLAGS_EFFECTIVE;
  data.data[0].permitted = 1 << CAP_NET_RAW;
  return bytes_of(data);
}

class Generator {
 public:
  explicit Generator(uint64_t seed) : random_(seed), maps_(chance(50)) {
    for (const Operation* o : operations()) total_weight_ += o->weight;
  }

  /// What most sequences start with, so that later steps find something.
  Sequence first_steps() {
    Sequence all;
    for (const char* name : {"d", "e", "d/e"}) all.push_back(creation("mkdir", name));
    for (const char* name : {"a", "b", "d/a", "e/a"}) all.push_back(creation("open", name));
    std::erase_if(all, [&](const Step&) { return chance(25); });
    return all;
  }

  Step step() {
    const Operation* operation = pick_operation();
    const unsigned fields = operation->fields;
    Step s;
    s.operation = operation;
    s.worker = static_cast<int>(below(workers().size()));
    s.look = chance(40);
    if (fields & kPath) s.path = path(fields);
    if (fields & kPath && chance(10)) s.base = slot_with(s.worker, Holds::directory);
    if (fields & kPath2)
      s.path2 = fields & kLinkPath ? any_of(kTargets) : path(chance(50) ? fields : unsigned{kFilePath});
    s.slot = fields & kOpenFlags
                 ? slot()
                 : slot_with(s.worker, fields & kDirectorySlot ? Holds::directory : Holds::file);
    s.slot2 = slot_with(s.worker, Holds::file);
    draw_values(s);
    if (fields & kOpenFlags) {
      s.flags = open_flags(fields & kDirectoryPath);
      holds(s.worker, s.slot) = fields & kDirectoryPath ? Holds::directory : Holds::file;
    }
    return s;
  }

 private:
  // Not a distribution of the library: those differ between libraries.
  size_t below(size_t n) { return random_() % n; }
  bool chance(unsigned percent) { return below(100) < percent; }
  int slot() { return static_cast<int>(below(kSlots)); }
  template <typename T>
  const T& any_of(const std::vector<T>& all) {
    return all[below(all.size())];
  }

  // What a descriptor probably is. The generator does not know what will fail, so this is only a guess.
  enum class Holds { nothing, file, directory };
  Holds& holds(int worker, int slot) {
    return guess_[static_cast<size_t>(worker)][static_cast<size_t>(slot)];
  }
  int slot_with(int worker, Holds what) {
    std::vector<int> good;
    for (int i = 0; i < kSlots; i++)
      if (holds(worker, i) == what) good.push_back(i);
    return good.empty() || chance(10) ? slot() : any_of(good);
  }

  Step creation(const char* operation, const char* path) {
    Step s;
    s.operation = *std::find_if(operations().begin(), operations().end(),
                                [&](auto* o) { return o->name == std::string(operation); });
    s.worker = static_cast<int>(below(workers().size()));
    s.path = path;
    s.flags = O_RDWR | O_CREAT;
    s.mode = s.operation->fields & kDirectoryPath ? 0777 : 0666;
    s.slot = slot();
    if (s.operation->fields & kOpenFlags) holds(s.worker, s.slot) = Holds::file;
    return s;
  }

  void draw_values(Step& s) {
    const unsigned fields = s.operation->fields;
    s.offset = any_of(kOffsets);
    s.offset2 = any_of(kOffsets);
    s.length = any_of(kLengths);
    s.mode = any_of(fields & kDirectoryPath ? kDirectoryModes : fields & kPath ? kModes : kUmasks);
    if (fields & kSlot) s.mode = any_of(kModes);
    if (maps_ && !(fields & kDirectoryPath)) s.mode &= ~mode_t{S_ISUID | S_ISGID};
    s.uid = any_of(kUids);
    s.gid = any_of(kGids);
    s.atime = any_of(kTimeValues);
    s.mtime = any_of(kTimeValues);
    s.attribute = any_of(kAttributes);
    s.value = value(s.attribute);
    s.fill = static_cast<char>('a' + below(26));
    if (fields & kFlags) s.flags = s.operation->choices[below(s.operation->choices.size())].value;
    avoid_known(s);
  }

  const Operation* pick_operation() {
    const Operation* picked = nullptr;
    do picked = pick_any();
    while (!maps_ && picked->name == std::string("map"));
    return picked;
  }

  const Operation* pick_any() {
    auto left = static_cast<int>(below(static_cast<size_t>(total_weight_)));
    for (const Operation* o : operations())
      if ((left -= o->weight) < 0) return o;
    return operations().front();
  }

  const std::string& path(unsigned kind) {
    if (chance(70)) return any_of(kind & kDirectoryPath ? kDirectories : kind & kLinkPath ? kLinks : kFiles);
    const unsigned other = static_cast<unsigned>(below(100));
    return any_of(other < 35 ? kFiles : other < 60 ? kDirectories : other < 80 ? kLinks : kOddities);
  }

  int open_flags(bool directory) {
    int flags = chance(65) ? O_RDWR : chance(40) ? O_WRONLY : O_RDONLY;
    if (directory) flags = chance(80) ? O_RDONLY : flags;
    if (chance(directory ? 5 : 70)) flags |= O_CREAT;
    if (chance(10)) flags |= O_EXCL;
    if (chance(10)) flags |= O_TRUNC;
    if (chance(12)) flags |= O_APPEND;
    if (chance(10)) flags |= O_DIRECT;
    if (chance(8)) flags |= O_NOFOLLOW;
    if (chance(directory ? 50 : 3)) flags |= O_DIRECTORY;
    if (chance(7)) flags |= O_PATH;
    if (chance(directory ? 20 : 1)) flags = O_TMPFILE | (chance(80) ? O_RDWR : O_WRONLY) | (flags & O_EXCL);
    return flags;
  }

  std::string value(const std::string& attribute) {
    if ((attribute == kAccessAcl || attribute == kDefaultAcl) && chance(90)) return any_of(kAcls);
    if (attribute == kCapability && chance(80)) return capabilities();
    static const std::vector<std::string> kValues{"", "1", "value", std::string(300, 'v'),
                                                  std::string(3000, 'w')};
    return any_of(kValues);
  }

  std::mt19937_64 random_;
  const bool maps_;  ///< files, rather than giving them set-id bits, see deviations.cpp
  std::vector<std::array<Holds, kSlots>> guess_{workers().size()};
  int total_weight_ = 0;
};

const Operation* observation() {
  static const Operation* found =
      *std::find_if(operations().begin(), operations().end(), [](auto* o) { return o->run == observe; });
  return found;
}

}  // namespace

Sequence generate(uint64_t seed, size_t steps) {
  Generator generator(seed);
  Sequence sequence = generator.first_steps();
  while (sequence.size() < steps) sequence.push_back(generator.step());
  for (size_t worker = 0; worker < workers().size(); worker++) {
    Step last;
    last.operation = observation();
    last.worker = static_cast<int>(worker);
    sequence.push_back(last);
  }
  return sequence;
}

std::vector<Step> simpler(const Step& step) {
  std::vector<Step> all;
  auto add = [&](auto change) {
    Step s = step;
    change(s);
    if (to_string(s) != to_string(step) || s.worker != step.worker) all.push_back(std::move(s));
  };
  add([](Step& s) { s.look = false; });
  add([](Step& s) { s.base = -1; });
  add([](Step& s) { s.worker = 0; });
  add([](Step& s) { s.flags = s.operation->fields & kFlags ? s.operation->choices[0].value : s.flags; });
  add([](Step& s) { s.mode = 0777; });
  add([](Step& s) { s.offset = s.offset2 = 0; });
  add([](Step& s) { s.length = std::min<size_t>(s.length, 1); });
  if (step.operation->fields & kOpenFlags)
    for (const Choice& c : step.operation->choices) add([&](Step& s) { s.flags &= ~c.value; });
  return all;
}

}  // namespace differential
