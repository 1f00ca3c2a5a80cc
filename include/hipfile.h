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

/* A caller's enumeration may hold any number. C allows that; C++ does where the type underneath is written out. int,
   so that -hipFileInvalidValue stays negative. */
#ifdef __cplusplus
#define HIPFILE_ENUM : int
#else
#define HIPFILE_ENUM
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

/* Flags of hipFileStreamRegister: which parameters of asynchronous calls are final when the call is made. */
#define HIPFILE_STREAM_FIXED_BUF_OFFSET 1
#define HIPFILE_STREAM_FIXED_FILE_OFFSET (1 << 1)
#define HIPFILE_STREAM_FIXED_FILE_SIZE (1 << 2)
#define HIPFILE_STREAM_PAGE_ALIGNED_INPUTS (1 << 3)
#define HIPFILE_STREAM_FLAGS_MASK 0xf

#define HIPFILE_MAX_GPUS 16
#define HIPFILE_GPU_UUID_LEN 16

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

typedef enum hipFileOpError HIPFILE_ENUM {
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

typedef enum hipFileFileHandleType HIPFILE_ENUM {
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
typedef void* hipFileBatchHandle_t;

/** Bit positions in nvfs.driver_status_flags. */
typedef enum hipFileDriverStatusFlags HIPFILE_ENUM {
  hipFileLustreSupported = 0,
  hipFileWekaFSSupported = 1,
  hipFileNFSSupported = 2,
  hipFileGPFSSupported = 3,
  hipFileNVMeSupported = 4,
  hipFileNVMeoFSupported = 5,
  hipFileSCSISupported = 6,
  hipFileScaleFluxCSDSupported = 7,
  hipFileNVMeshSupported = 8,
  hipFileBeeGFSSupported = 9,
  hipFileNVMeP2PSupported = 11,
  hipFileScatefsSupported = 12
} hipFileDriverStatusFlags_t;

/** Bit positions in nvfs.driver_control_flags. */
typedef enum hipFileDriverControlFlags HIPFILE_ENUM {
  hipFileUsePollMode = 0,
  hipFileAllowCompatMode = 1
} hipFileDriverControlFlags_t;

/** Bit positions in feature_flags. */
typedef enum hipFileFeatureFlags HIPFILE_ENUM {
  hipFileDynRoutingSupported = 0,
  hipFileBatchIOSupported = 1,
  hipFileStreamsSupported = 2,
  hipFileParallelIOSupported = 3
} hipFileFeatureFlags_t;

typedef struct hipFileDriverProps {
  struct {
    unsigned major_version;
    unsigned minor_version;
    uint64_t poll_thresh_size;   /**< KiB */
    uint64_t max_direct_io_size; /**< KiB */
    unsigned driver_status_flags;
    unsigned driver_control_flags;
  } nvfs;
  unsigned feature_flags;
  uint64_t max_device_cache_size;      /**< KiB */
  uint64_t per_buffer_cache_size;      /**< KiB */
  uint64_t max_device_pinned_mem_size; /**< KiB */
  unsigned max_batch_io_count;
  unsigned max_batch_io_timeout_msecs;
} hipFileDriverProps_t;

typedef enum hipFileOpcode HIPFILE_ENUM { hipFileBatchRead = 0, hipFileBatchWrite = 1 } hipFileOpcode_t;

typedef enum hipFileStatus HIPFILE_ENUM {
  hipFileWaiting = 1,
  hipFilePending = 2,
  hipFileInvalid = 4,
  hipFileCanceled = 8,
  hipFileComplete = 16,
  hipFileTimeout = 32,
  hipFileFailed = 64
} hipFileStatus_t;

typedef enum hipFileBatchMode HIPFILE_ENUM { hipFileBatch = 1 } hipFileBatchMode_t;

typedef struct hipFileIOParams {
  hipFileBatchMode_t mode;
  union {
    struct {
      void* devPtr_base;
      int64_t file_offset;
      int64_t devPtr_offset;
      size_t size;
    } batch;
  } u;
  hipFileHandle_t fh;
  hipFileOpcode_t opcode;
  void* cookie; /**< comes back with the event */
} hipFileIOParams_t;

typedef struct hipFileIOEvents {
  void* cookie;
  hipFileStatus_t status;
  size_t ret; /**< bytes, or a negative code cast to size_t: -errno or -hipFileOpError_t */
} hipFileIOEvents_t;

typedef enum hipFileSizeTConfigParameter_t HIPFILE_ENUM {
  hipFileParamProfileStats = 0,
  hipFileParamExecutionMaxIOQueueDepth,
  hipFileParamExecutionMaxIOThreads,
  hipFileParamExecutionMinIOThresholdSizeKB,
  hipFileParamExecutionMaxRequestParallelism,
  hipFileParamPropertiesMaxDirectIOSizeKB,
  hipFileParamPropertiesMaxDeviceCacheSizeKB,
  hipFileParamPropertiesPerBufferCacheSizeKB,
  hipFileParamPropertiesMaxDevicePinnedMemSizeKB,
  hipFileParamPropertiesIOBatchsize,
  hipFileParamPollthresholdSizeKB,
  hipFileParamPropertiesBatchIOTimeoutMs
} hipFileSizeTConfigParameter_t;

typedef enum hipFileBoolConfigParameter_t HIPFILE_ENUM {
  hipFileParamPropertiesUsePollMode = 0,
  hipFileParamPropertiesAllowCompatMode,
  hipFileParamForceCompatMode,
  hipFileParamFsMiscApiCheckAggressive,
  hipFileParamExecutionParallelIO,
  hipFileParamProfileNvtx,
  hipFileParamPropertiesAllowSystemMemory,
  hipFileParamUsePcip2pdma,
  hipFileParamPreferIOUring,
  hipFileParamForceOdirectMode,
  hipFileParamSkipTopologyDetection,
  hipFileParamStreamMemopsBypass
} hipFileBoolConfigParameter_t;

typedef enum hipFileStringConfigParameter_t HIPFILE_ENUM {
  hipFileParamLoggingLevel = 0,
  hipFileParamEnvLogfilePath,
  hipFileParamLogDir
} hipFileStringConfigParameter_t;

typedef struct hipFileOpCounter {
  uint64_t ok;
  uint64_t err;
} hipFileOpCounter_t;

/** Totals of the process. Rates are over the time spent inside calls, not over wall time. */
typedef struct hipFileStatsLevel1 {
  hipFileOpCounter_t read_ops, write_ops, hdl_register_ops, hdl_deregister_ops, buf_register_ops,
      buf_deregister_ops;
  uint64_t read_bytes, write_bytes, read_bw_bytes_per_sec, write_bw_bytes_per_sec, read_lat_avg_us,
      write_lat_avg_us, read_ops_per_sec, write_ops_per_sec, read_lat_sum_us, write_lat_sum_us;
  hipFileOpCounter_t batch_submit_ops, batch_complete_ops, batch_setup_ops, batch_cancel_ops,
      batch_destroy_ops, batch_enqueued_ops, batch_posix_enqueued_ops, batch_processed_ops,
      batch_posix_processed_ops, batch_nvfs_submit_ops, batch_p2p_submit_ops, batch_aio_submit_ops,
      batch_iouring_submit_ops, batch_mixed_io_submit_ops, batch_total_submit_ops;
  uint64_t batch_read_bytes, batch_write_bytes, batch_read_bw_bytes, batch_write_bw_bytes,
      batch_submit_lat_avg_us, batch_completion_lat_avg_us, batch_submit_ops_per_sec,
      batch_complete_ops_per_sec, batch_submit_lat_sum_us, batch_completion_lat_sum_us, last_batch_read_bytes,
      last_batch_write_bytes;
} hipFileStatsLevel1_t;

/** Bucket i counts requests of [4 KiB << (i - 1), 4 KiB << i); bucket 0 those below 4 KiB. */
typedef struct hipFileStatsLevel2 {
  hipFileStatsLevel1_t basic;
  uint64_t read_size_kb_hist[32];
  uint64_t write_size_kb_hist[32];
} hipFileStatsLevel2_t;

/** By the GPU that the buffer belongs to, whichever thread asked. */
typedef struct hipFilePerGpuStats {
  char uuid[HIPFILE_GPU_UUID_LEN];
  uint64_t read_bytes, read_bw_bytes_per_sec, read_utilization, read_duration_us, n_total_reads, n_p2p_reads,
      n_nvfs_reads, n_posix_reads, n_unaligned_reads, n_dr_reads, n_sparse_regions, n_inline_regions,
      n_reads_err;
  uint64_t write_bytes, write_bw_bytes_per_sec, write_utilization, write_duration_us, n_total_writes,
      n_p2p_writes, n_nvfs_writes, n_posix_writes, n_unaligned_writes, n_dr_writes, n_writes_err;
  uint64_t n_mmap, n_mmap_ok, n_mmap_err, n_mmap_free, reg_bytes;
} hipFilePerGpuStats_t;

typedef struct hipFileStatsLevel3 {
  hipFileStatsLevel2_t detailed;
  uint32_t num_gpus;                                    /**< that moved data */
  hipFilePerGpuStats_t per_gpu_stats[HIPFILE_MAX_GPUS]; /**< by HIP ordinal */
} hipFileStatsLevel3_t;

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

/**
 * The driver's limits and features, whether it is open or not.
 *   hipFileInvalidValue  props is NULL
 */
HIPFILE_API hipFileError_t hipFileDriverGetProperties(hipFileDriverProps_t* props);
/**
 * The following set one property each, as the parameter of the same name does: while the driver is closed the
 * value is staged and applies from the next open until close; while it is open they fail with
 * hipFileDriverAlreadyOpen. Sizes are in KiB; hipFileInvalidValue for values out of range.
 */
HIPFILE_API hipFileError_t hipFileDriverSetPollMode(bool poll, size_t poll_threshold_size);
HIPFILE_API hipFileError_t hipFileDriverSetMaxDirectIOSize(size_t max_direct_io_size);
HIPFILE_API hipFileError_t hipFileDriverSetMaxCacheSize(size_t max_cache_size);
HIPFILE_API hipFileError_t hipFileDriverSetMaxPinnedMemSize(size_t max_pinned_size);

/**
 * Parameters. Set: staged while the driver is closed, applied by the open that follows, cleared by the last
 * close; hipFileDriverAlreadyOpen while it is open. Get: what is in force (open), or will be with the next
 * open (closed). hipFileInvalidValue  unknown parameter, NULL pointer, a value out of range, or a text that
 * does not fit `len`
 */
HIPFILE_API hipFileError_t hipFileGetParameterSizeT(hipFileSizeTConfigParameter_t param, size_t* value);
HIPFILE_API hipFileError_t hipFileGetParameterBool(hipFileBoolConfigParameter_t param, bool* value);
HIPFILE_API hipFileError_t hipFileGetParameterString(hipFileStringConfigParameter_t param, char* desc_str,
                                                     int len);
HIPFILE_API hipFileError_t hipFileSetParameterSizeT(hipFileSizeTConfigParameter_t param, size_t value);
HIPFILE_API hipFileError_t hipFileSetParameterBool(hipFileBoolConfigParameter_t param, bool value);
HIPFILE_API hipFileError_t hipFileSetParameterString(hipFileStringConfigParameter_t param,
                                                     const char* desc_str);

/**
 * Reads or writes in the order of a stream. The pointed-to parameters must stay valid until the stream has
 * passed the operation. Unless the stream is registered with the FIXED flag for it, a parameter is read when
 * the stream reaches the operation: the size may have shrunk, not grown. *bytes_p is set to 0 at once, and to
 * the bytes moved, -1 or the negative of a hipFileOpError_t when the operation is done, before the stream
 * goes on. The NULL stream, and streams that are not registered, are taken. A small read of what is cached may be
 * done when the call returns, if the stream is idle and does not wait for the NULL stream. hipFileInvalidValue driver
 * not open (it is opened), NULL pointer, range or negative offset, or a buffer of another GPU than the stream's
 *   hipFileHandleNotRegistered  unknown handle
 *   hipFileInternalError        memory that HIP cannot use here
 *   hipFileHipDriverError       a HIP call failed; the stream is being captured (hipErrorStreamCaptureUnsupported)
 */
HIPFILE_API hipFileError_t hipFileReadAsync(hipFileHandle_t fh, void* buffer_base, size_t* size_p,
                                            hoff_t* file_offset_p, hoff_t* buffer_offset_p,
                                            ssize_t* bytes_read_p, hipStream_t stream);
HIPFILE_API hipFileError_t hipFileWriteAsync(hipFileHandle_t fh, void* buffer_base, size_t* size_p,
                                             hoff_t* file_offset_p, hoff_t* buffer_offset_p,
                                             ssize_t* bytes_written_p, hipStream_t stream);
/**
 * Says with HIPFILE_STREAM_* flags which parameters of this stream's operations are final when they are
 * submitted. hipFileInvalidValue  unknown flags; already registered; for deregistration, not registered
 */
HIPFILE_API hipFileError_t hipFileStreamRegister(hipStream_t stream, unsigned flags);
HIPFILE_API hipFileError_t hipFileStreamDeregister(hipStream_t stream);

/**
 * Batches. A batch holds at most `max_nr` operations that are submitted and whose events are not yet fetched.
 *   hipFileInvalidValue         NULL pointer, max_nr 0 or above 128, unknown batch, a bad operation (all or
 * nothing) hipFileDriverNotInitialized the driver is not open hipFileHandleNotRegistered,
 * hipFileHipMemoryTypeInvalid  of an operation hipFileBatchFull            not enough room
 * Small reads of what is cached may be done when hipFileBatchIOSubmit returns.
 */
HIPFILE_API hipFileError_t hipFileBatchIOSetUp(hipFileBatchHandle_t* batch_idp, unsigned max_nr);
HIPFILE_API hipFileError_t hipFileBatchIOSubmit(hipFileBatchHandle_t batch_idp, unsigned nr,
                                                hipFileIOParams_t* iocbp, unsigned flags);
/**
 * Waits until at least min_nr operations are done, nothing is outstanding, or the time is over (NULL: no
 * limit), and gives up to *nr events, in the order of completion. Running out of time is not an error.
 */
HIPFILE_API hipFileError_t hipFileBatchIOGetStatus(hipFileBatchHandle_t batch_idp, unsigned min_nr,
                                                   unsigned* nr, hipFileIOEvents_t* iocbp,
                                                   struct timespec* timeout);
/** Operations that have not started become hipFileCanceled; those that run are finished. */
HIPFILE_API hipFileError_t hipFileBatchIOCancel(hipFileBatchHandle_t batch_idp);
/** Cancels, waits for what runs, and frees. Unknown batches are ignored. */
HIPFILE_API void hipFileBatchIODestroy(hipFileBatchHandle_t batch_idp);

/**
 * Counters of this process since it was started; the driver need not be open. Level 0 of HIPFILE_STATS_LEVEL
 * or hipFileParamProfileStats stops counting transfers. hipFileInvalidValue   stats is NULL
 *   hipFileInternalError  the counters could not be set up
 */
HIPFILE_API hipFileError_t hipFileGetStatsL1(hipFileStatsLevel1_t* stats);
HIPFILE_API hipFileError_t hipFileGetStatsL2(hipFileStatsLevel2_t* stats);
HIPFILE_API hipFileError_t hipFileGetStatsL3(hipFileStatsLevel3_t* stats);

/** The name that hipFileGetOpErrorString had before 0.2; hipified programs still use it. */
HIPFILE_API const char* hipFileOpStatusError(hipFileOpError_t status);

#ifdef __cplusplus
}
#endif
#undef HIPFILE_NODISCARD_
#endif /* HIPFILE_H */
