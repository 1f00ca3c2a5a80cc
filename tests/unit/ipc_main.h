// The main() of test programs that start themselves as the other process of HIP IPC.
#pragma once

#include <gtest/gtest.h>

#include <string>

namespace ipc_test {

/// `open_ipc_handle`: what the other process does; its status.
inline int main_of(int argc, char** argv, int (*open_ipc_handle)()) {
  if (argc > 1 && std::string(argv[1]) == "--open-ipc-handle") return open_ipc_handle();
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}

}  // namespace ipc_test
