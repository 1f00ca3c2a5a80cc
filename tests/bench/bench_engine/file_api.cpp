#include "file_api.h"

#include <dlfcn.h>

namespace bench {

posix::Result<FileApi> FileApi::load(const std::string& path, const std::string& prefix) {
  // Its own symbols first: another library of the same names may be in the process.
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  if (!library) return posix::failure(ENOENT, std::string("load (") + dlerror() + ")");
  FileApi api;
  api.prefix = prefix;
  auto find = [&](const char* name, auto& slot) {
    slot = reinterpret_cast<std::remove_reference_t<decltype(slot)>>(dlsym(library, (prefix + name).c_str()));
  };
  find("DriverOpen", api.driver_open);
  find("HandleRegister", api.handle_register);
  find("HandleDeregister", api.handle_deregister);
  find("BufRegister", api.buffer_register);
  find("BufDeregister", api.buffer_deregister);
  find("Read", api.read);
  find("Write", api.write);
  find("ReadAsync", api.read_async);
  find("WriteAsync", api.write_async);
  find("StreamRegister", api.stream_register);
  find("StreamDeregister", api.stream_deregister);
  find("BatchIOSetUp", api.batch_set_up);
  find("BatchIOSubmit", api.batch_submit);
  find("BatchIOGetStatus", api.batch_get_status);
  find("BatchIODestroy", api.batch_destroy);
  find("LastOutcome", api.last_outcome);
  if (!api.driver_open || !api.handle_register || !api.handle_deregister || !api.buffer_register ||
      !api.buffer_deregister || !api.read || !api.write)
    return posix::failure(ENOSYS, path + " lacks the synchronous calls");
  if (auto opened = api.check("DriverOpen", api.driver_open()); !opened)
    return tl::unexpected(opened.error());
  return api;
}

posix::Result<void> FileApi::check(const char* call, hipFileError_t error) const {
  if (error.err == hipFileSuccess) return {};
  std::string text = prefix + call + " (error " + std::to_string(error.err);
  if (error.hip_drv_err != hipSuccess) text += ", of the driver " + std::to_string(error.hip_drv_err);
  return posix::failure(EIO, text + ")");
}

posix::Error FileApi::failure(const char* call, ssize_t result) const {
  if (result == -1) return {errno, prefix + call};
  if (result < 0) return {EIO, prefix + call + " (error " + std::to_string(-result) + ")"};
  return {ENODATA, prefix + call + " (" + std::to_string(result) + " bytes)"};
}

}  // namespace bench
