#include "tracker/principals.h"

#include <fnmatch.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <filesystem>

#include "core/support/digest.h"
#include "core/support/error.h"
#include "core/support/file.h"
#include "core/support/printable.h"
#include "core/support/text.h"
#include "tracker/wire/socket.h"

namespace lathe::tracker {
namespace {

constexpr std::array<std::string_view, 4> kRoleNames = {"worker", "viewer", "submitter", "admin"};
constexpr std::string_view kKeyPrefix = "curve:";

// The range is asked for the other way round, since NaN, which from_chars reads, is in none.
template <typename Number>
Number parse_number(std::string_view text, Number least, Number most, const std::string& place) {
  Number value{};
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || stop != text.data() + text.size() || !(value >= least && value <= most))
    fail("{}: `{}` must be a number from {} to {}", place, text, least, most);
  return value;
}

struct Line {
  std::string place;
  std::vector<std::string> words;  // at least one
};

/// The lines that say something. A word that begins with # begins a comment; keys have a # further on only.
std::vector<Line> lines_of(const std::string& file) {
  // A pipe, as a shell's <(...) is one, says all it has once: whoever read it again would wait, and everybody
  // with them.
  std::error_code missing;
  const std::filesystem::file_status status = std::filesystem::status(file, missing);
  if (std::filesystem::is_fifo(status)) fail("{} must be a file, which is read again when it changes", file);
  // Root's are an administrator's arrangement.
  struct stat file_status {};
  if (stat(file.c_str(), &file_status) == 0 && file_status.st_uid != geteuid() && file_status.st_uid != 0)
    fail("{} is another user's, who could let themselves in; make it yours with chown", file);
  if (std::filesystem::is_regular_file(status) &&
      (status.permissions() & (std::filesystem::perms::group_write | std::filesystem::perms::others_write)) !=
          std::filesystem::perms::none)
    // Of a group too, though it may be the user's own: whoever is put into it later would be let in unseen.
    fail("{} can be written by others, who could let themselves in; take that away with chmod go-w {}", file,
         file);
  std::vector<Line> lines;
  int number = 0;
  for (std::string& text : split_text(read_file(file), '\n')) {
    Line line{fmt::format("{}:{}", file, ++number), {}};
    std::replace_if(
        text.begin(), text.end(), [](char c) { return isspace(static_cast<unsigned char>(c)); }, ' ');
    for (std::string& word : split_text(text, ' ')) {
      if (word.starts_with('#')) break;
      if (!word.empty()) line.words.push_back(std::move(word));
    }
    if (!line.words.empty()) lines.push_back(std::move(line));
  }
  return lines;
}

uint64_t parse_gib(const std::string& value, const std::string& place) {
  return static_cast<uint64_t>(parse_number<double>(value, 0, 1'000'000, place) * (uint64_t{1} << 30));
}

void set_option(Principal& principal, bool has_key, const std::string& word, const std::string& place) {
  const size_t equals = word.find('=');
  const std::string option = word.substr(0, equals);
  const std::string value = equals == std::string::npos ? "" : word.substr(equals + 1);
  // A key's caps and a token's are different words: one that does nothing is a mistake better said.
  if (value.empty()) fail("{}: `{}` must be OPTION=VALUE", place, word);
  if (!has_key && option == "weight")
    principal.weight = parse_number<double>(value, kLeastWeight, kMostWeight, place);
  else if (!has_key && option == "jobs")
    principal.open_jobs = parse_number<int64_t>(value, 0, 1'000'000, place);
  else if (!has_key && option == "models-gib")
    principal.model_bytes = parse_gib(value, place);
  else if (!has_key && option == "kept-gib")
    principal.kept_bytes = parse_gib(value, place);
  else if (has_key && option == "workers")
    principal.workers = parse_number<size_t>(value, 0, defaults::kWorkersLimit, place);
  else if (has_key && option == "slots")
    principal.slots = parse_number<uint32_t>(value, 0, Principal().slots, place);
  else if (has_key && option == "names")
    principal.worker_names = value;
  else
    fail(
        "{}: unknown `{}`{}", place, option,
        did_you_mean(option, has_key ? std::vector<std::string>{"workers", "slots", "names"}
                                     : std::vector<std::string>{"weight", "jobs", "models-gib", "kept-gib"}));
}

Principal parse_principal(const Line& line) {
  const auto& [place, words] = line;
  if (words.size() < 3)
    fail("{}: must be NAME ROLE SHA256-OF-THE-TOKEN, as `tune token` makes them, or NAME ROLE curve:KEY",
         place);
  Principal principal{.name = words[0]};
  check_name(principal.name, place);
  principal.role = parse_role(words[1], place);
  const bool has_key = words[2].starts_with(kKeyPrefix);
  if (has_key)
    wire::check_key(words[2].substr(kKeyPrefix.size()), place);
  else if (!is_digest(words[2]))
    fail("{}: the third word must be the sha256 of a token, or curve: and a public key", place);
  else if (principal.role == Role::kWorker)
    fail("{}: a worker has no token but a key: curve:KEY", place);
  for (size_t i = 3; i < words.size(); ++i) set_option(principal, has_key, words[i], place);
  return principal;
}

/// Half of a file revokes whom the other half lists.
bool is_just_written(std::filesystem::file_time_type time) {
  constexpr auto kSettles = std::chrono::milliseconds(200);
  // A time in the future (a copy, a clock that was set) is not just written; it would never be read.
  const auto age = std::filesystem::file_time_type::clock::now() - time;
  return age >= age.zero() && age < kSettles;
}

}  // namespace

void check_name(const std::string& name, const std::string& place) {
  // It is shown, and in JSON and a server's database two that are no UTF-8 would become one.
  if (has_control_characters(name) || as_utf8(name) != name)
    fail("{}: the name must be UTF-8 without control characters", place);
}

std::string_view to_string(Role role) { return kRoleNames[static_cast<size_t>(role)]; }

Role parse_role(const std::string& name, const std::string& place) {
  const auto role = std::find(kRoleNames.begin(), kRoleNames.end(), name);
  if (role == kRoleNames.end())
    fail("{}: unknown role `{}`{}", place, name, did_you_mean(name, {kRoleNames.begin(), kRoleNames.end()}));
  return static_cast<Role>(role - kRoleNames.begin());
}

bool Principal::owns(const std::string& worker) const {
  // No flags: a `*` matches a slash and a leading dot as well, as in names of workers neither means anything.
  return !worker_names.empty() && fnmatch(worker_names.c_str(), worker.c_str(), 0) == 0;
}

Principals::Principals(std::string file, std::string allowed)
    : file_(std::move(file)), allowed_(std::move(allowed)) {
  read();
}

/// Of a file that cannot be read, the earliest there is.
Principals::Times Principals::times() const {
  Times times;
  std::error_code ignored;
  for (const std::string& file : {file_, allowed_})
    if (!file.empty()) times.push_back(std::filesystem::last_write_time(file, ignored));
  return times;
}

void Principals::read() {
  std::map<std::string, Principal> by_digest, by_key;
  // Taken before the files are read: what is written meanwhile has another time, and is read again.
  Times read_at = times();
  if (!file_.empty())
    for (const Line& line : lines_of(file_)) {
      Principal principal = parse_principal(line);
      const std::string& known_by = line.words[2];
      const bool has_key = known_by.starts_with(kKeyPrefix);
      const bool is_new =
          has_key ? by_key.emplace(known_by.substr(kKeyPrefix.size()), std::move(principal)).second
                  : by_digest.emplace(known_by, std::move(principal)).second;
      if (!is_new) fail("{}: the {} is another's", line.place, has_key ? "key" : "token");
    }
  if (!allowed_.empty())
    for (const auto& [place, words] : lines_of(allowed_)) {
      wire::check_key(join_text(words, " "), place);
      // A key that is in both is what its line among the principals says.
      by_key.try_emplace(words[0], Principal{.name = words[0], .role = Role::kWorker});
    }
  // Only when both files are whole and right: else what held before holds on.
  by_digest_ = std::move(by_digest);
  by_key_ = std::move(by_key);
  read_at_ = std::move(read_at);
  ++edition_;
}

void Principals::read_if_changed() {
  const Times now = times();
  // Looked at again with the next question, some 200 ms later.
  if (now == read_at_ || std::any_of(now.begin(), now.end(), is_just_written)) return;
  try {
    read();
  } catch (const Error& problem) {
    fmt::print(stderr, "users and keys stay as they were: {}\n", problem.what());
    // Said once a change, not with every request.
    read_at_ = now;
  }
}

std::optional<Principal> Principals::find(std::string_view token) {
  if (anonymous())
    return Principal{
        .name = "local", .role = Role::kAdmin, .model_bytes = UINT64_MAX, .kept_bytes = UINT64_MAX};
  std::lock_guard lock(mutex_);
  read_if_changed();
  // The file has digests, so whoever reads it has no token.
  const auto found = by_digest_.find(sha256(token));  // found by digest: its time says nothing about a token
  if (token.empty() || found == by_digest_.end()) return std::nullopt;
  return found->second;
}

uint64_t Principals::kept_bytes(const std::string& name) {
  if (anonymous()) return UINT64_MAX;
  std::lock_guard lock(mutex_);
  read_if_changed();
  // One may have several tokens; the one that allows most counts.
  std::optional<uint64_t> most;
  for (const auto& [digest, principal] : by_digest_)
    if (principal.name == name) most = std::max(most.value_or(0), principal.kept_bytes);
  return most.value_or(defaults::kKeptBytesOfOne);
}

std::map<std::string, double> Principals::weights() {
  std::lock_guard lock(mutex_);
  std::map<std::string, double> weights;
  for (const auto& [digest, principal] : by_digest_) {
    double& weight = weights.try_emplace(principal.name, principal.weight).first->second;
    weight = std::max(weight, principal.weight);
  }
  return weights;
}

std::map<std::string, Principal> Principals::keys() {
  std::lock_guard lock(mutex_);
  return by_key_;
}

uint64_t Principals::edition() {
  std::lock_guard lock(mutex_);
  read_if_changed();
  return edition_;
}

std::string make_token() {
  std::array<unsigned char, 32> bytes;
  CHECK(getrandom(bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  std::string token = "lathe_";
  for (const unsigned char byte : bytes) token += fmt::format("{:02x}", byte);
  return token;
}

std::string principal_line(const Principal& principal, std::string_view token) {
  return fmt::format("{} {} {} weight={} jobs={}", principal.name, to_string(principal.role), sha256(token),
                     principal.weight, principal.open_jobs);
}

}  // namespace lathe::tracker
