#include "source_watch.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/fanotify.h>

#include <cstring>
#include <vector>

namespace fs {
namespace {

// Modifications of data are left out: the kernel would report each write(2) of everyone.
constexpr uint64_t kNames = FAN_CREATE | FAN_DELETE | FAN_MOVED_FROM | FAN_MOVED_TO;
constexpr uint64_t kWatched = kNames | FAN_ATTRIB | FAN_ONDIR;

// Events come in bursts, most of them our own doing: one look for many. This bounds how late a change is noticed.
constexpr int kPauseMs = 1;

// A read that leaves room for one has fetched all there were.
constexpr size_t kLargestEvent = 4096;

FileHandle handle_in(const char*& at, const char* end) {
  FileHandle handle;
  file_handle head;
  if (static_cast<size_t>(end - at) < sizeof head) return handle;
  memcpy(&head, at, sizeof head);
  at += sizeof head;
  if (head.handle_bytes > handle.bytes.size() || head.handle_bytes > static_cast<size_t>(end - at))
    return handle;
  handle.type = head.handle_type;
  handle.size = static_cast<uint8_t>(head.handle_bytes);
  memcpy(handle.bytes.data(), at, handle.size);
  at += handle.size;
  return handle;
}

void read_record(const char* at, const fanotify_event_info_header& head, SourceEvent& event) {
  const char* const end = at + head.len;
  at += sizeof head + sizeof(__kernel_fsid_t);
  FileHandle handle = handle_in(at, end);
  if (head.info_type == FAN_EVENT_INFO_TYPE_FID) {
    event.file = handle;
  } else if (head.info_type == FAN_EVENT_INFO_TYPE_DFID_NAME) {
    event.directory = handle;
    event.name = std::string_view(at, strnlen(at, static_cast<size_t>(end - at)));
  } else if (head.info_type == FAN_EVENT_INFO_TYPE_DFID) {
    event.directory = handle;
  }
}

void read_records(std::span<const char> bytes, size_t at, SourceEvent& event) {
  while (at < bytes.size()) {
    fanotify_event_info_header info;
    if (bytes.size() - at < sizeof info + sizeof(__kernel_fsid_t)) return;
    memcpy(&info, bytes.data() + at, sizeof info);
    if (info.len < sizeof info + sizeof(__kernel_fsid_t) || info.len > bytes.size() - at) return;
    read_record(bytes.data() + at, info, event);
    at += info.len;
  }
}

}  // namespace

void for_each_event(std::span<const char> bytes, pid_t own,
                    const std::function<void(const SourceEvent&)>& each) {
  size_t at = 0;
  while (bytes.size() - at >= sizeof(fanotify_event_metadata)) {
    fanotify_event_metadata head;
    memcpy(&head, bytes.data() + at, sizeof head);
    if (head.event_len < sizeof head || head.event_len > bytes.size() - at) return;
    SourceEvent event;
    event.lost = head.mask & FAN_Q_OVERFLOW;
    event.names = head.mask & kNames;
    if (event.lost || head.pid != own) {
      read_records(bytes.subspan(at, head.event_len), head.metadata_len, event);
      each(event);
    }
    at += head.event_len;
  }
}

posix::Result<std::unique_ptr<SourceWatch>> SourceWatch::start(int root, Changed changed) {
  posix::Fd events(fanotify_init(FAN_CLASS_NOTIF | FAN_CLOEXEC | FAN_NONBLOCK | FAN_UNLIMITED_QUEUE |
                                     FAN_REPORT_FID | FAN_REPORT_DFID_NAME,
                                 0));
  if (!events) return posix::last_failure("start fanotify");
  if (fanotify_mark(events.get(), FAN_MARK_ADD | FAN_MARK_FILESYSTEM, kWatched, root, ".") < 0)
    return posix::last_failure("watch the source");
  posix::Fd stop(eventfd(0, EFD_CLOEXEC));
  if (!stop) return posix::last_failure("make eventfd");
  return std::unique_ptr<SourceWatch>(
      new SourceWatch(std::move(events), std::move(stop), std::move(changed)));
}

SourceWatch::SourceWatch(posix::Fd events, posix::Fd stop, Changed changed)
    : events_(std::move(events)),
      stop_(std::move(stop)),
      changed_(std::move(changed)),
      thread_([this] { run(); }) {}

SourceWatch::~SourceWatch() {
  uint64_t one = 1;
  [[maybe_unused]] ssize_t n = write(stop_.get(), &one, sizeof one);
  thread_.join();
}

// Hands on all events that there are; whether there were any.
bool SourceWatch::drain(std::span<char> buffer) {
  ssize_t n;
  bool any = false;
  do {
    n = read(events_.get(), buffer.data(), buffer.size());
    if (n <= 0) break;
    any = true;
    for_each_event(buffer.first(static_cast<size_t>(n)), own_, changed_);
  } while (static_cast<size_t>(n) > buffer.size() - kLargestEvent);
  return any;
}

// A burst is looked at until it is over, without asking each time whether there is more.
void SourceWatch::run() {
  std::vector<char> buffer(64 * 1024);
  for (;;) {
    pollfd waits[] = {{stop_.get(), POLLIN, 0}, {events_.get(), POLLIN, 0}};
    if (poll(waits, 2, -1) < 0 && errno != EINTR) return;
    do {
      if (poll(waits, 1, kPauseMs) > 0) return;
    } while (drain(buffer));
  }
}

}  // namespace fs
