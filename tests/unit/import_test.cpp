#include "gpu/import.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

namespace {

posix::Fd memfd(size_t size) {
  posix::Fd fd(memfd_create("import_test", MFD_CLOEXEC));
  EXPECT_EQ(ftruncate(fd.get(), static_cast<off_t>(size)), 0);
  return fd;
}

TEST(ImportFd, MapsAWindowOfAMemfdAtAnyOffset) {
  posix::Fd fd = memfd(20000);
  auto imported = gpu::import_fd(nullptr, 0, *posix::duplicate(fd.get()), 5001, 9000);
  ASSERT_TRUE(imported) << imported.error().text();
  const gpu::Memory& m = (*imported)->memory();
  EXPECT_EQ(m.kind, gpu::MemoryKind::host);
  EXPECT_TRUE(m.pages);
  EXPECT_EQ(m.length, 9000u);
  memcpy(m.address, "here", 4);
  char back[5] = {};
  ASSERT_EQ(pread(fd.get(), back, 4, 5001), 4);
  EXPECT_STREQ(back, "here");
}

TEST(ImportFd, RefusesRangesThatLeaveTheMemory) {
  posix::Fd fd = memfd(8192);
  auto import = [&](uint64_t offset, uint64_t length) {
    auto r = gpu::import_fd(nullptr, 0, *posix::duplicate(fd.get()), offset, length);
    return r ? 0 : r.error().code;
  };
  EXPECT_EQ(import(0, 8192), 0);
  EXPECT_EQ(import(8191, 1), 0);
  EXPECT_EQ(import(0, 8193), EINVAL);
  EXPECT_EQ(import(8192, 1), EINVAL);
  EXPECT_EQ(import(0, 0), EINVAL);
  EXPECT_EQ(import(UINT64_MAX, 1), EINVAL);
  EXPECT_EQ(import(1, UINT64_MAX), EINVAL);
}

TEST(ImportFd, RefusesWhatIsNoMemory) {
  char name[] = "/var/tmp/import_XXXXXX";  // on a disk, unlike /tmp at times
  posix::Fd file(mkstemp(name));
  ASSERT_EQ(ftruncate(file.get(), 4096), 0);
  unlink(name);
  EXPECT_EQ(gpu::import_fd(nullptr, 0, std::move(file), 0, 4096).error().code, EINVAL);
  posix::Fd null(open("/dev/zero", O_RDWR));
  EXPECT_EQ(gpu::import_fd(nullptr, 0, std::move(null), 0, 4096).error().code, EINVAL);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  posix::Fd other(ends[1]);
  EXPECT_EQ(gpu::import_fd(nullptr, 0, posix::Fd(ends[0]), 0, 4096).error().code, EINVAL);
}

TEST(ImportFd, RefusesMemoryThatIsNotOpenForReadingAndWriting) {
  posix::Fd fd = memfd(4096);
  posix::Fd read_only(open(posix::proc_path(fd.get()).c_str(), O_RDONLY));
  EXPECT_EQ(gpu::import_fd(nullptr, 0, std::move(read_only), 0, 4096).error().code, EACCES);
}

TEST(ImportIpc, RefusesHandlesThatAreNone) {
  auto runtime = *gpu::Runtime::load("software");
  hip::IpcMemHandle handle{};
  EXPECT_EQ(gpu::import_ipc(runtime, 0, handle, 0, 1).error().code, ESTALE);
  EXPECT_EQ(gpu::import_ipc(nullptr, 0, handle, 0, 1).error().code, ENODEV);
}

}  // namespace
