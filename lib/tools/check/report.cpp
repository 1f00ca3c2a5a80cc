#include "report.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

namespace check {
namespace {

using nlohmann::json;

using Row = std::array<std::string, 6>;

std::string table(const std::vector<Row>& rows) {
  std::array<size_t, 6> widths{};
  for (const auto& row : rows)
    for (size_t i = 0; i < row.size(); i++) widths[i] = std::max(widths[i], row[i].size());
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); i++) line += row[i] + std::string(widths[i] - row[i].size() + 2, ' ');
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

std::string component(const std::string& name, bool ok) {
  constexpr size_t kWidth = 24;
  return "\t" + name + std::string(kWidth - std::min(kWidth, name.size()), ' ') + ": " +
         (ok ? "True" : "False") + "\n";
}

json to_json(const std::optional<bool>& value) { return value ? json(*value) : json(nullptr); }

json to_json(const engine::Objection& objection) {
  return {{"reason", static_cast<uint32_t>(objection.reason)},
          {"text", objection.text()},
          {"advice", engine::advice(objection.reason)},
          {"certain", objection.certain}};
}

json to_json(const std::vector<engine::Objection>& objections) {
  json list = json::array();
  for (const auto& objection : objections) list.push_back(to_json(objection));
  return list;
}

json to_json(const gpu::DeviceFacts& gpu) {
  json out{{"address", gpu.address},          {"name", gpu.name},
           {"ais", to_json(gpu.ais)},         {"virtual_function", gpu.virtual_function},
           {"integrated", gpu.integrated},    {"xgmi_to_cpu", gpu.xgmi_to_cpu},
           {"vram_bytes", gpu.vram_bytes},    {"visible_bytes", gpu.visible_bytes},
           {"ais_disabled", gpu.ais_disabled}};
  const auto reason = engine::refuse_device(gpu);
  out["reason"] = static_cast<uint32_t>(reason);
  if (reason != engine::Reason::none) {
    out["text"] = engine::text(reason);
    out["advice"] = engine::advice(reason);
  }
  return out;
}

json to_json(const engine::Verdict& verdict) {
  json routes = json::array();
  for (const auto& line : verdict.routes)
    routes.push_back({{"route", engine::name(line.route)},
                      {"reason", static_cast<uint32_t>(line.reason)},
                      {"why", line.why},
                      {"advice", line.advice}});
  return {{"route", engine::name(verdict.plan.route())},
          {"routes", routes},
          {"against_peer", to_json(verdict.peer)},
          {"against_device_pages", to_json(verdict.device_pages)},
          {"volume", verdict.volume},
          {"gpu", verdict.device}};
}

json to_json(const DmabufAnswer& answer) {
  return {{"available", !answer.failed}, {"tested", answer.tested}, {"text", answer.text()}};
}

std::string dmabuf_line(const std::optional<DmabufAnswer>& answer) {
  return answer ? "io_uring with registered dma-bufs: " + answer->text() + "\n" : "";
}

json to_json(const storage::ExtentFacts& extents) {
  return {{"extents", extents.extents},
          {"complete", extents.complete},
          {"data_bytes", extents.data_bytes},
          {"hole_bytes", extents.hole_bytes},
          {"unwritten_bytes", extents.unwritten_bytes},
          {"shared_bytes", extents.shared_bytes},
          {"encoded_bytes", extents.encoded_bytes},
          {"inline", extents.inline_data}};
}

}  // namespace

std::string text_report(const SystemCheck& system, const std::string& release, bool verbose) {
  std::string text = "\n" + release + "\n\n";
  if (verbose) {
    text += system.libraries.empty() ? "Found no HIP libraries\n" : "Found these HIP libraries:\n";
    for (const auto& library : system.libraries)
      text += "\t" + library.path + (library.ais ? " (AIS supported)\n" : " (AIS NOT supported)\n");
    text += dmabuf_line(system.dmabuf) + "\n";
  }
  if (system.volumes.empty()) {
    text += "No block-backed volumes found.\n";
  } else {
    std::vector<Row> rows{{"MOUNTPOINT", "FSTYPE", "DEVICE", "BACKING", "O_DIRECT", "HIPFILE"}};
    for (const auto& v : system.volumes)
      rows.push_back({v.mountpoint, v.type, v.source, v.backing, name(v.direct_io),
                      v.hipfile == Answer::unverified ? "?" : name(v.hipfile)});
    text += "Mounted volumes:\n" + table(rows);
  }
  text += "\nAIS support in:\n" + component("Kernel P2PDMA support", system.kernel_ok()) +
          component("HIP runtime", system.runtime_ok()) + component("amdgpu", system.driver_ok()) +
          component("hipFile-capable volume", system.volume_ok());
  if (!system.gpus.empty()) text += "\n";
  for (const auto& gpu : system.gpus) text += gpu.describe() + "\n";
  const auto advice = system.advice();
  if (!advice.empty()) text += "\nWhat keeps data from the direct path:\n";
  for (const auto& line : advice) text += "\t" + line + "\n";
  return text;
}

std::string text_report(const FileCheck& file) {
  std::string text = file.path + "\n";
  if (!file.told_by_mount.empty()) return text + file.told_by_mount;
  for (const auto& verdict : file.verdicts) text += verdict.text();
  if (file.extents && !file.extents->describe().empty())
    text += "extents: " + file.extents->describe() + "\n";
  return text + dmabuf_line(file.dmabuf);
}

std::string json_report(const SystemCheck& system, const std::string& release) {
  json out{{"kernel", release},
           {"kernel_p2pdma", to_json(system.kernel.p2pdma)},
           {"hip_runtime", system.runtime_ok()},
           {"amdgpu", to_json(system.kernel.ais)},
           {"capable_volume", system.volume_ok()},
           {"ais", system.all_ok()},
           {"libraries", json::array()},
           {"gpus", json::array()},
           {"volumes", json::array()},
           {"advice", system.advice()}};
  if (system.dmabuf) out["io_uring_dmabuf"] = to_json(*system.dmabuf);
  for (const auto& library : system.libraries)
    out["libraries"].push_back({{"path", library.path}, {"ais", library.ais}});
  for (const auto& gpu : system.gpus) out["gpus"].push_back(to_json(gpu));
  for (const auto& v : system.volumes)
    out["volumes"].push_back({{"mountpoint", v.mountpoint},
                              {"fstype", v.type},
                              {"device", v.source},
                              {"backing", v.backing},
                              {"stack", v.stack},
                              {"o_direct", name(v.direct_io)},
                              {"hipfile", name(v.hipfile)},
                              {"objections", to_json(v.objections)}});
  return out.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

std::string json_report(const std::vector<FileCheck>& files) {
  json out = json::array();
  for (const auto& file : files) {
    json one{{"path", file.path}, {"peer", file.ok()}};
    if (!file.problem.empty()) one["problem"] = file.problem;
    if (!file.told_by_mount.empty()) one["told_by_mount"] = file.told_by_mount;
    for (const auto& verdict : file.verdicts) one["verdicts"].push_back(to_json(verdict));
    if (file.extents) one["extents"] = to_json(*file.extents);
    if (file.dmabuf) one["io_uring_dmabuf"] = to_json(*file.dmabuf);
    out.push_back(std::move(one));
  }
  return json{{"files", out}}.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace check
