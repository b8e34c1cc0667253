#include "bench/child_process.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "core/support/error.h"
#include "core/support/spawn.h"

namespace lathe::bench {

ChildProcess::ChildProcess(const std::vector<std::string>& words) {
  int ends[2];
  CHECK(pipe2(ends, O_CLOEXEC) == 0, "pipe");
  try {
    pid_ = spawn({.command = words, .descriptors = {{STDOUT_FILENO, ends[1]}}});
  } catch (...) {
    for (const int end : ends) close(end);
    throw;
  }
  close(ends[1]);
  output_ = ends[0];
}

ChildProcess::~ChildProcess() {
  if (pid_ > 0) end(SIGKILL);
  close(output_);
}

bool ChildProcess::running() {
  if (pid_ > 0 && waitpid(pid_, nullptr, WNOHANG) == pid_) pid_ = -1;
  return pid_ > 0;
}

std::string ChildProcess::end(int signal) {
  if (pid_ > 0) kill(pid_, signal);
  std::string text;
  char buffer[4096];
  for (ssize_t count; (count = read(output_, buffer, sizeof buffer)) > 0;) text.append(buffer, count);
  if (pid_ > 0) waitpid(pid_, nullptr, 0);
  pid_ = -1;
  return text;
}

std::string beside_us(const std::string& program) {
  return std::filesystem::read_symlink("/proc/self/exe").replace_filename(program);
}

double memory_mib(pid_t process, const std::string& row) {
  std::ifstream status(fmt::format("/proc/{}/status", process));
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(row + ":")) return std::stod(line.substr(row.size() + 1)) / 1024;
  return 0;
}

}  // namespace lathe::bench
