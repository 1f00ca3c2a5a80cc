#include "hipfile.h"

extern "C" const char* hipFileGetOpErrorString(hipFileOpError_t status) {
  switch (static_cast<int>(status)) {
    case hipFileSuccess:
      return "success";
    case hipFileDriverNotInitialized:
      return "the hipFile driver is not open";
    case hipFileDriverInvalidProps:
      return "invalid driver properties";
    case hipFileDriverUnsupportedLimit:
      return "a driver property is out of range";
    case hipFileDriverVersionMismatch:
      return "driver version mismatch";
    case hipFileDriverVersionReadError:
      return "driver version cannot be read";
    case hipFileDriverClosing:
      return "the hipFile driver is closing or closed";
    case hipFilePlatformNotSupported:
      return "platform not supported";
    case hipFileIONotSupported:
      return "I/O not supported on this file";
    case hipFileDeviceNotSupported:
      return "GPU not supported";
    case hipFileDriverError:
      return "driver error";
    case hipFileHipDriverError:
      return "a HIP call failed";
    case hipFileHipPointerInvalid:
      return "invalid HIP pointer";
    case hipFileHipMemoryTypeInvalid:
      return "memory of a type that HIP cannot use here";
    case hipFileHipPointerRangeError:
      return "the range leaves the HIP allocation";
    case hipFileHipContextMismatch:
      return "HIP context mismatch";
    case hipFileInvalidMappingSize:
      return "size beyond the pinned memory limit";
    case hipFileInvalidMappingRange:
      return "offset beyond the pinned memory limit";
    case hipFileInvalidFileType:
      return "unsupported file type";
    case hipFileInvalidFileOpenFlag:
      return "unsupported open flags";
    case hipFileDIONotSet:
      return "O_DIRECT is not set";
    case hipFileInvalidValue:
      return "invalid argument";
    case hipFileMemoryAlreadyRegistered:
      return "memory is already registered";
    case hipFileMemoryNotRegistered:
      return "memory is not registered";
    case hipFilePermissionDenied:
      return "permission denied";
    case hipFileDriverAlreadyOpen:
      return "the hipFile driver is already open";
    case hipFileHandleNotRegistered:
      return "file handle is not registered";
    case hipFileHandleAlreadyRegistered:
      return "file handle is already registered";
    case hipFileDeviceNotFound:
      return "GPU not found";
    case hipFileInternalError:
      return "internal error";
    case hipFileGetNewFDFailed:
      return "no new file descriptor can be had";
    case hipFileDriverSetupError:
      return "driver set-up failed";
    case hipFileIODisabled:
      return "I/O is disabled by configuration";
    case hipFileBatchSubmitFailed:
      return "batch submission failed";
    case hipFileGPUMemoryPinningFailed:
      return "GPU memory cannot be pinned";
    case hipFileBatchFull:
      return "batch is full";
    case hipFileAsyncNotSupported:
      return "asynchronous I/O not supported";
    case hipFileIOMaxError:
      return "largest error number";
    default:
      return "unknown hipFile error";
  }
}

extern "C" const char* hipFileOpStatusError(hipFileOpError_t status) {
  return hipFileGetOpErrorString(status);
}
