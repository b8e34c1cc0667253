// `tune token`: the tracker's file of principals gets the digest of a token, which lets nobody in; the token
// itself is in its user's file alone.
#include "cli/command.h"
#include "cli/commands/commands.h"
#include "cli/keys.h"
#include "core/support/error.h"
#include "tracker/principals.h"

namespace lathe::cli {

int token_command(Flags& flags) {
  tracker::Principal principal;
  std::string role = "submitter", path = "lathe.token";
  double weight = principal.weight;
  flags.add("--name NAME", principal.name, "whose it is", Flags::Need::kRequired);
  flags.add("--role viewer|submitter|admin", role, "each may do what those before it may");
  flags.add_positive("--weight", weight, "of the owner, when devices are shared");
  flags.add("--jobs", principal.open_jobs, 0, 1'000'000, "as many may be open at once");
  flags.add("--out FILE", path, "file for the token; only you can read it");
  if (!flags.parse()) return kSuccess;
  if (principal.name.find_first_of(" \t\n#") != std::string::npos)
    fail("--name {}: must be one word without #", principal.name);
  tracker::check_name(principal.name, "--name");
  principal.role = tracker::parse_role(role, "--role");
  // As the tracker will, which serves nobody of a file with one line that it refuses.
  if (weight < tracker::kLeastWeight || weight > tracker::kMostWeight)
    fail("--weight: `{}` must be a number from {} to {}", weight, tracker::kLeastWeight,
         tracker::kMostWeight);
  principal.weight = weight;
  const std::string token = tracker::make_token();
  save_secret(path, token + "\n");
  print_other_half(path, principal_line(principal, token));
  return kSuccess;
}

}  // namespace lathe::cli
