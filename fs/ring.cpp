#include "ring.h"

#include <liburing.h>
#include <poll.h>
#include <sched.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <future>
#include <system_error>

#include "cpu_list.h"

namespace fs {

// Requests of one CPU at once, those that wait included. An entry's memory is only there once it was used, and the kernel
// uses the one that came back last.
constexpr unsigned kDepth = 64;

/// One request at a time. The headers of a request are put together in front of its payload, where libfuse expects
/// them.
struct RingEntry {
  RingQueue* queue = nullptr;
  posix::Mapping header_memory, payload_memory;
  iovec parts[2] = {};

  kernel::RingRequestHeader& header() const {
    return *reinterpret_cast<kernel::RingRequestHeader*>(header_memory.data());
  }
  char* payload() const { return payload_memory.data() + kPage; }
  size_t payload_size() const { return payload_memory.size() - kPage; }
};

/// The queue of one CPU and the thread that serves it.
class RingQueue {
 public:
  RingQueue(Ring& ring, unsigned cpu)
      : ring_(ring), cpu_(cpu), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  ~RingQueue() { stop(); }
  RingQueue(const RingQueue&) = delete;
  RingQueue& operator=(const RingQueue&) = delete;

  posix::Result<void> prepare(size_t largest);
  void start(int device) {
    started_ = true;
    begin_.set_value(device);
  }
  void stop() {
    if (!thread_.joinable()) return;
    if (!started_) begin_.set_value(-1);
    stopping_ = true;
    wake();
    thread_.join();
  }
  /// From any thread: the entry holds its reply.
  void finish(RingEntry& entry) {
    if (std::this_thread::get_id() == thread_.get_id()) return submit(entry, kernel::kRingCommitAndFetch);
    {
      std::lock_guard lock(mutex_);
      finished_.push_back(&entry);
    }
    wake();
  }

 private:
  void wake() const {
    uint64_t one = 1;
    [[maybe_unused]] ssize_t n = write(wake_.get(), &one, sizeof one);
  }
  void run(std::promise<int>& prepared);
  void serve_until_stopped();
  io_uring_sqe& next_slot();
  void submit(RingEntry& entry, uint32_t command);
  void watch_wakes();
  void commit_finished();
  void serve(RingEntry& entry);
  void give_up(int error) const;

  Ring& ring_;
  const unsigned cpu_;
  posix::Fd wake_;  ///< an eventfd: there are finished entries, or it is time to stop
  std::atomic<bool> stopping_{false};
  io_uring uring_{};
  int device_ = -1;
  bool started_ = false;
  std::promise<int> begin_;
  std::mutex mutex_;
  std::vector<RingEntry*> finished_;
  std::vector<RingEntry> entries_;
  std::thread thread_;
};

namespace {

void fill(RingEntry& entry, const iovec* parts, int count) {
  kernel::RingRequestHeader& header = entry.header();
  auto out = *static_cast<const kernel::OutHeader*>(parts[0].iov_base);
  size_t size = 0;
  for (int i = 1; i < count; i++) {
    if (size + parts[i].iov_len > entry.payload_size()) {
      out.error = -EIO;
      size = 0;
      break;
    }
    memmove(entry.payload() + size, parts[i].iov_base, parts[i].iov_len);
    size += parts[i].iov_len;
  }
  out.len = static_cast<uint32_t>(sizeof out + size);
  memcpy(header.in_out, &out, sizeof out);
  header.entry.payload_size = static_cast<uint32_t>(size);
}

}  // namespace

posix::Result<void> RingQueue::prepare(size_t largest) {
  entries_ = std::vector<RingEntry>(kDepth);
  for (RingEntry& entry : entries_) {
    auto header = posix::Mapping::anonymous(kPage), payload = posix::Mapping::anonymous(kPage + largest);
    if (!header) return tl::unexpected(header.error());
    if (!payload) return tl::unexpected(payload.error());
    entry.queue = this;
    entry.header_memory = std::move(*header);
    entry.payload_memory = std::move(*payload);
    entry.parts[0] = {entry.header_memory.data(), sizeof(kernel::RingRequestHeader)};
    entry.parts[1] = {entry.payload(), entry.payload_size()};
  }
  std::promise<int> prepared;
  auto result = prepared.get_future();
  try {
    thread_ = std::thread([this, &prepared] { run(prepared); });
  } catch (const std::system_error& e) {
    return posix::failure(e.code().value(), "thread for FUSE over io_uring");
  }
  if (int error = -result.get()) return posix::failure(error, "io_uring for FUSE");
  return {};
}

// The ring is made by the thread that uses it: the kernel then needs no locks for it.
void RingQueue::run(std::promise<int>& prepared) {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CPU_SET(cpu_, &cpus);
  sched_setaffinity(0, sizeof cpus, &cpus);  // an offline CPU's thread may run anywhere
  io_uring_params params{};
  params.flags = IORING_SETUP_SQE128 | IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN;
  const int status = io_uring_queue_init_params(2 * kDepth + 2, &uring_, &params);
  auto begin = begin_.get_future();
  prepared.set_value(status);
  if (status < 0) return;
  device_ = begin.get();
  if (device_ >= 0) serve_until_stopped();
  io_uring_queue_exit(&uring_);
}

// There is always one: an entry has at most one command in the ring.
io_uring_sqe& RingQueue::next_slot() {
  io_uring_sqe* sqe = io_uring_get_sqe(&uring_);
  if (!sqe) std::abort();
  memset(static_cast<void*>(sqe), 0, 128);  // IORING_SETUP_SQE128
  return *sqe;
}

void RingQueue::submit(RingEntry& entry, uint32_t command) {
  io_uring_sqe* sqe = &next_slot();
  sqe->opcode = IORING_OP_URING_CMD;
  sqe->fd = device_;
  sqe->cmd_op = command;
  if (command == kernel::kRingRegister) {
    sqe->addr = reinterpret_cast<uint64_t>(entry.parts);
    sqe->len = 2;
  }
  const kernel::RingCommand arguments{0,
                                      command == kernel::kRingRegister ? 0 : entry.header().entry.commit_id,
                                      static_cast<uint16_t>(cpu_),
                                      {}};
  memcpy(sqe->cmd, &arguments, sizeof arguments);
  io_uring_sqe_set_data(sqe, &entry);
}

void RingQueue::watch_wakes() {
  io_uring_sqe* sqe = &next_slot();
  io_uring_prep_poll_add(sqe, wake_.get(), POLLIN);
  io_uring_sqe_set_data(sqe, nullptr);
}

void RingQueue::commit_finished() {
  uint64_t count;
  [[maybe_unused]] ssize_t n = read(wake_.get(), &count, sizeof count);
  std::vector<RingEntry*> finished;
  {
    std::lock_guard lock(mutex_);
    finished.swap(finished_);
  }
  for (RingEntry* entry : finished) submit(*entry, kernel::kRingCommitAndFetch);
}

void RingQueue::serve(RingEntry& entry) {
  kernel::RingRequestHeader& header = entry.header();
  kernel::InHeader in;
  memcpy(&in, header.in_out, sizeof in);
  const size_t fixed = in.len - sizeof in - header.entry.payload_size;
  char* const request = entry.payload() - fixed - sizeof in;
  memcpy(request, &in, sizeof in);
  memcpy(request + sizeof in, header.op_in, fixed);
  ring_.expect_answer(in.unique, entry);
  ring_.serve_({request, in.len});  // whoever answers passes the entry on
}

// Half a mount would leave the requests of one CPU waiting for ever.
void RingQueue::give_up(int error) const {
  spdlog::error("FUSE queue {}: {}; ending", cpu_, strerror(error));
  kill(getpid(), SIGTERM);
}

void RingQueue::serve_until_stopped() {
  for (RingEntry& entry : entries_) submit(entry, kernel::kRingRegister);
  watch_wakes();
  while (!stopping_) {
    const int status = io_uring_submit_and_wait(&uring_, 1);
    if (status == -EAGAIN || status == -EBUSY)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    else if (status < 0 && status != -EINTR)
      return give_up(-status);
    io_uring_cqe* cqe;
    while (io_uring_peek_cqe(&uring_, &cqe) == 0) {
      auto* entry = static_cast<RingEntry*>(io_uring_cqe_get_data(cqe));
      const int result = cqe->res;
      io_uring_cqe_seen(&uring_, cqe);
      if (!entry) {
        commit_finished();
        watch_wakes();
      } else if (result == 0) {
        serve(*entry);
      } else if (result == -EAGAIN || result == -EINTR) {
        submit(*entry, kernel::kRingCommitAndFetch);
      } else {
        if (result != -ENOTCONN && result != -ECONNABORTED && !stopping_) give_up(-result);
        return;  // the mount is gone
      }
      // An answer does not wait for the next request to be served. The last one goes with the call that waits.
      if (io_uring_cq_ready(&uring_) > 0) io_uring_submit(&uring_);
    }
  }
  io_uring_submit(&uring_);  // what was answered before it was time to stop
}

posix::Result<std::unique_ptr<Ring>> Ring::create(size_t largest, ServeRequest serve) {
  std::unique_ptr<Ring> ring(new Ring(std::move(serve)));
  // The kernel waits for a queue of every CPU that there could be.
  const auto possible = cpus("possible");
  if (possible.empty()) return posix::failure(ENOENT, "CPUs in /sys");
  for (unsigned cpu = 0; cpu < possible.size(); cpu++) {
    ring->queues_.push_back(std::make_unique<RingQueue>(*ring, cpu));
    if (auto prepared = ring->queues_.back()->prepare(largest); !prepared)
      return tl::unexpected(prepared.error());
  }
  return ring;
}

Ring::Ring(ServeRequest serve) : serve_(std::move(serve)) {}

Ring::~Ring() = default;

void Ring::start(int device) {
  for (auto& queue : queues_) queue->start(device);
}

void Ring::expect_answer(uint64_t unique, RingEntry& entry) {
  Shard& shard = shard_of(unique);
  std::lock_guard lock(shard.mutex);
  shard.entries.emplace_back(unique, &entry);
}

RingEntry* Ring::take(uint64_t unique) {
  Shard& shard = shard_of(unique);
  std::lock_guard lock(shard.mutex);
  auto it =
      std::find_if(shard.entries.begin(), shard.entries.end(), [=](auto& e) { return e.first == unique; });
  if (it == shard.entries.end()) return nullptr;
  RingEntry* entry = it->second;
  shard.entries.erase(it);
  return entry;
}

void Ring::stop() {
  for (auto& queue : queues_) queue->stop();
}

bool Ring::answer(const iovec* parts, int count) {
  const auto& out = *static_cast<const kernel::OutHeader*>(parts[0].iov_base);
  if (out.unique == 0) return false;  // a notification
  RingEntry* entry = take(out.unique);
  if (!entry) return false;
  fill(*entry, parts, count);
  entry->queue->finish(*entry);
  return true;
}

}  // namespace fs
