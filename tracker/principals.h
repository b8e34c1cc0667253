// Who may do what: names with roles. Users are known by bearer tokens, of which only the digest is kept, and
// workers by their CURVE keys.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tracker/defaults.h"

namespace lathe::tracker {

/// Over HTTP each may do what those before it may, and a worker nothing.
enum class Role : uint8_t { kWorker, kViewer, kSubmitter, kAdmin };
std::string_view to_string(Role role);
/// Throws Error "PLACE: unknown role ..." with the nearest one.
Role parse_role(const std::string& name, const std::string& place);
/// Throws Error, with the place, where nobody may be called so.
void check_name(const std::string& name, const std::string& place);
/// What a user may weigh beside others.
inline constexpr double kLeastWeight = 0.001, kMostWeight = 1000;
/// Whether workers of a key with this role are given trials.
inline bool may_measure(Role role) { return role == Role::kWorker || role == Role::kAdmin; }

struct Principal {
  std::string name;
  Role role = Role::kViewer;
  // Of a token.
  double weight = 1;                                  // when devices are shared
  int64_t open_jobs = 64;                             // it may have at most: queued, running or stopped
  uint64_t model_bytes = defaults::kModelBytesOfOne;  // of models that it uploaded
  uint64_t kept_bytes = defaults::kKeptBytesOfOne;    // in the database, by all its jobs
  // Of a key: what all workers that come with it may be together.
  size_t workers = defaults::kWorkersLimit;
  uint32_t slots = defaults::kWorkersLimit * defaults::kWorkerSlotsLimit;  // leases at once
  std::string worker_names;  // a pattern (fnmatch(3)) of their names, which are nobody else's; "": any name

  /// Whether the pattern says that workers of this name are its own.
  bool owns(const std::string& worker) const;
};

/// A file with one principal a line, NAME ROLE SHA256-OF-THE-TOKEN [weight=2] [jobs=100] [models-gib=4]
/// [kept-gib=16] or NAME ROLE curve:PUBLIC-KEY [workers=2] [slots=16] [names=PATTERN], and one of allowed
/// workers, with a public key a line. A word that begins with # begins a comment. They are read again a
/// moment after they change, so that a line taken out is a token or a key revoked. May be used on any thread.
class Principals {
 public:
  /// Throws Error "FILE:LINE: ..." for what it cannot read. `file` "": there is none, and everybody is
  /// `local`, who may do everything: for a service that only this machine can reach. `allowed` "": none.
  explicit Principals(std::string file, std::string allowed = "");

  /// Nobody, for a token that is not known. Of files that became unreadable those are known who were before.
  std::optional<Principal> find(std::string_view token);
  bool anonymous() const { return file_.empty(); }
  /// What all jobs of the user of that name may keep now; of one who is not listed any more, what is usual.
  uint64_t kept_bytes(const std::string& name);

  /// What users weigh when devices are shared, by name; of several tokens the one that weighs most. Empty
  /// without a file.
  std::map<std::string, double> weights();

  /// By public key. Who is in both files is what the first says.
  std::map<std::string, Principal> keys();
  /// Counts how often the files were read: what differs from before may be news.
  uint64_t edition();

 private:
  using Times = std::vector<std::filesystem::file_time_type>;

  Times times() const;
  void read();
  void read_if_changed();

  const std::string file_, allowed_;
  std::mutex mutex_;  // of all below
  Times read_at_;
  uint64_t edition_ = 0;
  std::map<std::string, Principal> by_digest_, by_key_;
};

/// A token that nobody can guess.
std::string make_token();
/// The line of the file for it.
std::string principal_line(const Principal& principal, std::string_view token);

}  // namespace lathe::tracker
