#include "bench/child_process.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "core/support/error.h"

extern char** environ;

namespace lathe::bench {

ChildProcess::ChildProcess(std::vector<std::string> words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  int ends[2];
  CHECK(pipe2(ends, O_CLOEXEC) == 0, "pipe");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  const int error = posix_spawn(&pid_, pointers[0], &actions, nullptr, pointers.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  output_ = ends[0];
  if (error == 0) return;
  close(output_);
  fail("cannot start {}", words[0]);
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
