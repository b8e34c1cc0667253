#include "tracker/principals.h"

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <vector>

#include "core/support/digest.h"
#include "core/support/error.h"
#include "core/support/text.h"

namespace lathe::tracker {
namespace {

constexpr std::array<std::string_view, 3> kRoleNames = {"viewer", "submitter", "admin"};

template <typename Number>
Number parse_number(std::string_view text, Number least, Number most, const std::string& place) {
  Number value{};
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || stop != text.data() + text.size() || !(value >= least && value <= most))
    fail("{}: `{}` must be a number from {} to {}", place, text, least, most);
  return value;
}

std::vector<std::string> words_of(std::string line) {
  if (const size_t comment = line.find('#'); comment != std::string::npos) line.resize(comment);
  std::replace_if(
      line.begin(), line.end(), [](char c) { return isspace(static_cast<unsigned char>(c)); }, ' ');
  std::vector<std::string> words;
  for (std::string& word : split_text(line, ' '))
    if (!word.empty()) words.push_back(std::move(word));
  return words;
}

Principal parse_principal(const std::vector<std::string>& words, const std::string& place) {
  if (words.size() < 3)
    fail("{}: must be NAME ROLE SHA256-OF-THE-TOKEN; `tune token` makes such lines", place);
  Principal principal{.name = words[0]};
  principal.role = parse_role(words[1], place);
  if (!is_digest(words[2])) fail("{}: the third word must be the sha256 of a token", place);
  for (size_t i = 3; i < words.size(); ++i) {
    const size_t equals = words[i].find('=');
    const std::string key = words[i].substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : words[i].substr(equals + 1);
    if (key == "weight")
      principal.weight = parse_number<double>(value, 0.001, 1000, place);
    else if (key == "jobs")
      principal.open_jobs = parse_number<int64_t>(value, 0, 1'000'000, place);
    else
      fail("{}: unknown `{}`{}", place, key, did_you_mean(key, {"weight", "jobs"}));
  }
  return principal;
}

}  // namespace

std::string_view to_string(Role role) { return kRoleNames[static_cast<size_t>(role)]; }

Role parse_role(const std::string& name, const std::string& place) {
  const auto role = std::find(kRoleNames.begin(), kRoleNames.end(), name);
  if (role == kRoleNames.end())
    fail("{}: unknown role `{}`{}", place, name, did_you_mean(name, {kRoleNames.begin(), kRoleNames.end()}));
  return static_cast<Role>(role - kRoleNames.begin());
}

Principals::Principals(std::string file) : file_(std::move(file)) {
  if (!file_.empty()) read();
}

void Principals::read() {
  std::map<std::string, Principal> read;
  std::error_code ignored;
  const auto time = std::filesystem::last_write_time(file_, ignored);
  int number = 0;
  for (const std::string& line : split_text(read_file(file_), '\n')) {
    ++number;
    const std::vector<std::string> words = words_of(line);
    if (words.empty()) continue;
    const std::string place = fmt::format("{}:{}", file_, number);
    Principal principal = parse_principal(words, place);
    if (!read.emplace(words[2], std::move(principal)).second) fail("{}: the token is another's", place);
  }
  by_digest_ = std::move(read);
  read_at_ = time;
}

void Principals::read_if_changed() {
  std::error_code error;
  if (std::filesystem::last_write_time(file_, error) == read_at_ || error) return;
  try {
    read();
  } catch (const Error& problem) {
    fmt::print(stderr, "tokens stay as they were: {}\n", problem.what());
    read_at_ = std::filesystem::last_write_time(file_, error);
  }
}

std::optional<Principal> Principals::find(std::string_view token) {
  if (anonymous()) return Principal{.name = "local", .role = Role::kAdmin};
  read_if_changed();
  const auto found = by_digest_.find(sha256(token));  // found by digest: its time says nothing about a token
  if (token.empty() || found == by_digest_.end()) return std::nullopt;
  return found->second;
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
