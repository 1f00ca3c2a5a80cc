// HIP IPC handles for another process: as text, and through the environment of a program that is started anew, because
// a child of fork alone has no runtime.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "gpu/hip.h"

namespace ipc_test {

inline std::string to_hex(const hip::IpcMemHandle& handle) {
  std::string out;
  for (char c : handle.reserved) {
    char digits[3];
    snprintf(digits, sizeof digits, "%02x", static_cast<unsigned char>(c));
    out += digits;
  }
  return out;
}

inline hip::IpcMemHandle from_hex(const std::string& text) {
  hip::IpcMemHandle handle{};
  for (size_t i = 0; i < sizeof handle && 2 * i + 2 <= text.size(); i++)
    handle.reserved[i] = static_cast<char>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
  return handle;
}

/// What the other process was given.
struct Given {
  std::string library = getenv("IPC_LIBRARY");
  hip::IpcMemHandle handle = from_hex(getenv("IPC_HANDLE")), inside = from_hex(getenv("IPC_INSIDE"));
};

/// Runs `program --open-ipc-handle`; its status, 0 if all went well.
inline int open_in_another_process(const std::string& program, const std::string& library,
                                   const hip::IpcMemHandle& handle, const hip::IpcMemHandle& inside) {
  setenv("IPC_LIBRARY", library.c_str(), 1);
  setenv("IPC_HANDLE", to_hex(handle).c_str(), 1);
  setenv("IPC_INSIDE", to_hex(inside).c_str(), 1);
  const pid_t child = fork();
  if (child == 0) {
    execl(program.c_str(), program.c_str(), "--open-ipc-handle", nullptr);
    _exit(1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : status;
}

}  // namespace ipc_test
