// That the device code is in the program, for every target that was asked for.
#include "kernels/code_objects.h"

#include <elf.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <sstream>
#include <string_view>

namespace {

constexpr unsigned char kCodeObjectV4 = 2;  // EI_ABIVERSION
constexpr const char* kNames[] = {"hipfile_copy_segments", "hipfile_crc32c"};

// The entries of a clang offload bundle: "__CLANG_OFFLOAD_BUNDLE__", their number, and for each its offset, size,
// length of its name, and name; numbers have 8 bytes.
std::map<std::string, std::string_view> entries(std::string_view bundle) {
  std::map<std::string, std::string_view> found;
  constexpr std::string_view kMagic = "__CLANG_OFFLOAD_BUNDLE__";
  if (!bundle.starts_with(kMagic)) return found;
  size_t at = kMagic.size();
  auto number = [&] {
    uint64_t value = 0;
    bundle.copy(reinterpret_cast<char*>(&value), sizeof value, at);
    at += sizeof value;
    return value;
  };
  for (uint64_t left = number(); left > 0; left--) {
    const uint64_t offset = number(), size = number(), length = number();
    found[std::string(bundle.substr(at, length))] = bundle.substr(offset, size);
    at += length;
  }
  return found;
}

std::string_view text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST(CodeObjects, HoldBothKernelsForEveryTarget) {
  std::istringstream targets(KERNEL_TARGETS);
  const auto found = entries(text(kernels::amdgpu_bundle()));
  size_t count = 0;
  for (std::string target; targets >> target; count++) {
    auto entry = found.find("hipv4-amdgcn-amd-amdhsa--" + target);
    ASSERT_NE(entry, found.end()) << target;
    Elf64_Ehdr header;
    ASSERT_GE(entry->second.size(), sizeof header) << target;
    memcpy(&header, entry->second.data(), sizeof header);
    EXPECT_EQ(memcmp(header.e_ident, ELFMAG, SELFMAG), 0) << target;
    EXPECT_EQ(header.e_machine, EM_AMDGPU) << target;
    EXPECT_EQ(header.e_ident[EI_ABIVERSION], kCodeObjectV4) << target;
    for (const char* name : kNames)
      EXPECT_NE(entry->second.find(std::string(name) + ".kd"), std::string_view::npos)
          << target << " " << name;
  }
  if (count == 0) {
    EXPECT_TRUE(kernels::amdgpu_bundle().empty());
    GTEST_SKIP() << "built without a compiler for AMD GPUs";
  }
  EXPECT_EQ(found.size(), count + 1) << "more than the targets and the empty entry for the host";
}

TEST(CodeObjects, HoldPtxWithBothKernelsAndWideLoadsAndStores) {
  const std::string_view ptx = text(kernels::ptx());
  if (ptx.empty()) GTEST_SKIP() << "built without a compiler for NVIDIA GPUs";
  EXPECT_EQ(ptx.find('\0'), ptx.size() - 1);
  for (const char* name : kNames)
    EXPECT_NE(ptx.find(".entry " + std::string(name)), std::string_view::npos) << name;
  auto has = [&](std::initializer_list<const char*> any) {
    return std::any_of(any.begin(), any.end(),
                       [&](const char* s) { return ptx.find(s) != std::string_view::npos; });
  };
  EXPECT_TRUE(has({"ld.global.v2.b64", "ld.global.v2.u64", "ld.v2.u64", "ld.global.v4", "ld.v4"}));
  EXPECT_TRUE(has({"st.global.v2.b64", "st.global.v2.u64", "st.v2.u64", "st.global.v4", "st.v4"}));
}

}  // namespace
