// What tests in the virtual machine do with files.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "commands.h"

int main(int argc, char** argv) {
  vm::Options o;
  CLI::App app("Moves data between files and memory in every way there is, and compares it.", "vm_io");
  app.require_subcommand(1);
  int status = 0;
  auto command = [&](const char* name, const char* text, int (*run)(const vm::Options&)) {
    auto* c = app.add_subcommand(name, text);
    c->add_option("DIRECTORY", o.directory)->required();
    c->callback([&o, &status, run] { status = run(o); });
    return c;
  };
  auto with_memory = [&](CLI::App* c) {
    c->add_option("--mount", o.mount, "where a mount shows DIRECTORY");
    c->add_option("--p2pmem", o.allocate, "p2pmem/allocate of a PCI device");
    c->add_option("--bytes", o.bytes)->required();
    return c;
  };
  auto* transfer =
      with_memory(command("transfer", "by hipFile and through the mount, with every memory", vm::transfer));
  transfer->add_flag("--only-p2pmem", o.only_device_memory);
  transfer->add_flag("--no-page-cache", o.no_page_cache, "nothing may be in the page cache");
  transfer->add_option("--runtime-route", o.routes["runtime"],
                       "expected with memory of the runtime: ROUTE|... or kernel");
  transfer->add_option("--p2pmem-route", o.routes["p2pmem"],
                       "expected with memory of a PCI device: ROUTE|... or kernel");
  with_memory(command("mixed", "read whole blocks with an odd head and tail", vm::mixed))
      ->add_flag("--only-p2pmem", o.only_device_memory);
  auto* prepare = command("prepare", "make the file `in` and print the disk's sector of a byte", vm::prepare);
  prepare->add_option("--bytes", o.bytes)->required();
  prepare->add_option("--bad-offset", o.bad_offset)->required();
  with_memory(command("read-failing", "read `in`, of which a part cannot be read", vm::read_failing))
      ->add_option("--bad-offset", o.bad_offset)
      ->required();
  with_memory(command("write-failing", "write where nothing can be written", vm::write_failing));
  auto* stall =
      with_memory(command("stall", "read from a disk that has stopped, and from another", vm::stall));
  stall->add_option("--slow", o.slow, "directory in DIRECTORY on the disk that stops")->required();
  stall->add_option("--quick", o.quick, "directory in DIRECTORY on another disk")->required();
  stall->add_option("--slow-requests", o.slow_requests)->capture_default_str();
  stall->add_option("--suspend", o.suspend, "command that stops the disk")->required();
  stall->add_option("--resume", o.resume, "command that lets it go on")->required();
  command("encrypt", "make it an encrypted directory", vm::encrypt);
  setvbuf(stdout, nullptr, _IOLBF, 0);
  CLI11_PARSE(app, argc, argv);
  return status;
}
