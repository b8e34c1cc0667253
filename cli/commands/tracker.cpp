#include "tracker/tracker.h"

#include <fmt/core.h>

#include <chrono>
#include <thread>

#include "cli/command.h"
#include "cli/commands/commands.h"
#include "cli/interrupt.h"
#include "cli/keys.h"
#include "core/support/error.h"
#include "db/store.h"
#include "tracker/defaults.h"
#include "tracker/store_journal.h"

namespace lathe::cli {
namespace {

/// One line whenever the picture changes.
class StatusLine {
 public:
  void show(const tracker::FarmStatus& status) {
    std::string line = fmt::format("{} workers with {} slots, {} trials waiting, {} leased",
                                   status.workers.size(), status.slots, status.pending, status.leased);
    if (const std::string unserved = tracker::unserved_text(status); !unserved.empty())
      line += "; " + unserved;
    if (line != last_) fmt::print(stderr, "{}\n", line);
    last_ = std::move(line);
  }

 private:
  std::string last_;
};

}  // namespace

int tracker_command(Flags& flags) {
  std::string database, key, allow;
  tracker::TrackerSettings settings{.endpoint = defaults::kTrackerEndpoint};
  flags.add("--listen", settings.endpoint, "tcp://HOST:PORT or ipc://PATH; other hosts need keys");
  flags.add("--db", database, "the tuning database");
  flags.add("--key", key, "file with the tracker's keys, from `tune keygen`");
  flags.add("--allow", allow, "file with the public keys of workers, one a line");
  if (!flags.parse()) return kSuccess;

  if (key.empty() != allow.empty()) fail("--key and --allow belong together");
  if (!key.empty())
    settings.keys = wire::ServerKeys{.secret_key = load_keys(key).secret_key, .allowed = load_allowed(allow)};
  if (database.empty()) database = db::default_database_path();
  settings.artifacts = database + "-artifacts";
  settings.open_journal = [&] { return tracker::open_store_journal(database); };
  settings.log = [](const std::string& line) { fmt::print(stderr, "{}\n", line); };
  InterruptScope interrupt;
  tracker::Tracker tracker(std::move(settings));
  StatusLine line;
  while (!interrupt.interrupted()) {
    line.show(tracker.status());
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
  }
  return kSuccess;
}

}  // namespace lathe::cli
