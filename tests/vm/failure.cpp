#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/fscrypt.h>
#include <sys/ioctl.h>

#include <array>
#include <cstring>

#include "commands.h"
#include "test_file.h"

namespace vm {
namespace {

constexpr uint64_t kSector = 512;

// A structure of the kernel's that ends in `Tail` without bounds.
template <typename Head, typename Tail>
class WithTail {
 public:
  Head* operator->() { return get(); }
  Head* get() { return reinterpret_cast<Head*>(bytes_.data()); }
  Tail* tail() { return reinterpret_cast<Tail*>(bytes_.data() + sizeof(Head)); }

 private:
  alignas(Head) std::array<char, sizeof(Head) + sizeof(Tail)> bytes_{};
};

// Where on the disk the byte at `offset` of a file lies.
posix::Result<uint64_t> disk_offset(const std::string& path, uint64_t offset) {
  posix::Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  WithTail<fiemap, fiemap_extent> query;
  query->fm_start = offset;
  query->fm_length = 1;
  query->fm_flags = FIEMAP_FLAG_SYNC;
  query->fm_extent_count = 1;
  if (!fd || ioctl(fd.get(), FS_IOC_FIEMAP, query.get()) < 0)
    return posix::last_failure("extents of " + path);
  if (query->fm_mapped_extents != 1) return posix::failure(ENODATA, "extent of " + path);
  return query.tail()->fe_physical + (offset - query.tail()->fe_logical);
}

}  // namespace

int prepare(const Options& o) {
  Report report;
  const std::string path = o.directory + "/in";
  if (auto written = write_file(path, fresh_bytes(o.bytes)); !written) report.fail(written.error().text());
  auto at = disk_offset(path, o.bad_offset);
  if (at)
    printf("%llu\n", static_cast<unsigned long long>(*at / kSector));
  else
    report.fail(at.error().text());
  return report.status();
}

int read_failing(const Options& o) {
  Report report;
  with_each(o, report, [&](Client& client, const Memory&, const std::string& kind) {
    posix::Fd file(open(client.path("in").c_str(), O_RDONLY | O_CLOEXEC));
    Done done = client.move(Direction::read, file.get(), 0, 0, o.bytes);
    report.line(client, kind, "whole", done);
    report.check(o.bad_offset == 0 ? done.result == -EIO : done.result == static_cast<int64_t>(o.bad_offset),
                 "the bytes before the error");
    done = client.move(Direction::read, file.get(), 0, o.bad_offset, o.bytes - o.bad_offset);
    report.line(client, kind, "from there", done);
    report.check(done.result == -EIO, "EIO where the error is");
    if (auto* mount = dynamic_cast<MountClient*>(&client)) {
      auto got = posix::Mapping::anonymous(o.bytes);
      done = mount->read_tagged(file.get(), got->data(), o.bytes);
      report.line(client, kind, "tagged read", done);
      report.check(done.result == -EIO, "EIO in the middle of the reads");
    }
  });
  return report.status();
}

int write_failing(const Options& o) {
  Report report;
  with_each(o, report, [&](Client& client, const Memory&, const std::string& kind) {
    posix::Fd file(open(client.path("in").c_str(), O_RDWR | O_CLOEXEC));
    Done done = client.move(Direction::write, file.get(), 0, 0, o.bytes);
    report.line(client, kind, "write", done);
    // What the page cache has taken fails when it is to be on the disk, as with write(2).
    report.check(done.result == -EIO ||
                     (done.route == HIPFILE_FUSE_ROUTE_CACHED && fsync(file.get()) < 0 && errno == EIO),
                 "EIO of the write, or of fsync");
  });
  return report.status();
}

int encrypt(const Options& o) {
  Report report;
  posix::Fd directory(open(o.directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  WithTail<fscrypt_add_key_arg, std::array<char, FSCRYPT_MAX_KEY_SIZE>> key;
  key->key_spec.type = FSCRYPT_KEY_SPEC_TYPE_IDENTIFIER;
  key->raw_size = FSCRYPT_MAX_KEY_SIZE;
  key.tail()->fill('k');
  fscrypt_policy_v2 policy{};
  policy.version = FSCRYPT_POLICY_V2;
  policy.contents_encryption_mode = FSCRYPT_MODE_AES_256_XTS;
  policy.filenames_encryption_mode = FSCRYPT_MODE_AES_256_CTS;
  policy.flags = FSCRYPT_POLICY_FLAGS_PAD_32;
  if (!report.check(ioctl(directory.get(), FS_IOC_ADD_ENCRYPTION_KEY, key.get()) == 0, "add a key"))
    return report.status();
  memcpy(policy.master_key_identifier, key->key_spec.u.identifier, FSCRYPT_KEY_IDENTIFIER_SIZE);
  report.check(ioctl(directory.get(), FS_IOC_SET_ENCRYPTION_POLICY, &policy) == 0, "encrypt " + o.directory);
  return report.status();
}

}  // namespace vm
