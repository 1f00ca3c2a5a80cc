#include "node_table.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <thread>

namespace {

posix::Fd some_fd() { return posix::Fd(open("/", O_PATH)); }
fs::PathFd shared(posix::Fd fd) { return std::make_shared<const posix::Fd>(std::move(fd)); }
fs::PathFd some_path() { return shared(some_fd()); }
struct stat stat_of(ino_t inode) {
  struct stat st {};
  st.st_dev = 1;
  st.st_ino = inode;
  return st;
}

TEST(NodeTable, GivesOneNodeForAllNamesOfAnInode) {
  fs::NodeTable table(some_fd(), stat_of(2));
  auto a = table.look_up(some_path(), stat_of(10));
  auto b = table.look_up(some_path(), stat_of(10));
  EXPECT_EQ(a, b);
  EXPECT_EQ(table.find(a->id), a);
  EXPECT_EQ(table.size(), 2u);
  table.forget(a->id, 1);
  EXPECT_EQ(table.find(a->id), a);
  table.forget(a->id, 1);
  EXPECT_EQ(table.find(a->id), nullptr);
  EXPECT_EQ(table.size(), 1u);
}

TEST(NodeTable, NeverAnswersToAnIdOfAForgottenNode) {
  fs::NodeTable table(some_fd(), stat_of(2));
  auto old = table.look_up(some_path(), stat_of(10));
  table.forget(old->id, 1);
  auto fresh = table.look_up(some_path(), stat_of(11));
  EXPECT_NE(fresh->id, old->id);
  EXPECT_EQ(table.find(old->id), nullptr);
  table.forget(old->id, 1);
  EXPECT_EQ(table.find(fresh->id), fresh);
}

TEST(NodeTable, KnowsTheRootAndNeverForgetsIt) {
  fs::NodeTable table(some_fd(), stat_of(2));
  EXPECT_EQ(table.look_up(some_path(), stat_of(2))->id, fs::kRootId);
  table.forget(fs::kRootId, 1000);
  EXPECT_EQ(table.find(fs::kRootId), table.root());
}

TEST(NodeTable, RefusesIdsThatNobodyWasGiven) {
  fs::NodeTable table(some_fd(), stat_of(2));
  for (fs::NodeId id :
       {fs::NodeId{0}, fs::NodeId{2}, fs::NodeId{12345}, fs::NodeId{1} << 32 | 1, ~fs::NodeId{0}})
    EXPECT_EQ(table.find(id), nullptr) << id;
  table.forget(~fs::NodeId{0}, 1);
}

TEST(NodeTable, ForgettingMoreThanWasLookedUpIsHarmless) {
  fs::NodeTable table(some_fd(), stat_of(2));
  auto node = table.look_up(some_path(), stat_of(10));
  table.forget(node->id, 100);
  EXPECT_EQ(table.find(node->id), nullptr);
}

TEST(NodeTable, HoldsUnderLookupsAndForgetsOfManyThreads) {
  fs::NodeTable table(some_fd(), stat_of(2));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; t++)
    threads.emplace_back([&] {
      for (ino_t i = 0; i < 2000; i++) {
        auto node = table.look_up(some_path(), stat_of(100 + i % 50));
        EXPECT_EQ(table.find(node->id), node);
        table.forget(node->id, 1);
      }
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(table.size(), 1u);
}

TEST(NodeTable, ANumberThatIsGivenToANewFileGetsANewNode) {
  posix::Fd directory(open("/var/tmp", O_PATH));
  struct stat root;
  ASSERT_EQ(fstat(directory.get(), &root), 0);
  if (fs::FileHandle::of(directory.get()).size == 0)
    GTEST_SKIP() << "/var/tmp is on a file system without handles";
  auto make = [] {
    char name[] = "/var/tmp/node_XXXXXX";
    posix::Fd fd(mkstemp(name));
    posix::Fd path(open(name, O_PATH));
    unlink(name);
    return path;
  };
  fs::NodeTable table(posix::duplicate(directory.get()).value(), root, 0);
  posix::Fd old_file = make(), new_file = make();
  struct stat st = root;
  st.st_ino = root.st_ino + 1;
  st.st_nlink = 1;
  auto old_node = table.look_up(shared(posix::duplicate(old_file.get()).value()), st);
  EXPECT_EQ(table.look_up(shared(posix::duplicate(old_file.get()).value()), st), old_node);
  auto new_node = table.look_up(shared(posix::duplicate(new_file.get()).value()),
                                st);  // the same number, another generation
  EXPECT_NE(new_node, old_node);
  EXPECT_EQ(table.find(old_node->id), old_node) << "until it is forgotten";
  EXPECT_EQ(table.look_up(shared(posix::duplicate(new_file.get()).value()), st), new_node);
  table.forget(old_node->id, 2);
  EXPECT_EQ(table.find(old_node->id), nullptr);
  EXPECT_EQ(table.find_inode(st.st_dev, st.st_ino), new_node);
}

TEST(NodeTable, FindsTheNodeOfAHandleAndNoOther) {
  char known[] = "/var/tmp/node_XXXXXX", other[] = "/var/tmp/node_XXXXXX";
  posix::Fd known_file(mkstemp(known)), other_file(mkstemp(other));
  posix::Fd directory(open("/var/tmp", O_PATH)), path(open(known, O_PATH));
  unlink(known);
  unlink(other);
  struct stat root, st;
  ASSERT_EQ(fstat(directory.get(), &root), 0);
  ASSERT_EQ(fstat(path.get(), &st), 0);
  const auto handle = fs::FileHandle::of(path.get());
  if (handle.size == 0) GTEST_SKIP() << "/var/tmp is on a file system without handles";
  EXPECT_EQ(handle.inode().value_or(st.st_ino), st.st_ino);
  fs::NodeTable table(std::move(directory), root);
  if (!table.opens_by_handle()) GTEST_SKIP() << "needs CAP_DAC_READ_SEARCH";
  EXPECT_EQ(table.find_handle(handle), nullptr);
  auto node = table.look_up(shared(std::move(path)), st);
  EXPECT_EQ(table.find_handle(handle), node);
  EXPECT_EQ(table.find_handle(fs::FileHandle::of(other_file.get())), nullptr);
}

// A file without a name in a table that holds no descriptors.
struct ByHandle : testing::Test {
  void SetUp() override {
    char name[] = "/var/tmp/node_XXXXXX";
    data = shared(posix::Fd(mkstemp(name)));
    path = shared(posix::Fd(open(name, O_PATH)));
    unlink(name);
    posix::Fd directory(open("/var/tmp", O_PATH));
    struct stat root, st;
    ASSERT_EQ(fstat(directory.get(), &root), 0);
    ASSERT_EQ(fstat(path->get(), &st), 0);
    st.st_nlink = 1;
    table = std::make_unique<fs::NodeTable>(std::move(directory), root, 0);
    if (!table->opens_by_handle()) GTEST_SKIP() << "needs CAP_DAC_READ_SEARCH and a file system with handles";
    node = table->look_up(path, st);
  }
  fs::PathFd path;
  fs::DataFd data;
  std::unique_ptr<fs::NodeTable> table;
  std::shared_ptr<fs::Node> node;
};

TEST_F(ByHandle, AFileThatIsOpenIsNotOpenedAgain) {
  EXPECT_NE(table->open(*node).value(), path);
  node->begin_use(path, nullptr);
  const auto second = table->open(*node).value();
  EXPECT_EQ(second, path);
  node->begin_use(second, nullptr);
  node->end_use(nullptr);
  EXPECT_EQ(table->open(*node).value(), path) << "one that uses it is left";
  node->end_use(nullptr);
  EXPECT_NE(table->open(*node).value(), path);
}

TEST_F(ByHandle, NothingKeepsADescriptorOpenThatADescriptionHasLent) {
  node->begin_use(path, data);
  node->begin_use(path, nullptr);
  EXPECT_EQ(node->data(), data);
  node->end_use(data);
  EXPECT_EQ(node->data(), nullptr) << "the other one has none";
  EXPECT_EQ(data.use_count(), 1);
  EXPECT_GT(path.use_count(), 1);
  node->end_use(nullptr);
  EXPECT_EQ(path.use_count(), 1);
}

// A directory with a file and a link to it.
struct ByName : testing::Test {
  void SetUp() override {
    char name[] = "/var/tmp/node_XXXXXX";
    ASSERT_TRUE(mkdtemp(name));
    place = name;
    directory = posix::Fd(open(name, O_PATH));
    file = posix::Fd(openat(directory.get(), "file", O_CREAT | O_RDWR, 0600));
    ASSERT_EQ(symlinkat("file", directory.get(), "link"), 0);
    ASSERT_EQ(fstat(directory.get(), &root), 0);
    if (!make_table(0)->opens_by_handle() || !fs::FileHandle::of(directory.get()).inode())
      GTEST_SKIP() << "needs CAP_DAC_READ_SEARCH and ext4 or xfs";
  }
  void TearDown() override { std::filesystem::remove_all(place); }
  std::unique_ptr<fs::NodeTable> make_table(size_t most_held) {
    return std::make_unique<fs::NodeTable>(posix::duplicate(directory.get()).value(), root, most_held);
  }
  std::string place;
  posix::Fd directory, file;
  struct stat root, st;
};

TEST_F(ByName, FindsWhatANameStandsForWithoutOpeningIt) {
  auto table = make_table(0);
  const auto node = table->look_up(directory.get(), "file", st).value();
  ASSERT_TRUE(node);
  struct stat own;
  ASSERT_EQ(fstat(file.get(), &own), 0);
  EXPECT_EQ(st.st_ino, own.st_ino);
  EXPECT_EQ(st.st_size, own.st_size);
  EXPECT_EQ(table->look_up(shared(posix::duplicate(file.get()).value()), own), node);
  EXPECT_EQ(table->look_up(directory.get(), "file", st).value(), node);
  table->forget(node->id, 2);
  EXPECT_EQ(table->find(node->id), node) << "looked up three times";
  ASSERT_EQ(fstat(table->open(*node).value()->get(), &st), 0);
  EXPECT_EQ(st.st_ino, own.st_ino);
  ASSERT_TRUE(table->look_up(directory.get(), "link", st).value());
  EXPECT_TRUE(S_ISLNK(st.st_mode));
  EXPECT_EQ(table->look_up(directory.get(), "absent", st).error().code, ENOENT);
}

TEST_F(ByName, LeavesToBeOpenedWhatIsToBeHeld) {
  EXPECT_EQ(make_table(SIZE_MAX)->look_up(directory.get(), "file", st).value(), nullptr);
  ASSERT_EQ(mkdirat(directory.get(), "below", 0700), 0);
  auto table = make_table(1);  // of directories twice as many are held
  EXPECT_EQ(table->look_up(directory.get(), "below", st).value(), nullptr);
  EXPECT_TRUE(table->look_up(directory.get(), "file", st).value());
  EXPECT_EQ(table->size(), 2u);
}

// 0: it did not.
int crosses(const std::string& place, const struct stat& root) {
  constexpr int kSkip = 77;
  const std::string below = place + "/below";
  if (unshare(CLONE_NEWNS) < 0 || mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) < 0)
    return kSkip;
  if (mkdir(below.c_str(), 0700) < 0 || mount(place.c_str(), below.c_str(), nullptr, MS_BIND, nullptr) < 0)
    return kSkip;
  fs::NodeTable table(posix::Fd(open(place.c_str(), O_PATH)), root, 0);
  posix::Fd directory(open(place.c_str(), O_PATH));
  struct stat st;
  return table.look_up(directory.get(), "below", st).value() ? 1 : 0;
}

TEST_F(ByName, CrossesIntoNoOtherMountOfTheSameFileSystem) {
  const pid_t child = fork();
  if (child == 0) _exit(crosses(place, root));
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "needs mounts of its own";
  EXPECT_EQ(status, 0);
}

TEST(NodeTable, TellsTheNumberInAHandleOfExt4AndXfs) {
  fs::FileHandle handle{1, 8, {0x78, 0x56, 0x34, 0x12, 9, 9, 9, 9}};
  EXPECT_EQ(handle.inode(), 0x12345678u);
  handle = {0x81, 12, {0x78, 0x56, 0x34, 0x12, 1, 0, 0, 0, 9, 9, 9, 9}};
  EXPECT_EQ(handle.inode(), 0x112345678u);
  handle = {1, 12, {9, 9, 9, 9, 0x78, 0x56, 0x34, 0x12}};  // tmpfs begins with the generation
  EXPECT_EQ(handle.inode(), std::nullopt);
  handle.size = 0;
  EXPECT_EQ(handle.inode(), std::nullopt);
}

size_t resident_kib() {
  size_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * 4;
}

TEST(NodeTable, GivesMemoryBackWhenMostIsForgotten) {
  // By their handles, as millions are: a descriptor each would end at the limit.
  posix::Fd directory(open("/var/tmp", O_PATH));
  struct stat root;
  ASSERT_EQ(fstat(directory.get(), &root), 0);
  if (fs::FileHandle::of(directory.get()).size == 0)
    GTEST_SKIP() << "/var/tmp is on a file system without handles";
  fs::NodeTable table(posix::duplicate(directory.get()).value(), root, 0);
  constexpr size_t kNodes = 300'000;
  std::vector<fs::NodeId> ids;
  ids.reserve(kNodes);
  const size_t before = resident_kib();
  struct stat st = root;
  st.st_nlink = 1;
  for (size_t i = 0; i < kNodes; i++) {
    st.st_ino = root.st_ino + 1 + i;
    ids.push_back(table.look_up(shared(posix::duplicate(directory.get()).value()), st)->id);
  }
  const size_t full = resident_kib() - before;
  EXPECT_EQ(table.held(), 1u);
  EXPECT_LT(full * 1024 / kNodes, 400u) << "bytes of each";
  for (fs::NodeId id : ids) table.forget(id, 1);
  EXPECT_TRUE(table.has_shrunk());
  table.compact();
  EXPECT_LT(resident_kib() - before, full / 2);
  EXPECT_FALSE(table.has_shrunk());
}

}  // namespace
