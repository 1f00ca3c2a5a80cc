/* SPDX-License-Identifier: MIT
 *
 * What hipFile does not have: which way a request would go, and what became of the last one. Only in this library; a
 * program that must also run on AMD's looks the functions up with dlsym.
 */
#ifndef HIPFILE_EXT_H
#define HIPFILE_EXT_H

#include "hipfile.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Routes, best first; the numbers are those of hipfile_fuse.h. */
typedef enum hipFileRoute HIPFILE_ENUM {
  hipFileRouteNone = 0,
  hipFileRoutePeer = 1,   /**< storage DMA straight into VRAM */
  hipFileRoutePages = 2,  /**< straight into CPU-addressable pages */
  hipFileRouteCached = 3, /**< from or to the page cache */
  hipFileRouteStaged = 4, /**< through pinned host memory */
  hipFileRouteStore = 5   /**< CPU stores into mapped VRAM */
} hipFileRoute_t;

#define HIPFILE_EXT_ROUTES 6

typedef struct hipFileExplanation {
  hipFileRoute_t route;                 /**< of the bulk of the request */
  uint32_t reason;                      /**< why not the best route: enum hipfile_fuse_reason */
  uint32_t refused[HIPFILE_EXT_ROUTES]; /**< by route: why it does not carry the bulk; 0: it does */
  uint32_t offset_align; /**< of file offsets and lengths for direct I/O; 0: the file has none */
  uint32_t memory_align; /**< of memory for direct I/O */
  uint64_t direct_bytes; /**< that would go around the page cache, where it does not have them */
  char file_system[32];  /**< "ext4", ...; "" if not known */
  char text
      [2048]; /**< for people: one line per better route with what would have to change, then volume and GPU */
} hipFileExplanation_t;

/**
 * What hipFileRead of the same arguments would do now. Moves nothing.
 *   hipFileInvalidValue         explanation is NULL, or offsets and size that hipFileRead would refuse
 *   hipFileDriverNotInitialized the driver is not open
 *   hipFileHandleNotRegistered, hipFileHipMemoryTypeInvalid, hipFileHipDriverError  as for hipFileRead
 */
HIPFILE_API hipFileError_t hipFileExplain(hipFileHandle_t fh, const void* buffer_base, size_t size,
                                          hoff_t file_offset, hoff_t buffer_offset,
                                          hipFileExplanation_t* explanation);

typedef struct hipFileOutcome {
  ssize_t result;       /**< what the call returned */
  int error;            /**< errno, 0 if it was none */
  hipError_t hip_error; /**< of the HIP call that failed, hipSuccess if none did */
  hipFileRoute_t route; /**< that moved most of the bytes */
  uint32_t reason;      /**< why not the best route: enum hipfile_fuse_reason */
} hipFileOutcome_t;

/**
 * The calling thread's last hipFileRead or hipFileWrite that came as far as moving data; all zero before the first.
 *   hipFileInvalidValue  outcome is NULL
 */
HIPFILE_API hipFileError_t hipFileLastOutcome(hipFileOutcome_t* outcome);

#ifdef __cplusplus
}
#endif
#endif /* HIPFILE_EXT_H */
