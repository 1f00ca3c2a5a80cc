// A /sys and /proc made of files in a temporary directory.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "sysfs/tree.h"

namespace fake {

class Sysfs {
 public:
  Sysfs() {
    char name[] = "/var/tmp/fake_sysfs_XXXXXX";
    if (!mkdtemp(name)) abort();
    root_ = name;
  }
  ~Sysfs() {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }
  Sysfs(const Sysfs&) = delete;
  Sysfs& operator=(const Sysfs&) = delete;

  const std::string& root() const { return root_; }
  sysfs::Tree tree() const { return sysfs::Tree(root_); }

  void file(const std::string& path, const std::string& text) {
    make_parent(path);
    std::ofstream(root_ + path, std::ios::binary) << text;
  }
  void directory(const std::string& path) { std::filesystem::create_directories(root_ + path); }
  /// A relative link, as in sysfs.
  void link(const std::string& path, const std::string& target) {
    make_parent(path);
    std::filesystem::create_symlink(
        std::filesystem::path(target).lexically_relative(std::filesystem::path(path).parent_path()),
        root_ + path);
  }

  /// A PCI function below `parent` ("pci0000:00/0000:00:01.0"); its directory.
  std::string pci(const std::string& parent, const std::string& address, const std::string& vendor = "0x144d",
                  const std::string& device = "0xa80a", const std::string& pci_class = "0x010802") {
    const std::string path = "/sys/devices/" + parent + "/" + address;
    file(path + "/vendor", vendor + "\n");
    file(path + "/device", device + "\n");
    file(path + "/class", pci_class + "\n");
    link("/sys/bus/pci/devices/" + address, path);
    return path;
  }

  /// A block device in its directory.
  void block(const std::string& path, const std::string& number) {
    file(path + "/dev", number + "\n");
    link("/sys/dev/block/" + number, path);
    link("/sys/block/" + sysfs::base_name(path), path);
  }
  /// nvme0n1 on a controller at 0000:01:00.0, and so on; its directory.
  std::string nvme(unsigned n, const std::string& number) {
    const std::string index = std::to_string(n);
    const std::string port = "0000:00:0" + std::to_string(n + 1) + ".0";
    if (!std::filesystem::exists(root_ + "/sys/bus/pci/devices/" + port))
      pci("pci0000:00", port, "0x8086", "0x2030", "0x060400");
    const std::string controller = pci("pci0000:00/" + port, "0000:0" + std::to_string(n + 1) + ":00.0");
    const std::string path = controller + "/nvme/nvme" + index + "/nvme" + index + "n1";
    file(controller + "/nvme/nvme" + index + "/transport", "pcie\n");
    file(controller + "/nvme/nvme" + index + "/state", "live\n");
    block(path, number);
    return path;
  }
  std::string partition(const std::string& disk, const std::string& name, const std::string& number) {
    const std::string path = disk + "/" + name;
    file(path + "/partition", "1\n");
    block(path, number);
    return path;
  }
  /// A device in /sys/devices/virtual/block over others.
  std::string over(const std::string& name, const std::string& number,
                   const std::vector<std::string>& below) {
    const std::string path = "/sys/devices/virtual/block/" + name;
    block(path, number);
    directory(path + "/slaves");
    for (const auto& device : below) link(path + "/slaves/" + sysfs::base_name(device), device);
    return path;
  }
  std::string mapped(const std::string& name, const std::string& number,
                     const std::vector<std::string>& below, const std::string& uuid,
                     const std::string& dm_name) {
    const std::string path = over(name, number, below);
    file(path + "/dm/uuid", uuid + "\n");
    file(path + "/dm/name", dm_name + "\n");
    return path;
  }

 private:
  void make_parent(const std::string& path) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
  }
  std::string root_;
};

}  // namespace fake
