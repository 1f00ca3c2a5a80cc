// The engine's numbers are the ABI's: what the ioctls report is cast, not translated.
#include "engine/route.h"
#include "hipfile_fuse.h"

namespace fs {
namespace {

#define FS_SAME_ROUTE(abi, engines) \
  static_assert(HIPFILE_FUSE_ROUTE_##abi == static_cast<int>(engine::Route::engines));
#define FS_SAME_REASON(abi, engines) \
  static_assert(HIPFILE_FUSE_REASON_##abi == static_cast<int>(engine::Reason::engines));

FS_SAME_ROUTE(NONE, none)
FS_SAME_ROUTE(PEER, peer)
FS_SAME_ROUTE(PAGES, pages)
FS_SAME_ROUTE(CACHED, cached)
FS_SAME_ROUTE(STAGED, staged)
FS_SAME_ROUTE(STORE, store)

FS_SAME_REASON(NONE, none)
FS_SAME_REASON(DISABLED, disabled)
FS_SAME_REASON(NO_RUNTIME_AIS, no_runtime_ais)
FS_SAME_REASON(HOST_PAGES, host_pages)
FS_SAME_REASON(NOT_PAGES, not_pages)
FS_SAME_REASON(NO_DIRECT_IO, no_direct_io)
FS_SAME_REASON(FILE_SYSTEM, file_system)
FS_SAME_REASON(JOURNALED_DATA, journaled_data)
FS_SAME_REASON(OFFSET_ALIGNMENT, offset_alignment)
FS_SAME_REASON(MEMORY_ALIGNMENT, memory_alignment)
FS_SAME_REASON(TOO_SMALL, too_small)
FS_SAME_REASON(FAILED, failed)
FS_SAME_REASON(FAILED_BEFORE, failed_before)
FS_SAME_REASON(NOT_REGULAR, not_regular)
FS_SAME_REASON(IMPORTED_MEMORY, imported_memory)
FS_SAME_REASON(NOT_CACHED, not_cached)
FS_SAME_REASON(ENCRYPTED_FILE, encrypted_file)
FS_SAME_REASON(VERIFIED_FILE, verified_file)
FS_SAME_REASON(COMPRESSED_FILE, compressed_file)
FS_SAME_REASON(INLINE_DATA, inline_data)
FS_SAME_REASON(ENCRYPTED_VOLUME, encrypted_volume)
FS_SAME_REASON(CHECKED_VOLUME, checked_volume)
FS_SAME_REASON(SOFTWARE_RAID, software_raid)
FS_SAME_REASON(MULTIPATH, multipath)
FS_SAME_REASON(LOOP_DEVICE, loop_device)
FS_SAME_REASON(MEMORY_DISK, memory_disk)
FS_SAME_REASON(NETWORK_STORAGE, network_storage)
FS_SAME_REASON(NOT_NVME, not_nvme)
FS_SAME_REASON(DEVICE_MAPPER, device_mapper)
FS_SAME_REASON(TOO_MANY_DEVICES, too_many_devices)
FS_SAME_REASON(GPU_WITHOUT_AIS, gpu_without_ais)
FS_SAME_REASON(AIS_DISABLED, ais_disabled)
FS_SAME_REASON(VIRTUAL_FUNCTION, virtual_function)
FS_SAME_REASON(INTEGRATED_GPU, integrated_gpu)
FS_SAME_REASON(SMALL_BAR, small_bar)
FS_SAME_REASON(KERNEL_WITHOUT_P2PDMA, kernel_without_p2pdma)
FS_SAME_REASON(NO_PEER_PATH, no_peer_path)
FS_SAME_REASON(NO_GPU, no_gpu)
FS_SAME_REASON(NOT_SMALL, not_small)
FS_SAME_REASON(IN_PAGE_CACHE, in_page_cache)

}  // namespace
}  // namespace fs
