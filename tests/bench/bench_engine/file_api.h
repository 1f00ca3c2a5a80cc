// hipFile, or what speaks its language: AMD's own library, and cuFile with other names for the same calls.
#pragma once

#include <hipfile_ext.h>

#include <string>

#include "posix/error.h"

namespace bench {

/// Entry points of a library that was found at run time; those that it lacks are null.
struct FileApi {
  static constexpr const char* kOurs = "hipFile";

  /// `prefix` of the names: "hipFile" or "cuFile". Opens the driver, and fails with what it says to that.
  static posix::Result<FileApi> load(const std::string& path, const std::string& prefix);

  std::string prefix;
  decltype(&hipFileDriverOpen) driver_open = nullptr;
  decltype(&hipFileHandleRegister) handle_register = nullptr;
  decltype(&hipFileHandleDeregister) handle_deregister = nullptr;
  decltype(&hipFileBufRegister) buffer_register = nullptr;
  decltype(&hipFileBufDeregister) buffer_deregister = nullptr;
  decltype(&hipFileRead) read = nullptr;
  decltype(&hipFileWrite) write = nullptr;
  decltype(&hipFileReadAsync) read_async = nullptr;
  decltype(&hipFileWriteAsync) write_async = nullptr;
  decltype(&hipFileStreamRegister) stream_register = nullptr;
  decltype(&hipFileStreamDeregister) stream_deregister = nullptr;
  decltype(&hipFileBatchIOSetUp) batch_set_up = nullptr;
  decltype(&hipFileBatchIOSubmit) batch_submit = nullptr;
  decltype(&hipFileBatchIOGetStatus) batch_get_status = nullptr;
  decltype(&hipFileBatchIODestroy) batch_destroy = nullptr;
  decltype(&hipFileLastOutcome) last_outcome = nullptr;  ///< only in this project's library

  /// Nothing if the call succeeded.
  posix::Result<void> check(const char* call, hipFileError_t error) const;
  /// For what read and write return, and batch events and asynchronous calls report.
  posix::Error failure(const char* call, ssize_t result) const;
};

}  // namespace bench
