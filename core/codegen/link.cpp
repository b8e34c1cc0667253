#include "core/codegen/link.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "core/support/error.h"
#include "core/support/temporary_folder.h"
#include "core/support/text.h"

extern char** environ;

namespace lathe::codegen {
namespace {

/// The exit code of `argv`, its output and errors going to the file `log`; -1 when a signal ended it.
int run_program(std::vector<std::string> argv, const std::string& log) {
  std::vector<char*> pointers;
  for (std::string& arg : argv) pointers.push_back(arg.data());
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t child = 0;
  int error = posix_spawnp(&child, pointers[0], &actions, nullptr, pointers.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error)
    fail("cannot run `{}`: {}; install binutils, or lld-19 for other CPUs than this machine's", argv[0],
         std::strerror(error));
  int status = 0;
  // A signal to this process is no end of the child.
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
}  // namespace

bool has_program(const std::string& name) {
  const char* path = getenv("PATH");
  for (const std::string& folder : split_text(path ? path : "", ':'))
    if (access((folder + "/" + name).c_str(), X_OK) == 0) return true;
  return false;
}

std::string link_shared_object(std::span<const std::string_view> objects, const std::string& linker) {
  TemporaryFolder folder;
  std::string output = folder / "kernels.so", log = folder / "log";
  // Small files whose bytes depend on the objects alone: no local symbols, no build id, no padding between
  // segments.
  std::vector<std::string> command{
      linker, "-shared", "-z",  "noexecstack", "-z", "noseparate-code", "--build-id=none", "--hash-style=gnu",
      "-x",   "-o",      output};
  for (size_t i = 0; i < objects.size(); ++i) {
    command.push_back(folder / fmt::format("{}.o", i));
    write_file(command.back(), objects[i]);
  }
  int code = run_program(std::move(command), log);
  if (code != 0) fail("{} failed with exit code {}: {}", linker, code, read_file(log));
  return read_file(output);
}

}  // namespace lathe::codegen
