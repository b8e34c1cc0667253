// Runs the `tune` binary.
#pragma once

#include <sys/wait.h>

#include <cstdio>
#include <string>

namespace lathe::cli {

struct Finished {
  int code = 0;        // exit code
  std::string output;  // stdout and stderr together
};

/// Runs `tune` with the arguments, as a shell reads them.
inline Finished tune(const std::string& arguments) {
  FILE* pipe = popen((std::string(TUNE) + " " + arguments + " 2>&1").c_str(), "r");
  Finished finished;
  char buffer[4096];
  for (size_t n; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) finished.output.append(buffer, n);
  int status = pclose(pipe);
  finished.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return finished;
}

}  // namespace lathe::cli
