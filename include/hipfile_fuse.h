/* SPDX-License-Identifier: MIT
 *
 * The ioctl ABI of a hipfile-fuse mount, version 1.
 *
 * Any program that can call ioctl(2) can use it; nothing here needs HIP. Every structure has a fixed size and
 * layout, holds no pointer, and starts with `version`, which the caller sets to HIPFILE_FUSE_ABI_VERSION.
 * Fields named `reserved` and unknown flag bits must be zero. All offsets and lengths are in bytes.
 *
 * In short:
 *
 *     int dir = open("/mnt/gpu", O_RDONLY | O_DIRECTORY);
 *     struct hipfile_fuse_register reg = {.version = HIPFILE_FUSE_ABI_VERSION,
 *                                         .kind = HIPFILE_FUSE_BUFFER_HIP_IPC,
 *                                         .flags = HIPFILE_FUSE_REGISTER_PROCESS,
 *                                         .length = bytes, .fd = -1};
 *     hipIpcGetMemHandle((hipIpcMemHandle_t *)reg.ipc_handle, device_pointer);
 *     ioctl(dir, HIPFILE_FUSE_IOC_REGISTER, &reg);
 *
 *     int file = open("/mnt/gpu/weights.bin", O_RDONLY);
 *     struct hipfile_fuse_io io = {.version = HIPFILE_FUSE_ABI_VERSION, .op = HIPFILE_FUSE_OP_READ,
 *                                  .buffer_id = reg.buffer_id, .length = bytes};
 *     ioctl(file, HIPFILE_FUSE_IOC_IO, &io);     // io.result bytes are now in device memory
 *
 * Errors common to all calls (ioctl returns -1 and sets errno):
 *   ENOTTY           not a hipfile-fuse mount, or an unknown command
 *   EINVAL           a known command with a wrong structure size, an unknown flag or enum value, or a reserved field
 *                    that is not zero
 *   EPROTONOSUPPORT  `version` is not a version this mount speaks
 *   ENOTCONN         the daemon is gone
 * Each command lists its own below. Every call may be made from any thread at any time.
 */
#ifndef HIPFILE_FUSE_H
#define HIPFILE_FUSE_H

#include <linux/ioctl.h>
#ifdef __cplusplus
#include <cstddef>
#include <cstdint>
extern "C" {
#else
#include <stddef.h>
#include <stdint.h>
#endif

#define HIPFILE_FUSE_ABI_VERSION 1u
#define HIPFILE_FUSE_IOC_MAGIC 'H'

/* ------------------------------------------------------------------------------------------------------------
 * Which way the data went, and why not a better one. Best first: PEER, PAGES, CACHED, STAGED; STORE is for
 * small reads. `reason` in a result says why the best route for such memory was not taken: PAGES where memory is
 * pages, PEER otherwise (NONE when it was).
 */
enum hipfile_fuse_route {
  HIPFILE_FUSE_ROUTE_NONE = 0,   /* none was tried */
  HIPFILE_FUSE_ROUTE_PEER = 1,   /* storage DMA straight into VRAM (PCI peer to peer) */
  HIPFILE_FUSE_ROUTE_PAGES = 2,  /* straight into CPU-addressable pages of the buffer; no bounce */
  HIPFILE_FUSE_ROUTE_CACHED = 3, /* from or to the page cache */
  HIPFILE_FUSE_ROUTE_STAGED = 4, /* through pinned host memory, DMA overlapped with file I/O */
  HIPFILE_FUSE_ROUTE_STORE = 5   /* CPU stores into mapped VRAM */
};

enum hipfile_fuse_reason {
  HIPFILE_FUSE_REASON_NONE = 0,
  HIPFILE_FUSE_REASON_DISABLED = 1,         /* switched off by an option */
  HIPFILE_FUSE_REASON_NO_RUNTIME_AIS = 2,   /* the HIP runtime has no hipAmdFileRead/hipAmdFileWrite */
  HIPFILE_FUSE_REASON_HOST_PAGES = 3,       /* the buffer is host memory: no peer to peer needed */
  HIPFILE_FUSE_REASON_NOT_PAGES = 4,        /* the buffer cannot be addressed by the CPU as pages */
  HIPFILE_FUSE_REASON_NO_DIRECT_IO = 5,     /* the file cannot be opened with O_DIRECT */
  HIPFILE_FUSE_REASON_FILE_SYSTEM = 6,      /* the file system cannot do peer to peer DMA */
  HIPFILE_FUSE_REASON_JOURNALED_DATA = 7,   /* ext4 mounted with a data mode other than ordered */
  HIPFILE_FUSE_REASON_OFFSET_ALIGNMENT = 8, /* file offset or length not a multiple of the disk's block */
  HIPFILE_FUSE_REASON_MEMORY_ALIGNMENT = 9, /* buffer address not aligned for direct I/O */
  HIPFILE_FUSE_REASON_TOO_SMALL = 10,       /* no block-aligned part in the request */
  HIPFILE_FUSE_REASON_FAILED = 11,          /* it was tried for this request and failed */
  HIPFILE_FUSE_REASON_FAILED_BEFORE = 12,   /* it failed earlier on this file and is not tried again */
  HIPFILE_FUSE_REASON_NOT_REGULAR = 13,     /* neither a regular file nor a block device */
  HIPFILE_FUSE_REASON_IMPORTED_MEMORY = 14, /* the way the buffer was registered excludes it */
  HIPFILE_FUSE_REASON_NOT_CACHED = 15,      /* the range is not in the page cache */
  /* The file: */
  HIPFILE_FUSE_REASON_ENCRYPTED_FILE = 16,  /* by the file system (fscrypt) */
  HIPFILE_FUSE_REASON_VERIFIED_FILE = 17,   /* fs-verity */
  HIPFILE_FUSE_REASON_COMPRESSED_FILE = 18, /* by the file system */
  HIPFILE_FUSE_REASON_INLINE_DATA = 19,     /* in its inode */
  /* What its file system lies on: */
  HIPFILE_FUSE_REASON_ENCRYPTED_VOLUME = 20, /* dm-crypt */
  HIPFILE_FUSE_REASON_CHECKED_VOLUME = 21,   /* dm-integrity, dm-verity, VDO */
  HIPFILE_FUSE_REASON_SOFTWARE_RAID = 22,    /* MD */
  HIPFILE_FUSE_REASON_MULTIPATH = 23,        /* of NVMe or device mapper */
  HIPFILE_FUSE_REASON_LOOP_DEVICE = 24,      /* a file on another file system */
  HIPFILE_FUSE_REASON_MEMORY_DISK = 25,      /* zram, brd */
  HIPFILE_FUSE_REASON_NETWORK_STORAGE = 26,  /* NVMe/TCP, iSCSI, nbd, rbd */
  HIPFILE_FUSE_REASON_NOT_NVME = 27,         /* virtio, SCSI, SATA, USB, ... */
  HIPFILE_FUSE_REASON_DEVICE_MAPPER = 28,    /* a target that may not pass device memory on */
  HIPFILE_FUSE_REASON_TOO_MANY_DEVICES = 29, /* more than the driver looks through */
  /* The GPU and the way to it: */
  HIPFILE_FUSE_REASON_GPU_WITHOUT_AIS = 30,       /* its driver offers none */
  HIPFILE_FUSE_REASON_AIS_DISABLED = 31,          /* by amdgpu's parameter */
  HIPFILE_FUSE_REASON_VIRTUAL_FUNCTION = 32,      /* SR-IOV */
  HIPFILE_FUSE_REASON_INTEGRATED_GPU = 33,        /* it shares the CPU's memory */
  HIPFILE_FUSE_REASON_SMALL_BAR = 34,             /* PCI shows only a part of its memory */
  HIPFILE_FUSE_REASON_KERNEL_WITHOUT_P2PDMA = 35, /* built without CONFIG_PCI_P2PDMA */
  HIPFILE_FUSE_REASON_NO_PEER_PATH = 36,          /* PCI topology: no DMA between disk and GPU */
  HIPFILE_FUSE_REASON_NO_GPU = 37,                /* none of AMD's */
  HIPFILE_FUSE_REASON_NOT_SMALL = 38,             /* more than 64 KiB, or not a read */
  HIPFILE_FUSE_REASON_IN_PAGE_CACHE = 39          /* the page cache has the data, or is to keep it */
};

/* ------------------------------------------------------------------------------------------------------------
 * INFO: on any descriptor of the mount. Errors: the common ones.
 */
#define HIPFILE_FUSE_CAP_HIP_IPC (1u << 0)     /* REGISTER by HIP IPC handle works (a runtime is loaded) */
#define HIPFILE_FUSE_CAP_FD (1u << 1)          /* REGISTER by descriptor number works (pidfd_getfd) */
#define HIPFILE_FUSE_CAP_SOCKET (1u << 2)      /* descriptors can be handed over through `socket_path` */
#define HIPFILE_FUSE_CAP_PASSTHROUGH (1u << 3) /* ordinary opens are kernel passthrough */
#define HIPFILE_FUSE_CAP_TAG_ALL (1u << 4)     /* every descriptor can be tagged (mount option tag=all) */
#define HIPFILE_FUSE_CAP_TAGGABLE (1u << 5)    /* this descriptor can be tagged */

enum hipfile_fuse_runtime {
  HIPFILE_FUSE_RUNTIME_NONE = 0,
  HIPFILE_FUSE_RUNTIME_AMD = 1,
  HIPFILE_FUSE_RUNTIME_SOFTWARE = 2, /* device memory is host memory: no GPU is involved */
  HIPFILE_FUSE_RUNTIME_CUDA = 3
};

struct hipfile_fuse_info {
  uint32_t version;         /* in: the caller's; out: the mount's */
  uint32_t flags;           /* in: 0 */
  uint32_t capabilities;    /* out: HIPFILE_FUSE_CAP_* */
  uint32_t runtime;         /* out: enum hipfile_fuse_runtime */
  int32_t device_count;     /* out: GPUs the daemon sees */
  uint32_t runtime_version; /* out: what hipRuntimeGetVersion says, 0 without a runtime */
  uint64_t backing_dev;     /* out: st_dev of the file under the mount */
  uint64_t backing_ino;     /* out: st_ino of the file under the mount */
  uint32_t max_batch;       /* out: largest number of entries of one BATCH */
  uint32_t daemon_pid;      /* out: in the daemon's pid namespace */
  uint64_t reserved[8];
  char runtime_name[128];  /* out: NUL-terminated text for people */
  char socket_path[256];   /* out: UNIX socket for handing over descriptors, "" if none */
  char backing_path[4096]; /* out: path of the file under the mount, in the daemon's mount namespace */
};

/* ------------------------------------------------------------------------------------------------------------
 * REGISTER: make memory known to this open file description. On any descriptor of the mount, its root included.
 *
 * The id that comes back is random and is valid on: this open file description (also after dup, fork, exec or when
 * the descriptor is sent to another process); descriptions to which it is attached with BUFFER_ATTACH; and, with
 * REGISTER_PROCESS, every description that this process opens on the mount from now on. It ends with UNREGISTER,
 * with the last close of the registering description, or when the registering process ends; requests in flight are
 * finished first.
 *
 * Kinds:
 *   HIP_IPC  `ipc_handle` from hipIpcGetMemHandle; the handle names a whole allocation, and `offset` is added to the
 *            address that the handle was made for.
 *   FD       a descriptor of the caller, by number (`fd`, fetched with pidfd_getfd) or, with fd = -1, by the `token`
 *            that the daemon gave when the descriptor was sent through `socket_path`. Memory by descriptor is: a
 *            memfd, or a file on tmpfs or hugetlbfs; a dma-buf; a p2pmem `allocate` file of a PCI device (the daemon
 *            then allocates `length` bytes of that device's memory for this registration).
 *   ATTACH   `buffer_id` of a buffer that this process registered: makes it valid on this description too.
 *
 * Errors: EINVAL  unknown kind; length 0; offset + length overflows or goes beyond the memory; not memory; with
 *                 p2pmem, length not page-aligned
 *         EACCES  the descriptor is not open for reading and writing, or is sealed against it
 *         EBADF   no such descriptor in the caller, or unknown token
 *         EPERM   the daemon may not fetch the descriptor (use the socket), or ATTACH by another process
 *         ENOENT  ATTACH of an unknown id
 *         ENODEV  no HIP runtime, or `device` does not exist
 *         ESTALE  the IPC handle cannot be opened: freed, from another machine or namespace
 *         ENOMEM  no memory or address space for the mapping; too many or too large buffers on the mount
 *         ENOSPC  too many buffers on this description (4096)
 */
enum hipfile_fuse_buffer_kind {
  HIPFILE_FUSE_BUFFER_HIP_IPC = 1,
  HIPFILE_FUSE_BUFFER_FD = 2,
  HIPFILE_FUSE_BUFFER_ATTACH = 3
};

#define HIPFILE_FUSE_REGISTER_PROCESS (1u << 0) /* valid on later opens of this process too */

struct hipfile_fuse_register {
  uint32_t version;
  uint32_t kind;  /* in: enum hipfile_fuse_buffer_kind */
  uint32_t flags; /* in: HIPFILE_FUSE_REGISTER_* */
  int32_t device; /* in: HIP ordinal in the daemon, for HIP_IPC and dma-buf */
  int32_t fd;     /* in: descriptor number for FD, otherwise -1 */
  uint32_t reserved0;
  uint64_t token;         /* in: from the socket, otherwise 0 */
  uint64_t offset;        /* in: first byte within the memory */
  uint64_t length;        /* in: bytes */
  uint64_t buffer_id;     /* in for ATTACH, otherwise 0; out: the id */
  uint8_t ipc_handle[64]; /* in for HIP_IPC, otherwise zeros */
  uint64_t reserved[8];
};

/* UNREGISTER: on any description on which the id is valid. Waits for requests in flight that use the buffer. A tag
 * whose buffer is gone stays, and its reads and writes fail with ENXIO until UNTAG: bytes that were meant for device
 * memory never go elsewhere unnoticed.
 * Errors: ENOENT  not a buffer that is valid here
 */
struct hipfile_fuse_unregister {
  uint32_t version;
  uint32_t flags; /* in: 0 */
  uint64_t buffer_id;
  uint64_t reserved[4];
};

/* ------------------------------------------------------------------------------------------------------------
 * IO: one read (file to buffer) or write (buffer to file). The file position is not used and not moved.
 *
 * ioctl returns 0 when the request was carried out, wholly or in part; then `result` is the number of bytes moved, or
 * -errno if the first byte failed already. Fewer bytes than asked for means end of file, a signal, or an error further
 * on (ask again at the new offset and it is returned). A signal that interrupts the request ends it at the next chunk
 * with the bytes done, -EINTR if none; the end of the mount likewise, with -ESHUTDOWN. A write is as durable as
 * write(2) on the same descriptor.
 *
 * Errors: EINVAL  unknown op; file_offset or its sum with length exceeds 2^63 - 1; a write through O_APPEND
 *         ENOENT  buffer_id is not valid on this description
 *         ERANGE  buffer_offset + length goes beyond the buffer
 *         EBADF   the descriptor is not open for this direction
 *         EISDIR  the descriptor is a directory
 *         ENODEV  neither a regular file nor a block device
 */
enum hipfile_fuse_op { HIPFILE_FUSE_OP_READ = 0, HIPFILE_FUSE_OP_WRITE = 1 };

struct hipfile_fuse_io {
  uint32_t version;
  uint32_t flags; /* in: 0 */
  uint32_t op;    /* in: enum hipfile_fuse_op */
  uint32_t reserved0;
  uint64_t buffer_id;     /* in */
  uint64_t buffer_offset; /* in */
  uint64_t file_offset;   /* in */
  uint64_t length;        /* in */
  int64_t result;         /* out: bytes or -errno */
  uint32_t route;         /* out: enum hipfile_fuse_route */
  uint32_t reason;        /* out: enum hipfile_fuse_reason */
  uint64_t reserved[4];
};

/* ------------------------------------------------------------------------------------------------------------
 * BATCH: `count` requests on one file, each with its own outcome. The command's size says how many entries follow the
 * header: use HIPFILE_FUSE_IOC_BATCH(n) with n >= count.
 *
 * ioctl returns 0 when the batch was taken; an entry that is malformed has the error that IO would have had as -errno
 * in its own `result`, and the others are carried out. Entries may run in any order and at the same time.
 *
 * Errors: EINVAL  count 0 or more than the structure holds
 */
#define HIPFILE_FUSE_BATCH_MAX 250u

struct hipfile_fuse_batch_entry {
  uint32_t op;
  uint32_t flags; /* in: 0 */
  uint64_t buffer_id;
  uint64_t buffer_offset;
  uint64_t file_offset;
  uint64_t length;
  int64_t result;  /* out */
  uint32_t route;  /* out */
  uint32_t reason; /* out */
  uint64_t reserved;
};

struct hipfile_fuse_batch {
  uint32_t version;
  uint32_t count; /* in: entries used */
  uint32_t flags; /* in: 0 */
  uint32_t reserved0;
  uint64_t reserved[6];
  /* followed by n entries */
};

/* ------------------------------------------------------------------------------------------------------------
 * TAG: bind the window [file_offset, file_offset + length) of the file to the same number of bytes of a buffer, from
 * buffer_offset on. From then on, on this open file description:
 *   read(2), pread(2), readv(2), ... of file bytes inside the window put them into the buffer and return the count;
 *   the caller's memory gets zeros, or with TAG_TEE the bytes as well. With TAG_WRITE, write(2), pwrite(2), ... take
 *   their bytes from the buffer, not from the caller's memory.
 *   A request that starts inside the window is shortened to its end; one that starts outside it fails with ENOSPC; at
 *   end of file read(2) returns 0 as ever. Without TAG_WRITE, writes are ordinary. So are mappings, splice(2) and
 *   sendfile(2): they go through a page cache that others share, and get the file's bytes.
 *
 * Errors: EOPNOTSUPP  this descriptor's reads do not pass the daemon. It must have been opened by a process
 *                     that already held a registered buffer, or with O_DIRECT on a mount with tag=direct, or on one
 *                     with tag=all; reopening it through /proc/self/fd/N after REGISTER mends that
 *         EBUSY       already tagged
 *         EBADF       not open for reading; or, with TAG_WRITE, not open for writing
 *         ENOENT, ERANGE, EISDIR, ENODEV, EINVAL  as for IO; EINVAL also for length 0
 */
#define HIPFILE_FUSE_TAG_TEE (1u << 0)   /* give the caller the bytes too */
#define HIPFILE_FUSE_TAG_WRITE (1u << 1) /* writes take their bytes from the buffer */

struct hipfile_fuse_tag {
  uint32_t version;
  uint32_t flags; /* in: HIPFILE_FUSE_TAG_* */
  uint64_t buffer_id;
  uint64_t buffer_offset;
  uint64_t file_offset;
  uint64_t length;
  uint64_t reserved[4];
};

/* UNTAG: end the tag, wait for its requests in flight, and say what passed through it.
 * Errors: ENODATA  not tagged
 *         EISDIR   a directory
 */
struct hipfile_fuse_untag {
  uint32_t version;
  uint32_t flags;         /* in: 0 */
  uint64_t bytes_read;    /* out: file to buffer */
  uint64_t bytes_written; /* out: buffer to file */
  uint64_t requests;      /* out: reads and writes served */
  uint64_t failures;      /* out: those that failed */
  uint32_t route;         /* out: of the last request */
  uint32_t reason;        /* out: of the last request */
  uint64_t reserved[4];
};

/* ------------------------------------------------------------------------------------------------------------
 * Handing over a descriptor through `socket_path` (SOCK_SEQPACKET): send one message of this structure with
 * exactly one descriptor attached (SCM_RIGHTS); the answer is the same structure with `token` set, or with
 * `error` = errno. A token works once, in a REGISTER by the same user, within a minute.
 */
struct hipfile_fuse_handover {
  uint32_t version;
  int32_t error;
  uint64_t token;
};

#define HIPFILE_FUSE_IOC_INFO _IOWR(HIPFILE_FUSE_IOC_MAGIC, 1, struct hipfile_fuse_info)
#define HIPFILE_FUSE_IOC_REGISTER _IOWR(HIPFILE_FUSE_IOC_MAGIC, 2, struct hipfile_fuse_register)
#define HIPFILE_FUSE_IOC_UNREGISTER _IOW(HIPFILE_FUSE_IOC_MAGIC, 3, struct hipfile_fuse_unregister)
#define HIPFILE_FUSE_IOC_IO _IOWR(HIPFILE_FUSE_IOC_MAGIC, 4, struct hipfile_fuse_io)
#define HIPFILE_FUSE_BATCH_BYTES(n) \
  (sizeof(struct hipfile_fuse_batch) + (size_t)(n) * sizeof(struct hipfile_fuse_batch_entry))
#define HIPFILE_FUSE_IOC_BATCH(n) \
  _IOC(_IOC_READ | _IOC_WRITE, HIPFILE_FUSE_IOC_MAGIC, 5, HIPFILE_FUSE_BATCH_BYTES(n))
#define HIPFILE_FUSE_IOC_TAG _IOW(HIPFILE_FUSE_IOC_MAGIC, 6, struct hipfile_fuse_tag)
#define HIPFILE_FUSE_IOC_UNTAG _IOWR(HIPFILE_FUSE_IOC_MAGIC, 7, struct hipfile_fuse_untag)

/* Layout: a change here is a change of the ABI. */
#ifdef __cplusplus
#define HIPFILE_FUSE_ASSERT(condition) static_assert(condition, #condition)
#else
#define HIPFILE_FUSE_ASSERT(condition) _Static_assert(condition, #condition)
#endif
#define HIPFILE_FUSE_AT(type, member, offset) \
  HIPFILE_FUSE_ASSERT(offsetof(struct hipfile_fuse_##type, member) == (offset))

HIPFILE_FUSE_ASSERT(sizeof(struct hipfile_fuse_info) == 4592);
HIPFILE_FUSE_AT(info, capabilities, 8);
HIPFILE_FUSE_AT(info, runtime, 12);
HIPFILE_FUSE_AT(info, device_count, 16);
HIPFILE_FUSE_AT(info, runtime_version, 20);
HIPFILE_FUSE_AT(info, backing_dev, 24);
HIPFILE_FUSE_AT(info, backing_ino, 32);
HIPFILE_FUSE_AT(info, max_batch, 40);
HIPFILE_FUSE_AT(info, daemon_pid, 44);
HIPFILE_FUSE_AT(info, reserved, 48);
HIPFILE_FUSE_AT(info, runtime_name, 112);
HIPFILE_FUSE_AT(info, socket_path, 240);
HIPFILE_FUSE_AT(info, backing_path, 496);
HIPFILE_FUSE_ASSERT(sizeof(struct hipfile_fuse_register) == 184);
HIPFILE_FUSE_AT(register, kind, 4);
HIPFILE_FUSE_AT(register, flags, 8);
HIPFILE_FUSE_AT(register, device, 12);
HIPFILE_FUSE_AT(register, fd, 16);
HIPFILE_FUSE_AT(register, token, 24);
HIPFILE_FUSE_AT(register, offset, 32);
HIPFILE_FUSE_AT(register, length, 40);
HIPFILE_FUSE_AT(register, buffer_id, 48);
HIPFILE_FUSE_AT(register, ipc_handle, 56);
HIPFILE_FUSE_AT(register, reserved, 120);
HIPFILE_FUSE_ASSERT(sizeof(struct hipfile_fuse_unregister) == 48);
HIPFILE_FUSE_AT(unregister, buffer_id, 8);
HIPFILE_FUSE_ASSERT(sizeof(struct hipfile_fuse_io) == 96);
HIPFILE_FUSE_AT(io, op, 8);
HIPFILE_FUSE_AT(io, buffer_id, 16);
HIPFILE_FUSE_AT(io, buffer_offset, 24);
HIPFILE_FUSE_AT(io, file_offset, 32);
HIPFILE_FUSE_AT(io, length, 40);
HIPFILE_FUSE_AT(io, result, 48);
HIPFILE_FUSE_AT(io, route, 56);
HIPFILE_FUSE_AT(io, reason, 60);
HIPFILE_FUSE_AT(io, reserved, 64);
HIPFILE_FUSE_ASSERT(sizeof(struct hipfile_fuse_batch_entry) == 64);
HIPFILE_FUSE_AT(batch_entry, buffer_id, 8);
HIPFILE_FUSE_AT(batch_entry, buffer_offset, 16);
HIPFILE_FUSE_AT(batch_entry, file_offset, 24);
HIPFILE_FUSE_AT(batch_entry, length, 32);
HIPFILE_FUSE_AT(batch_entry, result, 40);
HIPFILE_FUSE_AT(batch_entry, route, 48);
HIPFILE_FUSE_AT(batch_entry, reason, 52);
HIPFILE_FUSE_ASSERT(sizeof(struct hipfile_fuse_batch) == 64);
HIPFILE_FUSE_AT(batch, count, 4);
HIPFILE_FUSE_ASSERT(HIPFILE_FUSE_BATCH_BYTES(HIPFILE_FUSE_BATCH_MAX) < 16384);
HIPFILE_FUSE_ASSERT(sizeof(struct hipfile_fuse_tag) == 72);
HIPFILE_FUSE_AT(tag, flags, 4);
HIPFILE_FUSE_AT(tag, buffer_id, 8);
HIPFILE_FUSE_AT(tag, buffer_offset, 16);
HIPFILE_FUSE_AT(tag, file_offset, 24);
HIPFILE_FUSE_AT(tag, length, 32);
HIPFILE_FUSE_ASSERT(sizeof(struct hipfile_fuse_untag) == 80);
HIPFILE_FUSE_AT(untag, bytes_read, 8);
HIPFILE_FUSE_AT(untag, bytes_written, 16);
HIPFILE_FUSE_AT(untag, requests, 24);
HIPFILE_FUSE_AT(untag, failures, 32);
HIPFILE_FUSE_AT(untag, route, 40);
HIPFILE_FUSE_AT(untag, reason, 44);
HIPFILE_FUSE_ASSERT(sizeof(struct hipfile_fuse_handover) == 16);

#undef HIPFILE_FUSE_AT
#undef HIPFILE_FUSE_ASSERT

#ifdef __cplusplus
}
#endif
#endif /* HIPFILE_FUSE_H */
