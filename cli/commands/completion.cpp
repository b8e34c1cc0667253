#include "cli/completion.h"

#include <fmt/core.h>

#include "cli/command.h"
#include "cli/commands/commands.h"

namespace lathe::cli {

int completion_command(Flags& flags) {
  std::string shell;
  flags.add("SHELL bash|zsh|fish", shell, "the shell", Flags::Need::kRequired);
  if (!flags.parse()) return kSuccess;
  fmt::print("{}", shell == "bash"  ? bash_completion()
                   : shell == "zsh" ? zsh_completion()
                                    : fish_completion());
  return kSuccess;
}

}  // namespace lathe::cli
