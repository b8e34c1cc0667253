#include "cli/command.h"
#include "cli/commands/commands.h"
#include "cli/keys.h"

namespace lathe::cli {

int keygen_command(Flags& flags) {
  std::string path = "lathe.key";
  flags.add("--out FILE", path, "file for the keys; only you can read it");
  if (!flags.parse()) return kSuccess;
  const wire::KeyPair keys = wire::make_keys();
  save_keys(path, keys);
  print_other_half(path, keys.public_key);
  return kSuccess;
}

}  // namespace lathe::cli
