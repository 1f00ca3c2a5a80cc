#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include "storage/extents.h"
#include "storage/file.h"
#include "storage/mount_table.h"
#include "storage/page_cache.h"

namespace {

posix::Fd temporary(int flags = O_RDWR) {
  char name[] = "/var/tmp/storage_XXXXXX";
  posix::Fd made(mkstemp(name));
  posix::Fd again(open(name, flags | O_CLOEXEC));
  unlink(name);
  return again;
}

TEST(DataMode, ReadsExt4Options) {
  using storage::DataMode;
  EXPECT_EQ(storage::parse_data_mode("rw,errors=remount-ro"), DataMode::ordered);
  EXPECT_EQ(storage::parse_data_mode("rw,data=ordered"), DataMode::ordered);
  EXPECT_EQ(storage::parse_data_mode("data=journal,rw"), DataMode::journal);
  EXPECT_EQ(storage::parse_data_mode("rw,data=writeback"), DataMode::writeback);
  EXPECT_EQ(storage::parse_data_mode("rw,data=other"), DataMode::unknown);
  EXPECT_EQ(storage::parse_data_mode("rw,metadata=journal"), DataMode::ordered);
}

TEST(MountTable, KnowsTheFileSystemOfTheRootDirectory) {
  struct stat st;
  ASSERT_EQ(stat("/proc", &st), 0);
  storage::MountTable table;
  auto mount = table.find(st.st_dev);
  ASSERT_TRUE(mount);
  EXPECT_EQ(mount->type, "proc");
  EXPECT_FALSE(table.find(makedev(4095, 1048575)));
}

TEST(File, HasOneDescriptorThroughAndOneAroundThePageCache) {
  storage::MountTable mounts;
  for (int flags : {O_RDWR, O_RDWR | O_DIRECT}) {
    auto file = storage::File::open(temporary(flags), mounts);
    ASSERT_TRUE(file) << file.error().text();
    EXPECT_FALSE(fcntl((*file)->buffered(), F_GETFL) & O_DIRECT);
    if ((*file)->facts().offset_align == 0) continue;  // a file system without O_DIRECT
    EXPECT_TRUE(fcntl((*file)->direct(), F_GETFL) & O_DIRECT);
    EXPECT_EQ((*file)->facts().kind, storage::FileKind::regular);
    EXPECT_TRUE((*file)->readable());
    EXPECT_TRUE((*file)->writable());
  }
}

TEST(File, WritesAtOffsetsAlsoWhenOpenedForAppending) {
  storage::MountTable mounts;
  auto file = storage::File::open(temporary(O_RDWR | O_APPEND), mounts);
  ASSERT_TRUE(file);
  EXPECT_FALSE(fcntl((*file)->buffered(), F_GETFL) & O_APPEND);
  ASSERT_EQ(pwrite((*file)->buffered(), "abc", 3, 0), 3);
  ASSERT_EQ(pwrite((*file)->buffered(), "X", 1, 0), 1);
  char back[4] = {};
  ASSERT_EQ(pread((*file)->buffered(), back, 3, 0), 3);
  EXPECT_STREQ(back, "Xbc");
}

TEST(File, KeepsSynchronousFlags) {
  storage::MountTable mounts;
  auto file = storage::File::open(temporary(O_RDWR | O_SYNC), mounts);
  ASSERT_TRUE(file);
  EXPECT_EQ(fcntl((*file)->buffered(), F_GETFL) & O_SYNC, O_SYNC);
  if ((*file)->direct() >= 0) {
    EXPECT_EQ(fcntl((*file)->direct(), F_GETFL) & O_SYNC, O_SYNC);
  }
}

TEST(File, RefusesDescriptorsThatAreNone) {
  storage::MountTable mounts;
  EXPECT_EQ(storage::File::open(posix::Fd(), mounts).error().code, EBADF);
  EXPECT_EQ(storage::File::open(posix::Fd(open("/tmp", O_PATH)), mounts).error().code, EBADF);
}

TEST(File, TakesPipesAsFilesWithoutDirectIo) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  posix::Fd writer(ends[1]);
  storage::MountTable mounts;
  auto file = storage::File::open(posix::Fd(ends[0]), mounts);
  ASSERT_TRUE(file);
  EXPECT_EQ((*file)->facts().kind, storage::FileKind::other);
  EXPECT_EQ((*file)->facts().offset_align, 0u);
}

TEST(File, IsExaminedWithoutBeingOpened) {
  storage::MountTable mounts;
  posix::Fd fd = temporary();
  posix::Fd path(open(posix::proc_path(fd.get()).c_str(), O_PATH));
  auto facts = storage::examine(path.get(), mounts);
  auto file = storage::File::open(std::move(fd), mounts);
  ASSERT_TRUE(facts && file);
  EXPECT_EQ(facts->id, (*file)->facts().id);
  EXPECT_EQ(facts->offset_align, (*file)->facts().offset_align);
  EXPECT_EQ(facts->file_system, (*file)->facts().file_system);
  EXPECT_EQ(facts->volume, (*file)->facts().volume);
  ASSERT_TRUE(facts->volume);
  EXPECT_LE(facts->read_offset_align, facts->offset_align);
  EXPECT_EQ(storage::examine(-1, mounts).error().code, EBADF);
}

TEST(Directory, TellsWhatAFileInItWouldBe) {
  storage::MountTable mounts;
  char name[] = "/var/tmp/storage_XXXXXX";
  ASSERT_NE(mkdtemp(name), nullptr);
  posix::Fd directory(open(name, O_PATH | O_DIRECTORY));
  posix::Fd file(openat(directory.get(), "file", O_CREAT | O_RDWR, 0600));
  auto expected = storage::examine(file.get(), mounts);
  auto facts = storage::examine_directory(directory.get(), mounts);
  ASSERT_TRUE(facts && expected);
  EXPECT_EQ(facts->kind, storage::FileKind::regular);
  EXPECT_EQ(facts->offset_align, expected->offset_align);
  EXPECT_EQ(facts->memory_align, expected->memory_align);
  EXPECT_EQ(facts->volume, expected->volume);
  EXPECT_EQ(facts->align_assumed, expected->align_assumed);
  unlinkat(directory.get(), "file", 0);
  EXPECT_TRUE(storage::examine_directory(directory.get(), mounts)->align_assumed);  // there is nothing to ask
  rmdir(name);
}

TEST(Extents, TellDataFromHoles) {
  posix::Fd fd = temporary();
  const std::string data(1 << 20, 'x');
  ASSERT_EQ(pwrite(fd.get(), data.data(), data.size(), 0), static_cast<ssize_t>(data.size()));
  ASSERT_EQ(pwrite(fd.get(), data.data(), data.size(), 4 << 20), static_cast<ssize_t>(data.size()));
  ASSERT_EQ(ftruncate(fd.get(), 8 << 20), 0);
  ASSERT_EQ(fsync(fd.get()), 0);
  auto facts = storage::examine_extents(fd.get(), 0, UINT64_MAX);
  ASSERT_TRUE(facts) << facts.error().text();
  EXPECT_TRUE(facts->complete);
  EXPECT_EQ(facts->data_bytes, 2u << 20);
  EXPECT_EQ(facts->hole_bytes, 6u << 20);
  EXPECT_EQ(facts->describe(), "6291456 bytes holes");
  auto part = storage::examine_extents(fd.get(), (4 << 20) + 4096, 8192);
  ASSERT_TRUE(part);
  EXPECT_EQ(part->data_bytes, 8192u);
  EXPECT_EQ(part->hole_bytes, 0u);
  EXPECT_EQ(part->describe(), "");
  EXPECT_EQ(storage::examine_extents(fd.get(), 9 << 20, 100)->extents, 0u);
}

TEST(Extents, TellWhatIsAllocatedButNotWritten) {
  posix::Fd fd = temporary();
  if (fallocate(fd.get(), 0, 0, 1 << 20) < 0) GTEST_SKIP() << "no fallocate here: " << strerror(errno);
  auto facts = storage::examine_extents(fd.get(), 0, 1 << 20);
  ASSERT_TRUE(facts);
  if (!facts->mapped) GTEST_SKIP() << "no FIEMAP here";
  EXPECT_EQ(facts->unwritten_bytes, 1u << 20);
  EXPECT_EQ(facts->data_bytes, 0u);
}

TEST(Extents, AreFoundBySeekingWhereTheFileSystemHasNoMapAndThePositionStays) {
  posix::Fd fd(memfd_create("extents", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(fd.get(), 4 << 20), 0);
  ASSERT_EQ(pwrite(fd.get(), "x", 1, 1 << 20), 1);
  ASSERT_EQ(lseek(fd.get(), 77, SEEK_SET), 77);
  auto facts = storage::examine_extents(fd.get(), 0, 4 << 20);
  ASSERT_TRUE(facts) << facts.error().text();
  EXPECT_FALSE(facts->mapped);
  EXPECT_EQ(facts->data_bytes + facts->hole_bytes, 4u << 20);
  EXPECT_GT(facts->data_bytes, 0u);
  EXPECT_GT(facts->hole_bytes, 0u);
  EXPECT_EQ(lseek(fd.get(), 0, SEEK_CUR), 77);
}

TEST(Residency, CountsPagesInTheCache) {
  posix::Fd fd = temporary();
  char page[4096] = {1};
  for (int i = 0; i < 4; i++) ASSERT_EQ(pwrite(fd.get(), page, sizeof page, i * 4096), 4096);
  auto all = storage::residency(fd.get(), 0, 4 * 4096);
  if (!all) GTEST_SKIP() << "no cachestat(2) here";
  EXPECT_TRUE(all->all());
  EXPECT_EQ(all->pages, 4u);
  EXPECT_EQ(storage::residency(fd.get(), 100, 4096)->pages, 2u);
  EXPECT_FALSE(storage::residency(fd.get(), 3 * 4096, 2 * 4096)->all());
  EXPECT_FALSE(storage::residency(fd.get(), 0, 0));
}

}  // namespace
