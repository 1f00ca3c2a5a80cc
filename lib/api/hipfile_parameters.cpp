// The C entry points for properties and parameters.
#include <cstddef>
#include <cstring>

#include "batch.h"
#include "driver.h"

using namespace api;

static_assert(sizeof(hipFileDriverProps_t) == 72 && offsetof(hipFileDriverProps_t, feature_flags) == 32 &&
              offsetof(hipFileDriverProps_t, max_device_cache_size) == 40 &&
              offsetof(hipFileDriverProps_t, max_batch_io_count) == 64);

namespace {

template <typename E>
bool known(E parameter, size_t count) {
  auto number = static_cast<int64_t>(parameter);
  return number >= 0 && number < static_cast<int64_t>(count);
}

hipFileError_t set_size(hipFileSizeTConfigParameter_t parameter, size_t value) {
  return guarded([&] {
    if (!known(parameter, kSizeParameters) || !valid_size(parameter, value))
      return failure(hipFileInvalidValue);
    return Driver::instance().stage([&](Settings& s) { s.sizes[static_cast<size_t>(parameter)] = value; });
  });
}

hipFileError_t set_bool(hipFileBoolConfigParameter_t parameter, bool value) {
  return guarded([&] {
    if (!known(parameter, kBoolParameters)) return failure(hipFileInvalidValue);
    return Driver::instance().stage([&](Settings& s) { s.bools[static_cast<size_t>(parameter)] = value; });
  });
}

}  // namespace

extern "C" {

hipFileError_t hipFileDriverGetProperties(hipFileDriverProps_t* props) {
  return guarded([&] {
    if (!props) return failure(hipFileInvalidValue);
    Driver& driver = Driver::instance();
    const Settings s = driver.settings();
    hipFileDriverProps_t p{};
    p.nvfs.major_version = HIPFILE_VERSION_MAJOR;
    p.nvfs.minor_version = HIPFILE_VERSION_MINOR;
    p.nvfs.poll_thresh_size = s.size(hipFileParamPollthresholdSizeKB);
    p.nvfs.max_direct_io_size = s.size(hipFileParamPropertiesMaxDirectIOSizeKB);
    // Any file can be read and written; peer-to-peer DMA is what needs a runtime with AIS.
    p.nvfs.driver_status_flags = 1u << hipFileNVMeSupported | 1u << hipFileNVMeoFSupported |
                                 1u << hipFileSCSISupported | 1u << hipFileNFSSupported;
    if (auto runtime = driver.runtime(); runtime && runtime->has_ais())
      p.nvfs.driver_status_flags |= 1u << hipFileNVMeP2PSupported;
    if (s.flag(hipFileParamPropertiesUsePollMode)) p.nvfs.driver_control_flags |= 1u << hipFileUsePollMode;
    if (s.flag(hipFileParamPropertiesAllowCompatMode))
      p.nvfs.driver_control_flags |= 1u << hipFileAllowCompatMode;
    p.feature_flags = 1u << hipFileDynRoutingSupported | 1u << hipFileBatchIOSupported |
                      1u << hipFileStreamsSupported | 1u << hipFileParallelIOSupported;
    p.max_device_cache_size = s.size(hipFileParamPropertiesMaxDeviceCacheSizeKB);
    p.per_buffer_cache_size = s.size(hipFileParamPropertiesPerBufferCacheSizeKB);
    p.max_device_pinned_mem_size = s.size(hipFileParamPropertiesMaxDevicePinnedMemSizeKB);
    p.max_batch_io_count = kMostBatchOperations;
    p.max_batch_io_timeout_msecs = static_cast<unsigned>(s.size(hipFileParamPropertiesBatchIOTimeoutMs));
    *props = p;
    return success();
  });
}

hipFileError_t hipFileDriverSetPollMode(bool poll, size_t poll_threshold_size) {
  return guarded([&] {
    if (!valid_size(hipFileParamPollthresholdSizeKB, poll_threshold_size))
      return failure(hipFileInvalidValue);
    return Driver::instance().stage([&](Settings& s) {
      s.bools[hipFileParamPropertiesUsePollMode] = poll;
      s.sizes[hipFileParamPollthresholdSizeKB] = poll_threshold_size;
    });
  });
}
hipFileError_t hipFileDriverSetMaxDirectIOSize(size_t max_direct_io_size) {
  return set_size(hipFileParamPropertiesMaxDirectIOSizeKB, max_direct_io_size);
}
hipFileError_t hipFileDriverSetMaxCacheSize(size_t max_cache_size) {
  return set_size(hipFileParamPropertiesMaxDeviceCacheSizeKB, max_cache_size);
}
hipFileError_t hipFileDriverSetMaxPinnedMemSize(size_t max_pinned_size) {
  return set_size(hipFileParamPropertiesMaxDevicePinnedMemSizeKB, max_pinned_size);
}

hipFileError_t hipFileGetParameterSizeT(hipFileSizeTConfigParameter_t param, size_t* value) {
  return guarded([&] {
    if (!known(param, kSizeParameters) || !value) return failure(hipFileInvalidValue);
    *value = Driver::instance().settings().size(param);
    return success();
  });
}
hipFileError_t hipFileGetParameterBool(hipFileBoolConfigParameter_t param, bool* value) {
  return guarded([&] {
    if (!known(param, kBoolParameters) || !value) return failure(hipFileInvalidValue);
    *value = Driver::instance().settings().flag(param);
    return success();
  });
}
hipFileError_t hipFileGetParameterString(hipFileStringConfigParameter_t param, char* desc_str, int len) {
  return guarded([&] {
    if (!known(param, kStringParameters) || !desc_str || len <= 0) return failure(hipFileInvalidValue);
    const std::string value = Driver::instance().settings().strings[static_cast<size_t>(param)];
    if (value.size() >= static_cast<size_t>(len)) return failure(hipFileInvalidValue);
    memcpy(desc_str, value.c_str(), value.size() + 1);
    return success();
  });
}
hipFileError_t hipFileSetParameterSizeT(hipFileSizeTConfigParameter_t param, size_t value) {
  return set_size(param, value);
}
hipFileError_t hipFileSetParameterBool(hipFileBoolConfigParameter_t param, bool value) {
  return set_bool(param, value);
}
hipFileError_t hipFileSetParameterString(hipFileStringConfigParameter_t param, const char* desc_str) {
  return guarded([&] {
    if (!known(param, kStringParameters) || !desc_str) return failure(hipFileInvalidValue);
    if (Driver::instance().is_open()) return failure(hipFileDriverAlreadyOpen);
    if (!valid_string(param, desc_str)) return failure(hipFileInvalidValue);
    return Driver::instance().stage([&](Settings& s) { s.strings[static_cast<size_t>(param)] = desc_str; });
  });
}

}  // extern "C"
