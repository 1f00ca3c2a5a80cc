// TAG: read(2) and write(2) that move device memory.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "ioctl_fixture.h"
#include "posix/mapping.h"

namespace {

using namespace overlay;

TEST_F(Ioctl, TaggedReadsGoIntoTheBufferAndTheCallerGetsZeros) {
  SharedMemory memory(1 << 20);
  uint64_t id = register_fd(root_.get(), memory, HIPFILE_FUSE_REGISTER_PROCESS);
  posix::Fd fd = open_file();
  EXPECT_TRUE(info(fd.get()).capabilities & HIPFILE_FUSE_CAP_TAGGABLE);
  // The window: file [10000, 10000 + 500000) is buffer [300, ...).
  ASSERT_EQ(try_tag(fd.get(), make_tag(id, 300, 10000, 500000)), 0);
  EXPECT_EQ(try_tag(fd.get(), make_tag(id, 300, 10000, 500000)), EBUSY);
  std::vector<char> own(600000, 'o');
  ASSERT_EQ(lseek(fd.get(), 10000, SEEK_SET), 10000);
  ASSERT_EQ(read(fd.get(), own.data(), 1000), 1000);
  EXPECT_EQ(lseek(fd.get(), 0, SEEK_CUR), 11000);
  EXPECT_EQ(std::vector<char>(own.begin(), own.begin() + 1000), std::vector<char>(1000, 0));
  EXPECT_EQ(own[1000], 'o');
  EXPECT_EQ(memcmp(memory.data() + 300, &kBytes[10000], 1000), 0);
  // pread at a place goes to the place that corresponds.
  ASSERT_EQ(pread(fd.get(), own.data(), 300000, 100000), 300000);
  EXPECT_EQ(memcmp(memory.data() + 300 + 90000, &kBytes[100000], 300000), 0);
  EXPECT_EQ(memory.data()[299], 0);
  // readv, cut at the end of the window.
  iovec parts[2] = {{own.data(), 50}, {own.data() + 50, 100000}};
  ASSERT_EQ(lseek(fd.get(), 509000, SEEK_SET), 509000);
  EXPECT_EQ(readv(fd.get(), parts, 2), 1000);
  EXPECT_EQ(memcmp(memory.data() + 300 + 499000, &kBytes[509000], 1000), 0);
  // Outside the window there is no place.
  EXPECT_EQ(pread(fd.get(), own.data(), 10, 0), -1);
  EXPECT_EQ(errno, ENOSPC);
  EXPECT_EQ(pread(fd.get(), own.data(), 10, 510000), -1);
  EXPECT_EQ(errno, ENOSPC);
  // End of file is 0 as ever.
  EXPECT_EQ(pread(fd.get(), own.data(), 10, static_cast<off_t>(kBytes.size())), 0);
  hipfile_fuse_untag ended{};
  ASSERT_EQ(try_untag(fd.get(), &ended), 0);
  EXPECT_EQ(ended.bytes_read, 1000u + 300000 + 1000);
  EXPECT_GE(ended.requests, 3u);
  EXPECT_EQ(ended.failures, 0u);
  EXPECT_NE(ended.route, 0u);
  EXPECT_EQ(try_untag(fd.get()), ENODATA);
  // Untagged, it is an ordinary file again.
  ASSERT_EQ(pread(fd.get(), own.data(), 1000, 5), 1000);
  EXPECT_EQ(memcmp(own.data(), &kBytes[5], 1000), 0);
}

TEST_F(Ioctl, TeeGivesTheCallerTheBytesToo) {
  SharedMemory memory(4 << 20);
  uint64_t id = register_fd(root_.get(), memory, HIPFILE_FUSE_REGISTER_PROCESS);
  posix::Fd fd = open_file();
  ASSERT_EQ(try_tag(fd.get(), make_tag(id, 0, 0, 4 << 20, HIPFILE_FUSE_TAG_TEE)), 0);
  std::vector<char> own(kBytes.size() + 100);
  size_t done = 0;
  for (ssize_t n; (n = read(fd.get(), own.data() + done, own.size() - done)) > 0;)
    done += static_cast<size_t>(n);
  own.resize(done);
  EXPECT_EQ(own, kBytes);
  EXPECT_EQ(memcmp(memory.data(), kBytes.data(), kBytes.size()), 0);
}

// Whether the page cache has some of what lies between two places of a file.
bool any_cached(int fd, size_t begin, size_t end) {
  auto mapping = posix::Mapping::shared_read_only(fd, end - begin, static_cast<off_t>(begin));
  std::vector<unsigned char> pages((end - begin) / 4096);
  EXPECT_TRUE(mapping);
  EXPECT_EQ(mincore(mapping->data(), end - begin, pages.data()), 0);
  return std::any_of(pages.begin(), pages.end(), [](unsigned char page) { return page & 1; });
}

TEST_F(Ioctl, TaggedReadsInOrderAreReadAhead) {
  constexpr size_t kMiB = 1 << 20;
  make_file("model", pattern(24 * kMiB, 3));
  posix::Fd source_fd(open(source("model").c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(fsync(source_fd.get()), 0);
  posix_fadvise(source_fd.get(), 0, 0, POSIX_FADV_DONTNEED);
  if (any_cached(source_fd.get(), 0, 24 * kMiB)) GTEST_SKIP() << "the page cache could not be emptied here";
  SharedMemory memory(24 * kMiB);
  uint64_t id = register_fd(root_.get(), memory, HIPFILE_FUSE_REGISTER_PROCESS);
  posix::Fd fd = open_file(O_RDONLY, "model");
  ASSERT_EQ(try_tag(fd.get(), make_tag(id, 0, 0, 24 * kMiB)), 0);
  std::vector<char> own(kMiB);
  ASSERT_EQ(pread(fd.get(), own.data(), kMiB, 20 * kMiB), static_cast<ssize_t>(kMiB));  // not in order
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(any_cached(source_fd.get(), 22 * kMiB, 24 * kMiB));
  for (int i = 0; i < 3; i++) ASSERT_EQ(read(fd.get(), own.data(), kMiB), static_cast<ssize_t>(kMiB));
  for (int i = 0; i < 500 && !any_cached(source_fd.get(), 4 * kMiB, 8 * kMiB); i++)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_TRUE(any_cached(source_fd.get(), 4 * kMiB, 8 * kMiB));
}

TEST_F(Ioctl, TaggedWritesTakeTheirBytesFromTheBuffer) {
  SharedMemory memory(1 << 20);
  const auto bytes = pattern(1 << 20, 9);
  memcpy(memory.data(), bytes.data(), bytes.size());
  uint64_t id = register_fd(root_.get(), memory, HIPFILE_FUSE_REGISTER_PROCESS);
  posix::Fd fd = open_file(O_RDWR | O_CREAT, "checkpoint");
  ASSERT_EQ(try_tag(fd.get(), make_tag(id, 1000, 0, 700000, HIPFILE_FUSE_TAG_WRITE)), 0);
  std::vector<char> nothing(800000, 'n');
  EXPECT_EQ(write(fd.get(), nothing.data(), 400000), 400000);
  EXPECT_EQ(write(fd.get(), nothing.data(), 800000), 300000);  // cut at the end of the window
  EXPECT_EQ(write(fd.get(), nothing.data(), 1), -1);
  EXPECT_EQ(errno, ENOSPC);
  struct stat st;
  ASSERT_EQ(fstat(fd.get(), &st), 0);
  EXPECT_EQ(st.st_size, 700000);
  auto file = file_bytes("checkpoint");
  ASSERT_EQ(file.size(), 700000u);
  EXPECT_EQ(memcmp(file.data(), &bytes[1000], file.size()), 0);
  hipfile_fuse_untag ended{};
  ASSERT_EQ(try_untag(fd.get(), &ended), 0);
  EXPECT_EQ(ended.bytes_written, 700000u);
}

TEST_F(Ioctl, WithoutTheWriteFlagWritesAreOrdinary) {
  SharedMemory memory(1 << 20);
  uint64_t id = register_fd(root_.get(), memory, HIPFILE_FUSE_REGISTER_PROCESS);
  posix::Fd fd = open_file(O_RDWR);
  ASSERT_EQ(try_tag(fd.get(), make_tag(id, 0, 0, 1 << 20)), 0);
  EXPECT_EQ(pwrite(fd.get(), "mine", 4, 3000000), 4);
  EXPECT_EQ(memcmp(&file_bytes("data")[3000000], "mine", 4), 0);
}

TEST_F(Ioctl, ADescriptorCanBeTaggedOnceItIsReopenedByAProcessWithABuffer) {
  SharedMemory memory(1 << 20);
  posix::Fd ordinary = open_file(), direct = open_file(O_RDONLY | O_DIRECT);
  uint64_t on_ordinary = register_fd(ordinary.get(), memory);
  for (const auto* fd : {&ordinary, &direct}) {
    EXPECT_EQ(try_tag(fd->get(), make_tag(on_ordinary, 0, 0, 100)), fd == &ordinary ? EOPNOTSUPP : ENOENT);
    EXPECT_FALSE(info(fd->get()).capabilities & HIPFILE_FUSE_CAP_TAGGABLE);
  }
  posix::Fd again(open(posix::proc_path(ordinary.get()).c_str(), O_RDONLY));
  hipfile_fuse_register attach{};
  attach.version = HIPFILE_FUSE_ABI_VERSION;
  attach.kind = HIPFILE_FUSE_BUFFER_ATTACH;
  attach.fd = -1;
  attach.buffer_id = on_ordinary;
  ASSERT_EQ(try_register(again.get(), attach), 0);
  EXPECT_EQ(try_tag(again.get(), make_tag(on_ordinary, 0, 0, 100)), 0);
}

TEST_F(Ioctl, WithTagDirectWhatWasOpenedWithODirectCanBeTagged) {
  unmount();
  mount("tag=direct");
  SharedMemory memory(1 << 20);
  posix::Fd direct = open_file(O_RDONLY | O_DIRECT);
  EXPECT_TRUE(info(direct.get()).capabilities & HIPFILE_FUSE_CAP_TAGGABLE);
  uint64_t id = register_fd(direct.get(), memory);
  EXPECT_EQ(try_tag(direct.get(), make_tag(id, 0, 0, 1 << 20)), 0);
  char* aligned = static_cast<char*>(aligned_alloc(4096, 8192));
  EXPECT_EQ(pread(direct.get(), aligned, 8192, 4096), 8192);
  EXPECT_EQ(memcmp(memory.data() + 4096, &kBytes[4096], 8192), 0);
  free(aligned);
}

TEST_F(Ioctl, RefusesBadTags) {
  SharedMemory memory(8192);
  uint64_t id = register_fd(root_.get(), memory, HIPFILE_FUSE_REGISTER_PROCESS);
  posix::Fd fd = open_file(O_RDONLY);
  auto code = [&](auto change) {
    auto tag = make_tag(id, 0, 0, 8192);
    change(tag);
    return try_tag(fd.get(), tag);
  };
  EXPECT_EQ(code([](auto& t) { t.version = 2; }), EPROTONOSUPPORT);
  EXPECT_EQ(code([](auto& t) { t.flags = 4; }), EINVAL);
  EXPECT_EQ(code([](auto& t) { t.reserved[1] = 1; }), EINVAL);
  EXPECT_EQ(code([](auto& t) { t.length = 0; }), EINVAL);
  EXPECT_EQ(code([](auto& t) { t.length = 8193; }), ERANGE);
  EXPECT_EQ(code([](auto& t) { t.buffer_offset = 1; }), ERANGE);
  EXPECT_EQ(code([](auto& t) { t.buffer_offset = UINT64_MAX; }), ERANGE);
  EXPECT_EQ(code([](auto& t) { t.file_offset = UINT64_MAX; }), EINVAL);
  EXPECT_EQ(code([](auto& t) { t.buffer_id ^= 1; }), ENOENT);
  EXPECT_EQ(code([](auto& t) { t.flags = HIPFILE_FUSE_TAG_WRITE; }), EBADF);
  EXPECT_EQ(try_tag(root_.get(), make_tag(id, 0, 0, 10)), EISDIR);
  EXPECT_EQ(try_untag(root_.get()), EISDIR);
  EXPECT_EQ(try_untag(fd.get()), ENODATA);
  EXPECT_EQ(code([](auto&) {}), 0);
}

TEST_F(Ioctl, ATagWhoseBufferIsGoneFailsUntilUntagged) {
  SharedMemory memory(8192);
  uint64_t id = register_fd(root_.get(), memory, HIPFILE_FUSE_REGISTER_PROCESS);
  posix::Fd fd = open_file();
  ASSERT_EQ(try_tag(fd.get(), make_tag(id, 0, 0, 8192)), 0);
  ASSERT_EQ(unregister(root_.get(), id), 0);
  char byte;
  EXPECT_EQ(pread(fd.get(), &byte, 1, 0), -1);
  EXPECT_EQ(errno, ENXIO);
  EXPECT_EQ(try_untag(fd.get()), 0);
  EXPECT_EQ(pread(fd.get(), &byte, 1, 0), 1);
}

TEST_F(Ioctl, AnUnmodifiedCommandReadsATaggedStandardInput) {
  SharedMemory memory(4 << 20);
  uint64_t id = register_fd(root_.get(), memory, HIPFILE_FUSE_REGISTER_PROCESS);
  posix::Fd fd = open_file();
  ASSERT_EQ(try_tag(fd.get(), make_tag(id, 0, 0, 4 << 20)), 0);
  EXPECT_EQ(in_child([&] {
              dup2(fd.get(), 0);
              execlp("dd", "dd", "of=/dev/null", "bs=1M", "status=none", nullptr);
              return 127;
            }),
            0);
  EXPECT_EQ(memcmp(memory.data(), kBytes.data(), kBytes.size()), 0);
}

}  // namespace
