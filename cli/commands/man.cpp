#include <fmt/core.h>

#include "cli/command.h"
#include "cli/commands/commands.h"
#include "cli/manual.h"
#include "cli/messages.h"
#include "core/support/disk.h"
#include "core/support/error.h"
#include "core/support/file.h"

namespace lathe::cli {

int man_command(Flags& flags) {
  std::string name, folder;
  flags.add("COMMAND", name, "whose page; that of `tune` itself when not given");
  flags.add("--out DIR", folder, "write the pages of all commands into this folder instead");
  if (!flags.parse()) return kSuccess;
  if (folder.empty()) {
    fmt::print("{}", manual_page(find_command(name == "tune" ? "" : name)));
    return kSuccess;
  }
  if (!name.empty()) fail("tune man: --out writes all pages: give no COMMAND");
  make_folder(folder);
  for (const Command& command : commands())
    write_file(fmt::format("{}/{}.1", folder, page_name(command)), manual_page(command));
  say("{} pages in {}", commands().size(), folder);
  return kSuccess;
}

}  // namespace lathe::cli
