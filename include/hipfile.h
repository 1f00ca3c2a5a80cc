/* SPDX-License-Identifier: MIT
 *
 * The public C API of libhipfile.so.0, binary compatible with AMD's hipFile 0.5 (ROCm 10.1).
 *
 * Every function may be called from any thread at any time. Functions that return hipFileError_t report
 * failures of HIP calls as {hipFileHipDriverError, the HIP error} and all others with hip_drv_err =
 * hipSuccess.
 *
 * The header needs HIP's own for two types, hipError_t and hipStream_t. Where it is not installed, or with
 * HIPFILE_NO_HIP_HEADER defined, it declares them itself.
 */
#ifndef HIPFILE_H
#define HIPFILE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <time.h>

#if !defined(HIPFILE_NO_HIP_HEADER) && defined(__has_include)
#if __has_include(<hip/hip_runtime_api.h>)
#define HIPFILE_HAS_HIP_HEADER 1
#endif
#endif
#ifdef HIPFILE_HAS_HIP_HEADER
#if !defined(__HIP_PLATFORM_AMD__) && !defined(__HIP_PLATFORM_NVIDIA__) && !defined(__HIP_PLATFORM_HCC__)
#define __HIP_PLATFORM_AMD__
#endif
#include <hip/hip_runtime_api.h>
#else
typedef enum hipError_t { hipSuccess = 0, hipErrorUnknown = 999 } hipError_t;
typedef struct ihipStream_t* hipStream_t;
#endif

#define HIPFILE_VERSION_MAJOR 0
#define HIPFILE_VERSION_MINOR 5
#define HIPFILE_VERSION_PATCH 0

#define HIPFILE_BASE_ERR 5000
#define IS_HIPFILE_ERR(e) (abs((int)(e)) > HIPFILE_BASE_ERR)
#define HIPFILE_ERRSTR(e) hipFileGetOpErrorString((hipFileOpError_t)abs((int)(e)))
#ifndef IS_HIP_DRV_ERR
#define IS_HIP_DRV_ERR(e) ((e).err == hipFileHipDriverError)
#endif
#ifndef HIP_DRV_ERR
#define HIP_DRV_ERR(e) ((e).hip_drv_err)
#endif

#define HIPFILE_RDMA_REGISTER 1
#define HIPFILE_RDMA_RELAXED_ORDERING (1 << 1)

#ifdef __GNUC__
#define HIPFILE_API __attribute__((visibility("default")))
#else
#define HIPFILE_API
#endif
#if (defined(__cplusplus) && __cplusplus >= 201703L) || \
    (defined(__STDC_VERSION__) && __STDC_VERSION__ >= 202311L)
#define HIPFILE_NODISCARD_ [[nodiscard]]
#else
#define HIPFILE_NODISCARD_
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef off_t hoff_t;

typedef enum hipFileOpError {
  hipFileSuccess = 0,
  hipFileDriverNotInitialized = 5001,
  hipFileDriverInvalidProps = 5002,
  hipFileDriverUnsupportedLimit = 5003,
  hipFileDriverVersionMismatch = 5004,
  hipFileDriverVersionReadError = 5005,
  hipFileDriverClosing = 5006,
  hipFilePlatformNotSupported = 5007,
  hipFileIONotSupported = 5008,
  hipFileDeviceNotSupported = 5009,
  hipFileDriverError = 5010,
  hipFileHipDriverError = 5011,
  hipFileHipPointerInvalid = 5012,
  hipFileHipMemoryTypeInvalid = 5013,
  hipFileHipPointerRangeError = 5014,
  hipFileHipContextMismatch = 5015,
  hipFileInvalidMappingSize = 5016,
  hipFileInvalidMappingRange = 5017,
  hipFileInvalidFileType = 5018,
  hipFileInvalidFileOpenFlag = 5019,
  hipFileDIONotSet = 5020,
  hipFileInvalidValue = 5022,
  hipFileMemoryAlreadyRegistered = 5023,
  hipFileMemoryNotRegistered = 5024,
  hipFilePermissionDenied = 5025,
  hipFileDriverAlreadyOpen = 5026,
  hipFileHandleNotRegistered = 5027,
  hipFileHandleAlreadyRegistered = 5028,
  hipFileDeviceNotFound = 5029,
  hipFileInternalError = 5030,
  hipFileGetNewFDFailed = 5031,
  hipFileDriverSetupError = 5033,
  hipFileIODisabled = 5034,
  hipFileBatchSubmitFailed = 5035,
  hipFileGPUMemoryPinningFailed = 5036,
  hipFileBatchFull = 5037,
  hipFileAsyncNotSupported = 5038,
  hipFileIOMaxError = 5039
} hipFileOpError_t;

typedef struct HIPFILE_NODISCARD_ hipFileError {
  hipFileOpError_t err;
  hipError_t hip_drv_err;
} hipFileError_t;

typedef enum hipFileFileHandleType {
  hipFileHandleTypeOpaqueFD = 1,
  hipFileHandleTypeOpaqueWin32 = 2,
  hipFileHandleTypeUserspaceFS = 3
} hipFileFileHandleType_t;

typedef struct hipFileRDMAInfo {
  int version;
  int desc_len;
  const char* desc_str;
} hipFileRDMAInfo_t;

/** Callbacks of a user-space file system. Accepted in descriptors; no route uses them. */
typedef struct hipFileFSOps {
  const char* (*fs_type)(void* handle);
  int (*getRDMADeviceList)(void* handle, struct sockaddr** hostaddrs);
  int (*getRDMADevicePriority)(void* handle, char*, size_t, hoff_t, struct sockaddr* hostaddr);
  ssize_t (*read)(void* handle, char*, size_t, hoff_t, hipFileRDMAInfo_t*);
  ssize_t (*write)(void* handle, const char*, size_t, hoff_t, hipFileRDMAInfo_t*);
} hipFileFSOps_t;

typedef struct hipFileDescr {
  hipFileFileHandleType_t type;
  union {
    int fd;      /**< hipFileHandleTypeOpaqueFD */
    void* hFile; /**< hipFileHandleTypeOpaqueWin32 */
  } handle;
  const hipFileFSOps_t* fs_ops;
} hipFileDescr_t;

typedef void* hipFileHandle_t;

/** A text for an error code; a generic one for numbers that are none. Never NULL; the text is static. */
HIPFILE_API const char* hipFileGetOpErrorString(hipFileOpError_t status);

/**
 * Opens the driver: reference-counted, always succeeds.
 */
HIPFILE_API hipFileError_t hipFileDriverOpen(void);
/**
 * Gives one reference back; with the last one all buffers and handles are forgotten.
 * hipFileDriverNotInitialized: it is not open.
 */
HIPFILE_API hipFileError_t hipFileDriverClose(void);
/** References held now; 0 when the driver is closed. */
HIPFILE_API int64_t hipFileUseCount(void);
/** The version of this API. Pointers may be NULL. Does not open the driver. */
HIPFILE_API hipFileError_t hipFileGetVersion(unsigned* major, unsigned* minor, unsigned* patch);

/**
 * Registers an open file. The descriptor stays the caller's and may be closed at any time: the library holds
 * its own. Opens the driver if it is not. hipFileInvalidValue             fh or descr is NULL
 *   hipFileIONotSupported           a type other than hipFileHandleTypeOpaqueFD
 *   hipFileHandleAlreadyRegistered  this very descriptor is registered
 *   hipFileGetNewFDFailed           no file descriptor is free
 *   hipFileInternalError            not an open descriptor, or it cannot be examined
 */
HIPFILE_API hipFileError_t hipFileHandleRegister(hipFileHandle_t* fh, hipFileDescr_t* descr);
/** Forgets a handle. Unknown handles, and handles with I/O in flight, are left alone. */
HIPFILE_API void hipFileHandleDeregister(hipFileHandle_t fh);

/**
 * Registers GPU memory: [buffer_base, buffer_base + length) must lie in one allocation. Pinned and managed
 * host memory is taken as well. `flags` are HIPFILE_RDMA_* and have no effect. Opens the driver if it is not.
 *   hipFileInvalidValue             buffer_base is NULL, or not known to HIP
 *   hipFileHipMemoryTypeInvalid     pageable host memory
 *   hipFileHipPointerRangeError     the range leaves the allocation
 *   hipFileMemoryAlreadyRegistered  buffer_base is registered
 */
HIPFILE_API hipFileError_t hipFileBufRegister(const void* buffer_base, size_t length, int flags);
/**
 * Forgets a buffer.
 *   hipFileDriverClosing        the driver is not open
 *   hipFileMemoryNotRegistered  buffer_base is not registered
 *   hipFileInternalError        I/O on it is in flight
 */
HIPFILE_API hipFileError_t hipFileBufDeregister(const void* buffer_base);

/**
 * Reads `size` bytes at file_offset into buffer_base + buffer_offset. The buffer need not be registered: any
 * pointer into device memory will do. Returns the bytes read, fewer than `size` at end of file, and at most
 * 2147479552 (0x7ffff000) in one call; -1 with errno set for errors of the file and for negative offsets or a
 * driver that is not open (EINVAL); otherwise the negative of a hipFileOpError_t: hipFileHandleNotRegistered
 * unknown handle hipFileInvalidValue          buffer unknown, or the range leaves it
 *   hipFileHipMemoryTypeInvalid  pageable host memory
 *   hipFileHipDriverError        a HIP call failed
 *   hipFileInternalError         no route is left
 */
HIPFILE_API ssize_t hipFileRead(hipFileHandle_t fh, void* buffer_base, size_t size, hoff_t file_offset,
                                hoff_t buffer_offset);
/** Writes; as hipFileRead. Durable when write(2) on the same descriptor would be. */
HIPFILE_API ssize_t hipFileWrite(hipFileHandle_t fh, const void* buffer_base, size_t size, hoff_t file_offset,
                                 hoff_t buffer_offset);

#ifdef __cplusplus
}
#endif
#undef HIPFILE_NODISCARD_
#endif /* HIPFILE_H */
