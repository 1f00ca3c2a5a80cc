#include "batch.h"

#include <algorithm>

namespace api {
namespace {

// Small operations share a job, so that handing them over costs less than carrying them out.
constexpr uint64_t kPartBytes = 1 << 20;

bool follows(const Transfer& a, const Transfer& b) {
  return a.direction == b.direction && a.file.operator->() == b.file.operator->() &&
         a.buffer->memory.address == b.buffer->memory.address && a.file_offset + a.size == b.file_offset &&
         a.buffer_offset + a.size == b.buffer_offset;
}

}  // namespace

// The operation behind `before`. A file or a buffer that was named for the last of those need not be looked up again.
tl::expected<Transfer, hipFileError_t> BatchContext::check(const hipFileIOParams_t* params,
                                                           const Part& before) const {
  const size_t i = before.size();
  const hipFileIOParams_t& p = params[i];
  if (p.mode != hipFileBatch || (p.opcode != hipFileBatchRead && p.opcode != hipFileBatchWrite))
    return tl::unexpected(failure(hipFileInvalidValue));
  const auto& b = p.u.batch;
  const Transfer* last = i > 0 ? &before.back()->transfer : nullptr;
  auto file = last && params[i - 1].fh == p.fh ? last->file : driver_.find_file(p.fh);
  if (!file) return tl::unexpected(failure(hipFileHandleNotRegistered));
  using Found = tl::expected<Use<RegisteredBuffer>, hipFileError_t>;
  const bool same_buffer = last && params[i - 1].u.batch.devPtr_base == b.devPtr_base;
  auto buffer = same_buffer ? Found(last->buffer) : driver_.find_buffer(b.devPtr_base);
  if (!buffer) return tl::unexpected(buffer.error());
  if (b.file_offset < 0 || !lies_within((*buffer)->memory, b.devPtr_offset, b.size))
    return tl::unexpected(failure(hipFileInvalidValue));
  return Transfer{p.opcode == hipFileBatchRead ? engine::Direction::read : engine::Direction::write,
                  std::move(file),
                  std::move(*buffer),
                  b.size,
                  static_cast<uint64_t>(b.file_offset),
                  static_cast<uint64_t>(b.devPtr_offset)};
}

// Small neighbours share a job; a job waits for one file system only.
std::vector<BatchContext::Job> BatchContext::jobs_of(const Part& operations) {
  std::vector<Job> jobs;
  uint64_t bytes = 0;
  for (const auto& operation : operations) {
    const auto source = source_of(operation->transfer);
    if (jobs.empty() || jobs.back().first != source || bytes >= kPartBytes) {
      jobs.emplace_back(source, Part());
      bytes = 0;
    }
    bytes += operation->size;
    jobs.back().second.push_back(operation);
  }
  return jobs;
}

hipFileError_t BatchContext::submit(const hipFileIOParams_t* params, unsigned count) {
  std::optional<Clock::time_point> deadline;
  if (size_t timeout = driver_.size(hipFileParamPropertiesBatchIOTimeoutMs))
    deadline = Clock::now() + std::chrono::milliseconds(timeout);
  std::vector<std::shared_ptr<Operation>> operations;
  operations.reserve(count);
  for (unsigned i = 0; i < count; i++) {
    auto transfer = check(params, operations);
    if (!transfer) return transfer.error();
    auto operation = std::make_shared<Operation>();
    operation->direction = transfer->direction;
    operation->size = transfer->size;
    operation->transfer = std::move(*transfer);
    operation->cookie = params[i].cookie;
    operation->deadline = deadline;
    operations.push_back(std::move(operation));
  }
  {
    std::lock_guard lock(mutex_);
    if (outstanding_.size() + ended_.size() + count > capacity_) return failure(hipFileBatchFull);
    timed_ |= deadline.has_value();
    for (const auto& operation : operations) add(operation);
  }
  driver_.stats().page().batch_enqueued.ok += count;
  auto jobs = run_at_once(operations);
  if (jobs.empty()) return success();
  auto executor = driver_.executor();
  for (auto& [source, part] : jobs) {
    auto token = std::make_shared<engine::CancelToken>();
    executor->submit(
        [self = shared_from_this(), part = std::move(part), token] { self->run_part(part, *token); }, token,
        false, source);
  }
  return success();
}

// What waits for no disk is done when it is submitted, as by io_uring: to wake a thread and to be woken takes longer.
// Returns what is left to do.
std::vector<BatchContext::Job> BatchContext::run_at_once(const Part& operations) {
  Runs runs = start_all(operations, engine::kSmall);
  std::vector<std::optional<engine::Outcome>> outcomes(runs.transfers.size());
  try {
    outcomes = driver_.run_all_at_once(runs.transfers);
  } catch (const std::bad_alloc&) {
  }
  Part left;
  for (size_t i = 0; i < outcomes.size(); i++) {
    if (outcomes[i]) continue;
    Transfer transfer = std::move(runs.transfers[i]);
    for (const auto& operation : runs.run(i)) {
      transfer.size = operation->size;
      operation->transfer = transfer;
      transfer.file_offset += operation->size;
      transfer.buffer_offset += operation->size;
      left.push_back(operation);
    }
  }
  runs.transfers.clear();  // whoever sees the events may deregister buffers and files at once
  {
    std::lock_guard lock(mutex_);
    for (size_t i = 0; i < outcomes.size(); i++)
      if (outcomes[i]) end_run(runs.run(i), *outcomes[i]);
  }
  auto jobs = jobs_of(left);
  put_off(left);
  return jobs;
}

void BatchContext::run_part(const Part& part, const engine::CancelToken& token) {
  Runs runs = start_all(part, UINT64_MAX);
  std::vector<engine::Outcome> outcomes;
  try {
    outcomes = driver_.run_all(runs.transfers, token);
  } catch (...) {  // the operations fail with an internal error
  }
  engine::Outcome not_run;  // as where no route is left
  not_run.error = EOPNOTSUPP;
  outcomes.resize(runs.transfers.size(), not_run);
  runs.transfers.clear();  // as above
  std::lock_guard lock(mutex_);
  for (size_t i = 0; i < outcomes.size(); i++) end_run(runs.run(i), outcomes[i]);
}

// Those that were not cancelled and have time left: from here on nobody else ends them.
BatchContext::Runs BatchContext::start_all(const Part& part, uint64_t longest) {
  Runs runs;
  runs.operations.reserve(part.size());
  runs.ends.reserve(part.size());
  runs.transfers.reserve(part.size());
  std::lock_guard lock(mutex_);
  const auto now = Clock::now();
  for (const auto& operation : part) {
    if (!start(*operation, now)) continue;
    runs.operations.push_back(operation);
    Transfer transfer = std::move(operation->transfer);
    Transfer* last = runs.transfers.empty() ? nullptr : &runs.transfers.back();
    if (last && follows(*last, transfer) && last->size + transfer.size <= longest) {
      last->size += transfer.size;
      runs.ends.back()++;
    } else {
      runs.transfers.push_back(std::move(transfer));
      runs.ends.push_back(runs.operations.size());
    }
  }
  return runs;
}

void BatchContext::put_off(const Part& operations) {
  std::lock_guard lock(mutex_);
  for (const auto& operation : operations) operation->state = State::waiting;
}

bool BatchContext::start(Operation& operation, Clock::time_point now) {
  if (operation.state != State::waiting) return false;
  if (operation.deadline && now > *operation.deadline) {
    end(operation, hipFileTimeout, 0);
    return false;
  }
  operation.state = State::running;
  return true;
}

// An error belongs to the operations behind the last byte that was moved: those before are complete, and the one in
// which it happened is short.
void BatchContext::end_run(Run run, const engine::Outcome& outcome) {
  engine::Outcome of_the_rest = outcome;
  of_the_rest.bytes = 0;
  int error = 0;
  const ssize_t rest = result_of(of_the_rest, error);
  auto& page = driver_.stats().page();
  uint64_t left = outcome.bytes;
  for (const auto& operation : run) {
    const uint64_t share = std::min(left, operation->size);
    left -= share;
    (operation->direction == engine::Direction::read ? page.batch_read_bytes : page.batch_write_bytes) +=
        share;
    const bool failed = rest < 0 && share == 0 && operation->size > 0;
    (failed ? page.batch_processed.err : page.batch_processed.ok)++;
    if (failed)
      end(*operation, hipFileFailed, error ? -error : rest);
    else
      end(*operation, hipFileComplete, static_cast<ssize_t>(share));
  }
}

void BatchContext::add(std::shared_ptr<Operation> operation) {
  operation->place = outstanding_.size();
  outstanding_.push_back(std::move(operation));
}

// Who waits is told once it is worth it, not of each operation.
void BatchContext::end(Operation& operation, hipFileStatus_t status, ssize_t result) {
  operation.state = State::ended;
  operation.transfer = {};
  ended_.push_back({operation.cookie, status, static_cast<size_t>(result)});
  const size_t place = operation.place;
  outstanding_.back()->place = place;
  std::swap(outstanding_[place], outstanding_.back());
  outstanding_.pop_back();  // with it, perhaps, the operation
  if (ended_.size() < awaited_ && !outstanding_.empty()) return;
  awaited_ = SIZE_MAX;
  changed_.notify_all();
}

template <typename Ending>
void BatchContext::end_waiting(Ending ending) {
  for (size_t i = outstanding_.size();
       i-- > 0;)  // from the end: the last one takes the place of one that ends
    if (outstanding_[i]->state == State::waiting)
      if (std::optional<hipFileStatus_t> status = ending(*outstanding_[i])) end(*outstanding_[i], *status, 0);
}

std::optional<BatchContext::Clock::time_point> BatchContext::next_expiry() const {
  std::optional<Clock::time_point> next;
  if (!timed_) return next;
  for (const auto& o : outstanding_)
    if (o->state == State::waiting && o->deadline && (!next || *o->deadline < *next)) next = o->deadline;
  return next;
}

unsigned BatchContext::fetch(unsigned least, unsigned most, hipFileIOEvents_t* events,
                             const std::optional<Clock::time_point>& deadline) {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (timed_)  // what waited too long ends now, whether a thread has come to it or not
      end_waiting([now = Clock::now()](const Operation& o) {
        return o.deadline && now > *o.deadline ? std::optional(hipFileTimeout) : std::nullopt;
      });
    if (ended_.size() >= least || outstanding_.empty()) break;
    if (deadline && Clock::now() >= *deadline) break;
    std::optional<Clock::time_point> wake = next_expiry();
    if (deadline && (!wake || *deadline < *wake)) wake = deadline;
    awaited_ = std::min<size_t>(awaited_, least);
    if (wake)
      changed_.wait_until(lock, *wake + std::chrono::microseconds(1));
    else
      changed_.wait(lock);
  }
  unsigned count = 0;
  for (; count < most && !ended_.empty(); count++) {
    events[count] = ended_.front();
    ended_.pop_front();
  }
  return count;
}

void BatchContext::cancel() {
  std::lock_guard lock(mutex_);
  end_waiting([](const Operation&) { return std::optional(hipFileCanceled); });
}

void BatchContext::finish() {
  cancel();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return outstanding_.empty(); });
}

BatchTable::BatchTable() {
  Driver::instance().on_close([this] {
    std::map<hipFileBatchHandle_t, std::shared_ptr<BatchContext>> all;
    {
      std::lock_guard lock(mutex_);
      all.swap(batches_);
    }
    for (auto& [handle, batch] : all) batch->finish();
  });
}

BatchTable& BatchTable::instance() {
  static auto* table = new BatchTable;
  return *table;
}

hipFileBatchHandle_t BatchTable::add(unsigned capacity) {
  auto batch = std::make_shared<BatchContext>(Driver::instance(), capacity);
  std::lock_guard lock(mutex_);
  last_ += 16;
  auto handle = reinterpret_cast<hipFileBatchHandle_t>(last_);  // NOLINT(performance-no-int-to-ptr)
  batches_.emplace(handle, std::move(batch));
  return handle;
}

std::shared_ptr<BatchContext> BatchTable::find(hipFileBatchHandle_t handle) const {
  std::lock_guard lock(mutex_);
  auto it = batches_.find(handle);
  return it == batches_.end() ? nullptr : it->second;
}

std::shared_ptr<BatchContext> BatchTable::remove(hipFileBatchHandle_t handle) {
  std::lock_guard lock(mutex_);
  auto it = batches_.find(handle);
  if (it == batches_.end()) return nullptr;
  auto batch = std::move(it->second);
  batches_.erase(it);
  return batch;
}

}  // namespace api
