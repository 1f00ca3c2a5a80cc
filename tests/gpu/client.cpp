#include "client.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <iostream>
#include <map>
#include <sstream>

#include "../unit/ipc_handle.h"
#include "vmm.h"

namespace gpu_test {
namespace {

bool equals(const char* device, size_t length, unsigned seed) {
  std::vector<char> got(length);
  return api().hipMemcpy(got.data(), device, length, hip::kMemcpyDeviceToHost) == hip::kSuccess &&
         got == pattern(length, seed);
}

}  // namespace

Client::Client() {
  int down[2], up[2];
  if (pipe2(down, O_CLOEXEC) < 0 || pipe2(up, O_CLOEXEC) < 0) abort();
  pid_ = fork();
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(down[0], 0);
    dup2(up[1], 1);
    execl("/proc/self/exe", "gpu-client", "--gpu-client", nullptr);
    _exit(127);
  }
  close(down[0]);
  close(up[1]);
  to_ = fdopen(down[1], "w");
  from_ = fdopen(up[0], "r");
}

Client::~Client() {
  if (to_) fclose(to_);  // which it takes as the end
  if (from_) fclose(from_);
  if (pid_ > 0) waitpid(pid_, nullptr, 0);
}

void Client::kill() {
  ::kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

std::string Client::ask(const std::string& question) {
  fprintf(to_, "%s\n", question.c_str());
  fflush(to_);
  char line[512] = "";
  if (!fgets(line, sizeof line, from_)) ADD_FAILURE() << "the client ended at: " << question;
  std::string answer = line;
  while (!answer.empty() && answer.back() == '\n') answer.pop_back();
  return answer;
}

int Client::allocate(size_t size, unsigned seed) {
  return std::stoi(ask("allocate " + std::to_string(size) + " " + std::to_string(seed)));
}
bool Client::holds(int allocation, size_t offset, size_t length, unsigned seed) {
  std::ostringstream question;
  question << "holds " << allocation << " " << offset << " " << length << " " << seed;
  return ask(question.str()) == "yes";
}
bool Client::free(int allocation) { return ask("free " + std::to_string(allocation)) == "yes"; }

tl::expected<hip::IpcMemHandle, hip::Error> Client::handle(int allocation, size_t offset) {
  std::string answer = ask("handle " + std::to_string(allocation) + " " + std::to_string(offset));
  if (answer.starts_with("error "))
    return tl::unexpected(static_cast<hip::Error>(std::stoi(answer.substr(6))));
  return ipc_test::from_hex(answer);
}

posix::Fd Client::fetch(int fd) const {
  posix::Fd process(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)));
  return posix::Fd(static_cast<int>(syscall(SYS_pidfd_getfd, process.get(), fd, 0)));
}

posix::Fd Client::shared_segment(unsigned seed, size_t& size) {
  std::istringstream answer(ask("segment " + std::to_string(seed)));
  int fd = -1;
  size = 0;
  answer >> fd >> size;
  return fd < 0 ? posix::Fd() : fetch(fd);
}
bool Client::segment_holds(size_t offset, size_t length, unsigned seed) {
  std::ostringstream question;
  question << "segment_holds " << offset << " " << length << " " << seed;
  return ask(question.str()) == "yes";
}

tl::expected<posix::Fd, hip::Error> Client::dma_buf(int allocation) {
  std::string answer = ask("dma_buf " + std::to_string(allocation));
  if (answer.starts_with("error "))
    return tl::unexpected(static_cast<hip::Error>(std::stoi(answer.substr(6))));
  return fetch(std::stoi(answer));
}

int run_client() {
  if (!missing().empty()) return 1;
  std::vector<std::unique_ptr<DeviceMemory>> allocations;
  std::unique_ptr<Segment> segment;
  auto answer = [](auto... parts) { (std::cout << ... << parts) << std::endl; };
  auto yes = [&](bool b) { answer(b ? "yes" : "no"); };
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream in(line);
    std::string word;
    size_t index = 0, offset = 0, length = 0;
    unsigned seed = 0;
    in >> word;
    if (word == "allocate") {
      in >> length >> seed;
      allocations.push_back(std::make_unique<DeviceMemory>(length));
      allocations.back()->fill(pattern(length, seed));
      answer(allocations.size() - 1);
    } else if (word == "holds") {
      in >> index >> offset >> length >> seed;
      yes(equals(allocations.at(index)->address() + offset, length, seed));
    } else if (word == "free") {
      in >> index;
      allocations.at(index).reset();
      yes(true);
    } else if (word == "handle") {
      in >> index >> offset;
      hip::IpcMemHandle handle{};
      hip::Error error = api().hipIpcGetMemHandle(&handle, allocations.at(index)->address() + offset);
      error == hip::kSuccess ? answer(ipc_test::to_hex(handle)) : answer("error ", static_cast<int>(error));
    } else if (word == "segment") {
      in >> seed;
      DeviceMemory context(16);
      if (auto vmm = Vmm::load()) segment = std::make_unique<Segment>(*vmm, 2);
      if (!segment || !segment->address()) {
        answer("-1 0");
        continue;
      }
      auto bytes = pattern(segment->part_size(), seed);
      if (api().hipMemcpy(segment->address(), bytes.data(), bytes.size(), hip::kMemcpyHostToDevice) !=
          hip::kSuccess) {
        answer("-1 0");
        continue;
      }
      answer(segment->share(0), " ", segment->part_size());
    } else if (word == "segment_holds") {
      in >> offset >> length >> seed;
      yes(equals(segment->address() + offset, length, seed));
    } else if (word == "dma_buf") {
      in >> index;
      if (!api().hipMemGetHandleForAddressRange) {
        answer("error ", static_cast<int>(hip::kErrorNotSupported));
        continue;
      }
      int fd = -1;
      auto& memory = *allocations.at(index);
      hip::Error error = api().hipMemGetHandleForAddressRange(&fd, memory.address(), memory.size(),
                                                              hip::kMemRangeHandleTypeDmaBufFd, 0);
      error == hip::kSuccess ? answer(fd) : answer("error ", static_cast<int>(error));
    } else {
      return 2;
    }
  }
  return 0;
}

}  // namespace gpu_test
