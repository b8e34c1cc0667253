// Runs the `tune` binary, and others.
#pragma once

#include <sys/wait.h>

#include <cstdio>
#include <string>

namespace lathe::cli {

struct Finished {
  int code = 0;        // exit code
  std::string output;  // stdout and stderr together
};

/// Runs a command, as a shell reads it.
inline Finished run_command(const std::string& command) {
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  Finished finished;
  char buffer[4096];
  for (size_t n; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) finished.output.append(buffer, n);
  int status = pclose(pipe);
  finished.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return finished;
}

/// Runs `tune` with the arguments.
inline Finished tune(const std::string& arguments) {
  return run_command(std::string(TUNE) + " " + arguments);
}

}  // namespace lathe::cli
