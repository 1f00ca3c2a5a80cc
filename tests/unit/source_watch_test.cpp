#include "source_watch.h"

#include <gtest/gtest.h>
#include <sys/fanotify.h>

#include <cstring>
#include <string>

namespace {

// One event as the kernel lays it out: metadata, then records of a file system id, a handle and a name.
class Event {
 public:
  Event(uint64_t mask, pid_t pid) {
    fanotify_event_metadata head{};
    head.metadata_len = sizeof head;
    head.vers = FANOTIFY_METADATA_VERSION;
    head.mask = mask;
    head.fd = FAN_NOFD;
    head.pid = pid;
    append(&head, sizeof head);
  }
  Event& record(uint8_t type, const std::string& handle, const std::string& name = "") {
    const size_t named = type == FAN_EVENT_INFO_TYPE_DFID_NAME ? name.size() + 1 : 0;
    const size_t length =
        sizeof(fanotify_event_info_header) + 8 + sizeof(file_handle) + handle.size() + named;
    fanotify_event_info_header head{type, 0, static_cast<uint16_t>((length + 3) & ~size_t{3})};
    append(&head, sizeof head);
    append("fsid8byt", 8);
    file_handle shape{};
    shape.handle_bytes = static_cast<unsigned>(handle.size());
    shape.handle_type = 1;
    append(&shape, sizeof shape);
    append(handle.data(), handle.size());
    append(name.c_str(), named);
    bytes_.append((4 - length % 4) % 4, '\0');
    return *this;
  }
  std::string bytes() const {
    std::string all = bytes_;
    const auto length = static_cast<uint32_t>(all.size());
    memcpy(all.data(), &length, sizeof length);
    return all;
  }

 private:
  void append(const void* p, size_t n) { bytes_.append(static_cast<const char*>(p), n); }
  std::string bytes_;
};

std::vector<std::string> names_in(const std::string& bytes) {
  std::vector<std::string> names;
  fs::for_each_event({bytes.data(), bytes.size()}, 100, [&](const fs::SourceEvent& e) {
    names.push_back(std::string(e.directory.bytes.data(), e.directory.size) + "/" + std::string(e.name) +
                    (e.names ? " name" : "") + (e.lost ? " lost" : "") +
                    std::string(e.file.bytes.data(), e.file.size));
  });
  return names;
}

TEST(SourceWatch, ReadsNamesAndFilesOfOthersEvents) {
  const std::string bytes =
      Event(FAN_CREATE, 7).record(FAN_EVENT_INFO_TYPE_DFID_NAME, "dir1", "made").bytes() +
      Event(FAN_DELETE, 100).record(FAN_EVENT_INFO_TYPE_DFID_NAME, "dir1", "own").bytes() +
      Event(FAN_ATTRIB, 8)
          .record(FAN_EVENT_INFO_TYPE_DFID_NAME, "dir2", "f")
          .record(FAN_EVENT_INFO_TYPE_FID, "file")
          .bytes() +
      Event(FAN_Q_OVERFLOW, 0).bytes();
  EXPECT_EQ(names_in(bytes), (std::vector<std::string>{"dir1/made name", "dir2/ffile", "/ lost"}));
}

TEST(SourceWatch, BytesThatMakeNoSenseEndTheReading) {
  std::string bytes = Event(FAN_CREATE, 7).record(FAN_EVENT_INFO_TYPE_DFID_NAME, "dir1", "made").bytes();
  for (size_t cut = 0; cut < bytes.size(); cut++) EXPECT_TRUE(names_in(bytes.substr(0, cut)).empty()) << cut;
  for (size_t at = 0; at < bytes.size(); at++) {
    std::string bad = bytes;
    bad[at] = static_cast<char>(0xff);
    names_in(bad);  // under sanitizers: reads nothing outside
  }
}

}  // namespace
