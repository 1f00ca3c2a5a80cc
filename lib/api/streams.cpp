#include "streams.h"

#include <spdlog/spdlog.h>

#include <condition_variable>

namespace api {
namespace {

const char* name_of(engine::Direction direction) {
  return direction == engine::Direction::read ? "read" : "write";
}

// What the client is told of an outcome.
ssize_t told_result(engine::Direction direction, const engine::Outcome& outcome) {
  int error = 0;
  const ssize_t result = result_of(outcome, error);
  if (error) spdlog::warn("hipFile: asynchronous {}: {}", name_of(direction), strerror(error));
  return result;
}

// A graph would run the operation again when it is long gone.
bool is_captured(const gpu::Runtime& runtime, hip::Stream stream) {
  int status = 0;
  return runtime.hip().hipStreamIsCapturing &&
         runtime.hip().hipStreamIsCapturing(stream, &status) == hip::kSuccess && status != 0;
}

// Whether what is put into the stream would run at once. Of streams that wait for the null stream and it for them, a
// query does not tell.
bool is_idle(const gpu::Runtime& runtime, hip::Stream stream) {
  const auto& hip = runtime.hip();
  unsigned flags = 0;
  if (!hip.hipStreamGetFlags || !hip.hipStreamQuery || !stream) return false;
  const bool idle = hip.hipStreamGetFlags(stream, &flags) == hip::kSuccess &&
                    flags & hip::kStreamNonBlocking && hip.hipStreamQuery(stream) == hip::kSuccess;
  if (!idle) hip.hipGetLastError();  // that it is not is no error of the client's
  return idle;
}

// One operation on its way through a stream. The stream first runs begin(), which hands the work to the
// driver's threads and returns at once; then it waits, on a word in memory where the device can, otherwise in
// a host function, until the work is done. No HIP call is made inside a host function, and the threads use
// streams of their own, so nothing ever waits for the stream that waits for it.
class Operation : public std::enable_shared_from_this<Operation> {
 public:
  Operation(Driver& driver, Transfer transfer, const AsyncParameters& parameters, unsigned flags, int device)
      : driver_(driver),
        executor_(driver.executor()),
        transfer_(std::move(transfer)),
        parameters_(parameters),
        flags_(flags),
        device_(device) {}

  hipFileError_t enqueue(const gpu::Runtime& runtime, hip::Stream stream) {
    if (can_wait_on_memory(runtime)) signal_ = SignalPool::instance().take(runtime, device_);
    if (hip::Error e = launch(runtime, stream, &Operation::begin); e != hip::kSuccess) {
      if (signal_) SignalPool::instance().raise(device_, *signal_);
      return hip_failure(e);
    }
    if (signal_) {
      hip::Error e =
          runtime.hip().hipStreamWaitValue64(stream, signal_->word, signal_->value, hip::kWaitGte, ~0ull);
      if (e == hip::kSuccess) return success();
    }
    // The work is on its way, so the stream must wait for it one way or the other.
    hip::Error e = launch(runtime, stream, &Operation::wait);
    return e == hip::kSuccess ? success() : hip_failure(e);
  }

 private:
  using Step = void (Operation::*)();
  struct Launch {
    std::shared_ptr<Operation> operation;
    Step step;
  };

  // Not with CUDA: reads and writes in turn on one stream were seen to wait for ever there (H200, driver 580), which they
  // do not behind host functions.
  bool can_wait_on_memory(const gpu::Runtime& runtime) const {
    if (runtime.kind() == gpu::RuntimeKind::cuda) return false;
    if (!runtime.hip().hipStreamWaitValue64 || !runtime.hip().hipExtMallocWithFlags) return false;
    if (driver_.flag(hipFileParamStreamMemopsBypass)) return false;
    int can = 0;
    return runtime.hip().hipDeviceGetAttribute(&can, hip::kAttributeCanUseStreamWaitValue, device_) ==
               hip::kSuccess &&
           can;
  }

  static void run_launch(void* data) {
    std::unique_ptr<Launch> l(static_cast<Launch*>(data));
    (l->operation.get()->*l->step)();
  }

  hip::Error launch(const gpu::Runtime& runtime, hip::Stream stream, Step step) {
    auto l = std::make_unique<Launch>(Launch{shared_from_this(), step});
    hip::Error e = hip::kErrorNotSupported;
    if (runtime.hip().hipLaunchHostFunc)
      e = runtime.hip().hipLaunchHostFunc(stream, run_launch, l.get());
    else if (runtime.hip().hipStreamAddCallback)
      e = runtime.hip().hipStreamAddCallback(
          stream, [](hip::Stream, hip::Error, void* data) { run_launch(data); }, l.get(), 0);
    if (e == hip::kSuccess) [[maybe_unused]]
      auto* owned_by_the_stream = l.release();
    return e;
  }

  // On the runtime's own thread.
  void begin() {
    if (!bind_late_parameters()) return done(-hipFileInvalidValue);
    auto token = std::make_shared<engine::CancelToken>();
    executor_->submit([self = shared_from_this(), token] { self->run(*token); }, token, false,
                      source_of(transfer_));
  }

  bool bind_late_parameters() {
    const uint64_t submitted = transfer_.size;
    if (!(flags_ & HIPFILE_STREAM_FIXED_FILE_SIZE)) transfer_.size = *parameters_.size;
    hoff_t file_offset = static_cast<hoff_t>(transfer_.file_offset);
    hoff_t buffer_offset = static_cast<hoff_t>(transfer_.buffer_offset);
    if (!(flags_ & HIPFILE_STREAM_FIXED_FILE_OFFSET)) file_offset = *parameters_.file_offset;
    if (!(flags_ & HIPFILE_STREAM_FIXED_BUF_OFFSET)) buffer_offset = *parameters_.buffer_offset;
    if (transfer_.size > submitted || file_offset < 0 ||
        !lies_within(transfer_.buffer->memory, buffer_offset, transfer_.size))
      return false;
    transfer_.file_offset = static_cast<uint64_t>(file_offset);
    transfer_.buffer_offset = static_cast<uint64_t>(buffer_offset);
    return true;
  }

  void run(const engine::CancelToken& token) {
    ssize_t result = -hipFileInternalError;
    try {
      result = told_result(transfer_.direction, driver_.run(transfer_, token));
    } catch (const std::exception& e) {
      spdlog::error("hipFile: asynchronous {}: {}", name_of(transfer_.direction), e.what());
    }
    done(result);
  }

  void done(ssize_t result) {
    transfer_.file = {};
    transfer_.buffer = {};
    *parameters_.bytes = result;
    {
      std::lock_guard lock(mutex_);
      finished_ = true;
    }
    finished_changed_.notify_all();
    if (signal_) SignalPool::instance().raise(device_, *signal_);
  }

  void wait() {
    std::unique_lock lock(mutex_);
    finished_changed_.wait(lock, [this] { return finished_; });
  }

  Driver& driver_;
  const std::shared_ptr<engine::Executor> executor_;
  Transfer transfer_;
  const AsyncParameters parameters_;
  const unsigned flags_;
  const int device_;
  std::optional<SignalPool::Signal> signal_;
  std::mutex mutex_;
  std::condition_variable finished_changed_;
  bool finished_ = false;
};

}  // namespace

StreamTable& StreamTable::instance() {
  static auto* table = new StreamTable;
  return *table;
}

hipFileError_t StreamTable::add(hipStream_t stream, unsigned flags) {
  if (flags & ~static_cast<unsigned>(HIPFILE_STREAM_FLAGS_MASK)) return failure(hipFileInvalidValue);
  std::lock_guard lock(mutex_);
  return flags_.emplace(stream, flags).second ? success() : failure(hipFileInvalidValue);
}

hipFileError_t StreamTable::remove(hipStream_t stream) {
  std::lock_guard lock(mutex_);
  return flags_.erase(stream) ? success() : failure(hipFileInvalidValue);
}

unsigned StreamTable::flags(hipStream_t stream) const {
  std::lock_guard lock(mutex_);
  auto it = flags_.find(stream);
  return it == flags_.end() ? 0 : it->second;
}

SignalPool& SignalPool::instance() {
  static auto* pool = new SignalPool;
  return *pool;
}

std::optional<SignalPool::Signal> SignalPool::take(const gpu::Runtime& runtime, int device) {
  std::lock_guard lock(mutex_);
  auto& spare = spare_[device];
  if (spare.empty()) {
    void* word = nullptr;
    if (runtime.hip().hipExtMallocWithFlags(&word, sizeof(uint64_t), hip::kMallocSignalMemory) !=
        hip::kSuccess) {
      runtime.hip().hipGetLastError();
      return std::nullopt;
    }
    std::atomic_ref<uint64_t>(*static_cast<uint64_t*>(word)).store(0, std::memory_order_release);
    spare.push_back({static_cast<uint64_t*>(word), 0});
  }
  Signal signal = spare.back();
  spare.pop_back();
  signal.value++;
  return signal;
}

void SignalPool::raise(int device, Signal signal) {
  std::atomic_ref<uint64_t>(*signal.word).store(signal.value, std::memory_order_release);
  std::lock_guard lock(mutex_);
  spare_[device].push_back(signal);
}

hipFileError_t enqueue(Driver& driver, Transfer transfer, const AsyncParameters& parameters, unsigned flags,
                       hipStream_t stream, int device) {
  const auto runtime = driver.runtime();
  const auto handle = reinterpret_cast<hip::Stream>(stream);
  gpu::DeviceGuard guard(*runtime, device);
  if (guard.status() != hip::kSuccess) return hip_failure(guard.status());
  if (is_captured(*runtime, handle)) return hip_failure(hip::kErrorStreamCaptureUnsupported);
  driver.engine()->prepare(device);
  // A small read that waits for nothing takes less time than to go through the stream and two threads.
  if (transfer.direction == engine::Direction::read && transfer.size <= engine::kSmall &&
      is_idle(*runtime, handle))
    if (auto outcome = driver.run_at_once(transfer)) {
      *parameters.bytes = told_result(transfer.direction, *outcome);
      return success();
    }
  auto operation = std::make_shared<Operation>(driver, std::move(transfer), parameters, flags, device);
  return operation->enqueue(*runtime, handle);
}

}  // namespace api
