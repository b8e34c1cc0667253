// `tune tracker`: the farm for workers and, with --http, jobs and pages for users: one process over one
// database.
#include "tracker/tracker.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <iterator>
#include <thread>

#include "cli/command.h"
#include "cli/commands/commands.h"
#include "cli/interrupt.h"
#include "cli/keys.h"
#include "cli/messages.h"
#include "core/codegen/host_target.h"
#include "core/models/zoo.h"
#include "core/support/descriptors.h"
#include "core/support/error.h"
#include "core/support/host_name.h"
#include "core/support/loopback.h"
#include "core/support/service_error.h"
#include "core/support/spare_threads.h"
#include "core/support/working_folder.h"
#include "dashboards/pages.h"
#include "db/database_error.h"
#include "db/store.h"
#include "tracker/api.h"
#include "tracker/defaults.h"
#include "tracker/job_keeper.h"
#include "tracker/store_journal.h"
#include "tuner/precision.h"
#include "workers/confine.h"

namespace lathe::cli {
namespace {

struct TrackerFlags {
  std::string listen = defaults::kTrackerEndpoint, database, key, allow;
  std::string http, principals, certificate, certificate_key, files, artifacts;
  int64_t searches = 4, models_gib = defaults::kModelStoreBytes >> 30;
  double device_wait = std::chrono::duration<double>(defaults::kWaitsForDevices).count();
  bool standby = false;
};

/// One line whenever the picture changes.
class StatusLine {
 public:
  void show(const tracker::FarmStatus& status) {
    std::string line = fmt::format("{} workers with {} slots, {} trials waiting, {} leased",
                                   status.workers.size(), status.slots, status.pending, status.leased);
    if (const std::string unserved = tracker::unserved_text(status); !unserved.empty())
      line += "; " + unserved;
    if (line != last_) say("{}", line);
    last_ = std::move(line);
  }

 private:
  std::string last_;
};

void log_line(const std::string& line) { say("{}", line); }

/// HOST:PORT, where HOST may be * and [::1] is one.
http::Settings http_place(const std::string& text) {
  http::Settings settings;
  // The last one: an address of IPv6 has some of its own.
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos) fail("--http {}: must be HOST:PORT", text);
  settings.host = text.substr(0, colon);
  if (settings.host.starts_with('[') && settings.host.ends_with(']'))
    settings.host = settings.host.substr(1, settings.host.size() - 2);
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + colon + 1, end, settings.port);
  if (error != std::errc() || stop != end || settings.host.empty())
    fail("--http {}: must be HOST:PORT, as in 127.0.0.1:{}", text, defaults::kHttpPort);
  return settings;
}

/// Whoever can reach the service over a network must say who they are.
http::Settings check_http(const TrackerFlags& flags) {
  // At the start, not with the first job: it parses strangers' models.
  worker::require_confinement("searches");
  http::Settings settings = http_place(flags.http);
  if (flags.certificate.empty() != flags.certificate_key.empty())
    fail("--tls-certificate and --tls-key belong together");
  require_private(flags.certificate_key);
  settings.certificate = flags.certificate;
  settings.key = flags.certificate_key;
  const bool local = is_loopback(settings.host);
  if (!local && flags.principals.empty())
    fail(
        "--http {}: other machines can reach it, so users need tokens\n"
        "  hint: tune token --name alice --out alice.token >> principals, then --principals principals",
        flags.http);
  if (!local && flags.certificate.empty())
    log_line("HTTP without TLS: whoever sees the network's traffic sees the tokens; see --tls-certificate");
  return settings;
}

/// The tracker's key and those of workers mean nothing without each other.
void check_keys(const TrackerFlags& flags, tracker::Principals& principals) {
  if (flags.key.empty() && !flags.allow.empty()) fail("--key and --allow belong together");
  if (flags.key.empty() && !principals.keys().empty())
    fail("{} lists keys of workers: give the tracker's own with --key", flags.principals);
  if (!flags.key.empty() && flags.allow.empty() && flags.principals.empty())
    fail("--key needs the keys of workers: --allow FILE, or lines in --principals FILE");
}

/// Where files lie: beside the database, unless that is elsewhere.
void settle_places(TrackerFlags& flags) {
  // Jobs have links to models there, which lead on from the folder that they are in.
  if (!flags.files.empty()) flags.files = absolute_path(flags.files);
  if (db::is_server(flags.database)) {
    if (flags.files.empty())
      fail("--db {}: say with --files where uploaded models and results are to lie on this machine",
           flags.database);
    flags.artifacts = flags.files + "/artifacts";
    return;
  }
  flags.database = absolute_path(flags.database);
  if (flags.files.empty()) flags.files = flags.database + "-files";
  flags.artifacts = flags.database + "-artifacts";
}

/// What code for the target uses and a device of the other lacks; nothing where its worker names none that we
/// know, which its first build will tell.
std::vector<std::string> lacking_features(const std::string& target, const std::string& device_target) {
  std::vector<std::string> lacking;
  try {
    const std::vector<std::string> used = codegen::cpu_features(codegen::resolve_target(target)),
                                   there = codegen::cpu_features(codegen::resolve_target(device_target));
    std::set_difference(used.begin(), used.end(), there.begin(), there.end(), std::back_inserter(lacking));
  } catch (const Error&) {
    return {};
  }
  return lacking;
}

tracker::KeeperSettings keeper_settings(const TrackerFlags& flags, tracker::Principals& principals) {
  return {.database = flags.database,
          .folder = flags.files,
          .searches = static_cast<size_t>(flags.searches),
          .searcher = {"/proc/self/exe", "internal-search", fmt::format("{}", getpid())},
          .resolve_target = [](const std::string& text) { return to_text(codegen::resolve_target(text)); },
          .lacking = lacking_features,
          .log = log_line,
          .kept_bytes = [&principals](const std::string& owner) { return principals.kept_bytes(owner); },
          .waits_for_devices = std::chrono::milliseconds(
              std::llround(1000 * std::min(flags.device_wait, defaults::kMostSeconds)))};
}

/// What can be said of a job before its model is read.
void check_job(const tracker::JobRequest& request) {
  codegen::resolve_target(request.target);
  tuner::parse_precision(request.precision);
  if (request.model_digest.empty()) models::find_model(request.model);
}

/// Where others find what was bound to `host`: an address that can be opened, which * is not.
std::string address_text(const std::string& host) {
  if (host == "*" || host == "0.0.0.0" || host == "::") return host_name();
  return host.find(':') == host.npos ? host : fmt::format("[{}]", host);
}

/// Jobs and the API, while a tracker runs.
class Service {
 public:
  Service(const TrackerFlags& flags, std::shared_ptr<tracker::Principals> principals, http::Settings settings,
          tracker::Tracker& farm)
      : keeper_(keeper_settings(flags, *principals), farm),
        api_({.database = flags.database,
              .principals = std::move(principals),
              .version = std::string(version()),
              .revision = std::string(revision()),
              .models = keeper_.blob_path(""),
              .model_bytes = static_cast<uint64_t>(flags.models_gib) << 30,
              .manage = [&farm](const tracker::Manage& order) { return farm.manage(order); },
              .check = check_job,
              .page = dashboards::page},
             keeper_, farm) {
    settings.admit = [this](const http::Request& request) { return api_.admit(request); };
    settings.handle = [this](const http::Request& request) { return api_.handle(request); };
    settings.sink = [this](const http::Request& request) { return api_.sink(request); };
    const bool tls = !settings.certificate.empty();
    const std::string host = settings.host;
    // Last: its thread asks for all that is above.
    server_.emplace(std::move(settings));
    log_line(fmt::format("jobs and pages at {}://{}:{}", tls ? "https" : "http", address_text(host),
                         server_->port()));
  }

  void require_folder() const { keeper_.require_folder(); }

 private:
  tracker::JobKeeper keeper_;
  tracker::Api api_;
  std::optional<http::Server> server_;  // gone first
};

/// Until it is interrupted. Throws what the tracker's thread has failed with.
void serve(const TrackerFlags& flags, const tracker::TrackerSettings& settings,
           const std::shared_ptr<tracker::Principals>& principals, const std::optional<http::Settings>& http,
           const InterruptScope& interrupt) {
  tracker::Tracker tracker(settings);
  std::optional<Service> service;
  if (http) service.emplace(flags, principals, *http, tracker);
  StatusLine line;
  while (!interrupt.interrupted()) {
    line.show(tracker.status());
    if (service) service->require_folder();
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
  }
}

/// What keeps a tracker from serving that will pass: said once, and waited for where there is time.
class Standby {
 public:
  explicit Standby(bool waits) : waits_(waits) {}
  /// Throws ServiceError unless it is to wait.
  void meet(const Error& problem) {
    // Not of kBadInput: whoever supervises this process is to start it again.
    if (!waits_) throw ServiceError(problem.what());
    if (said_ != problem.what()) log_line(fmt::format("standing by: {}", problem.what()));
    said_ = problem.what();
    std::this_thread::sleep_for(std::chrono::seconds(1));
  }

 private:
  const bool waits_;
  std::string said_;
};

}  // namespace

int tracker_command(Flags& flags) {
  TrackerFlags given;
  flags.add("--listen ENDPOINT", given.listen,
            "for workers: tcp://HOST:PORT or ipc://PATH; other hosts need keys");
  flags.add("--http HOST:PORT", given.http, "for users and pages: HOST:PORT; other hosts need --principals");
  flags.add("--db FILE", given.database, "the tuning database: a file, or a server's, postgresql://...");
  flags.add("--key FILE", given.key, "file with the tracker's keys, from `tune keygen`");
  flags.add("--allow FILE", given.allow,
            "file with the public keys of workers, one a line; read again when it changes");
  flags.add("--principals FILE", given.principals,
            "file with users, from `tune token`, and workers: NAME worker curve:PUBLIC-KEY [workers=2] "
            "[slots=16] [names=PATTERN]; read again when it changes");
  flags.add("--tls-certificate FILE", given.certificate,
            "file with a certificate chain (PEM): --http serves https");
  flags.add("--tls-key FILE", given.certificate_key, "file with its private key (PEM)");
  flags.add("--files DIR", given.files, "folder for uploaded models and results (beside the database)");
  flags.add(
      "--models-gib", given.models_gib, 1, 1 << 20,
      "GiB of uploaded models to keep: of more, the least recently used go that no unfinished job needs");
  flags.add("--searches", given.searches, 1, 256, "jobs searched at once");
  flags.add_duration(
      "--device-wait", given.device_wait,
      "a job whose devices have all gone waits so long for them, and ends then with what it has");
  flags.add("--standby", given.standby,
            "while another tracker serves the database, or its server is away, wait, and take over then");
  if (!flags.parse()) return kSuccess;

  // The database, its claims and what users upload are this user's: who could read them would know all
  // models, and could hold the locks that a tracker needs.
  umask(077);
  tracker::TrackerSettings settings{.endpoint = given.listen};
  const auto principals = std::make_shared<tracker::Principals>(given.principals, given.allow);
  check_keys(given, *principals);
  if (!given.key.empty()) {
    settings.keys = wire::ServerKeys{.secret_key = load_keys(given.key).secret_key};
    settings.principals = principals;
  }
  settings.users = principals;
  if (given.database.empty()) given.database = db::default_database_path();
  settle_places(given);
  std::optional<http::Settings> http;
  if (!given.http.empty()) http = check_http(given);
  settings.artifacts = given.artifacts;
  settings.open_journal = [&] { return tracker::open_store_journal(given.database); };
  settings.log = log_line;
  require_descriptors();
  require_threads();
  // Each worker and each user takes one or more.
  take_all_descriptors();
  // Before the tracker: an early Ctrl-C ends it in good order, too.
  InterruptScope interrupt;
  // Of one database one tracker at a time.
  for (Standby standby(given.standby); !interrupt.interrupted();) {
    try {
      serve(given, settings, principals, http, interrupt);
    } catch (const ServiceError& taken) {  // another tracker has the database, or the folder of files
      standby.meet(taken);
    } catch (const db::DatabaseError& away) {  // a server that went away; a full disk
      standby.meet(away);
    }
  }
  return kSuccess;
}

}  // namespace lathe::cli
