#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include "storage/file.h"
#include "storage/mount_table.h"
#include "storage/page_cache.h"

namespace {

posix::Fd temporary(int flags = O_RDWR) {
  char name[] = "/tmp/storage_XXXXXX";
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

TEST(PeerSupport, IsForXfsAndOrderedExt4Only) {
  using storage::DataMode;
  using storage::PeerSupport;
  EXPECT_EQ(storage::peer_support(std::nullopt), PeerSupport::file_system);
  EXPECT_EQ(storage::peer_support(storage::MountFacts{"xfs", "/dev/a", "rw", DataMode::ordered}),
            PeerSupport::yes);
  EXPECT_EQ(storage::peer_support(storage::MountFacts{"ext4", "/dev/a", "rw", DataMode::ordered}),
            PeerSupport::yes);
  EXPECT_EQ(storage::peer_support(storage::MountFacts{"ext4", "/dev/a", "rw", DataMode::journal}),
            PeerSupport::journaled_data);
  EXPECT_EQ(storage::peer_support(storage::MountFacts{"btrfs", "/dev/a", "rw", DataMode::ordered}),
            PeerSupport::file_system);
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
