// The asynchronous C entry points.
#include "streams.h"

using namespace api;

namespace {

// The device a stream belongs to; the current one where the runtime does not say.
int device_of(const gpu::Runtime& runtime, hipStream_t stream) {
  int device = 0;
  auto handle = reinterpret_cast<hip::Stream>(stream);
  if (runtime.hip().hipStreamGetDevice && runtime.hip().hipStreamGetDevice(handle, &device) == hip::kSuccess)
    return device;
  runtime.hip().hipGetDevice(&device);
  return device;
}

hipFileError_t submit(engine::Direction direction, hipFileHandle_t fh, void* base, const AsyncParameters& p,
                      hipStream_t stream) {
  return guarded([&] {
    Driver& driver = Driver::instance();
    if (!driver.is_open()) {
      driver.open_implicitly();
      return failure(hipFileInvalidValue);
    }
    if (!base || !p.size || !p.file_offset || !p.buffer_offset || !p.bytes)
      return failure(hipFileInvalidValue);
    auto file = driver.find_file(fh);
    if (!file) return failure(hipFileHandleNotRegistered);
    auto buffer = driver.find_buffer(base);
    if (!buffer)
      return buffer.error().err == hipFileHipMemoryTypeInvalid ? failure(hipFileInternalError)
                                                               : buffer.error();
    const gpu::Memory memory = (*buffer)->memory;
    const size_t size = *p.size;
    const hoff_t file_offset = *p.file_offset, buffer_offset = *p.buffer_offset;
    if (file_offset < 0 || !lies_within(memory, buffer_offset, size)) return failure(hipFileInvalidValue);
    const int device = device_of(*driver.runtime(), stream);
    if (memory.kind == gpu::MemoryKind::device && memory.device != device)
      return failure(hipFileInvalidValue);
    *p.bytes = 0;
    if (size == 0) return success();
    Transfer transfer{direction,
                      std::move(file),
                      std::move(*buffer),
                      size,
                      static_cast<uint64_t>(file_offset),
                      static_cast<uint64_t>(buffer_offset)};
    driver.stats().page().async_submitted++;
    return enqueue(driver, std::move(transfer), p, StreamTable::instance().flags(stream), stream, device);
  });
}

}  // namespace

extern "C" {

hipFileError_t hipFileReadAsync(hipFileHandle_t fh, void* buffer_base, size_t* size_p, hoff_t* file_offset_p,
                                hoff_t* buffer_offset_p, ssize_t* bytes_read_p, hipStream_t stream) {
  return submit(engine::Direction::read, fh, buffer_base,
                {size_p, file_offset_p, buffer_offset_p, bytes_read_p}, stream);
}

hipFileError_t hipFileWriteAsync(hipFileHandle_t fh, void* buffer_base, size_t* size_p, hoff_t* file_offset_p,
                                 hoff_t* buffer_offset_p, ssize_t* bytes_written_p, hipStream_t stream) {
  return submit(engine::Direction::write, fh, buffer_base,
                {size_p, file_offset_p, buffer_offset_p, bytes_written_p}, stream);
}

hipFileError_t hipFileStreamRegister(hipStream_t stream, unsigned flags) {
  return guarded([&] { return StreamTable::instance().add(stream, flags); });
}

hipFileError_t hipFileStreamDeregister(hipStream_t stream) {
  return guarded([&] { return StreamTable::instance().remove(stream); });
}

}  // extern "C"
