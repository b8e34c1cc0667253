// Who may do what over HTTP: names with roles, each known by a bearer token of which only the digest is kept.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace lathe::tracker {

/// Each may do what those before it may.
enum class Role : uint8_t { kViewer, kSubmitter, kAdmin };
std::string_view to_string(Role role);
/// Throws Error "PLACE: unknown role ..." with the nearest one.
Role parse_role(const std::string& name, const std::string& place);

struct Principal {
  std::string name;
  Role role = Role::kViewer;
  double weight = 1;       // when devices are shared
  int64_t open_jobs = 64;  // it may have at most: queued, running or stopped
};

/// A file with one principal a line: NAME ROLE SHA256-OF-THE-TOKEN [weight=2] [jobs=100]; # begins a comment.
/// It is read again when it changes, so that a line taken out is a token revoked at once.
class Principals {
 public:
  /// Throws Error "FILE:LINE: ..." for what it cannot read. "": there is no file, and everybody is `local`,
  /// who may do everything: for a service that only this machine can reach.
  explicit Principals(std::string file);

  /// Nobody, for a token that is not known. A file that became unreadable knows nobody but those it knew.
  std::optional<Principal> find(std::string_view token);
  bool anonymous() const { return file_.empty(); }

 private:
  void read();
  void read_if_changed();

  const std::string file_;
  std::filesystem::file_time_type read_at_{};
  std::map<std::string, Principal> by_digest_;
};

/// A token that nobody can guess.
std::string make_token();
/// The line of the file for it.
std::string principal_line(const Principal& principal, std::string_view token);

}  // namespace lathe::tracker
