#include "core/codegen/link.h"

#include <sys/wait.h>

#include <cerrno>

#include "core/support/error.h"
#include "core/support/file.h"
#include "core/support/spawn.h"
#include "core/support/temporary_folder.h"
#include "core/support/unfit.h"

namespace lathe::codegen {
namespace {

/// The exit code of `command`, its output and errors going to the file `log`; -1 when a signal ended it.
int run_program(const std::vector<std::string>& command, const std::string& log) {
  pid_t child = -1;
  try {
    child = spawn({.command = command, .files = {{1, log}}, .descriptors = {{2, 1}}});
  } catch (const Error& error) {
    if (has_program(command[0])) throw Unfit(error.what());
    throw Unfit(
        fmt::format("{}; install binutils, or lld-19 for other CPUs than this machine's", error.what()));
  }
  int status = 0;
  // A signal to this process is no end of the child.
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
}  // namespace

std::string link_shared_object(std::span<const std::string_view> objects, const std::string& linker,
                               const LinkOptions& options) {
  TemporaryFolder folder;
  std::string output = folder / "kernels.so", log = folder / "log";
  // Small files whose bytes depend on the objects alone: no local symbols, no build id, no padding between
  // segments.
  std::vector<std::string> command{
      linker, "-shared", "-z",  "noexecstack", "-z", "noseparate-code", "--build-id=none", "--hash-style=gnu",
      "-x",   "-o",      output};
  if (!options.soname.empty()) command.insert(command.end(), {"-soname", options.soname});
  if (!options.exports.empty()) {
    command.push_back("--version-script=" + folder / "exports");
    write_file(folder / "exports", fmt::format("{{ global: {}; local: *; }};\n", options.exports));
  }
  for (size_t i = 0; i < objects.size(); ++i) {
    command.push_back(folder / fmt::format("{}.o", i));
    write_file(command.back(), objects[i]);
  }
  int code = run_program(std::move(command), log);
  if (code != 0) fail("{} failed with exit code {}: {}", linker, code, read_file(log));
  return read_file(output);
}

}  // namespace lathe::codegen
