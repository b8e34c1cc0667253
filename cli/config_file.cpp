// TOML as flags want it: every value a text, with the line it stands in.
#include "cli/config_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "core/support/error.h"
#include "core/support/file.h"
#include "core/support/text.h"

namespace {
/// toml++ takes some files for impossible: sections that begin with no name, by 3.3.0.
struct Impossible {};
constexpr void require_possible(bool condition) {
  if (!condition) throw Impossible();
}
}  // namespace
#define TOML_ASSERT(condition) require_possible(static_cast<bool>(condition))
#include <toml++/toml.h>

namespace lathe::cli {
namespace {
namespace fs = std::filesystem;

using Entry = ConfigFile::Entry;
using Type = ConfigFile::Type;

constexpr uintmax_t kMostBytes = 1 << 20;

int line_of(const toml::node& node) { return static_cast<int>(node.source().begin.line); }

/// Type and values of an array: of texts, or nothing a flag could take.
void read_array(const toml::array& array, Entry& entry) {
  entry.type = Type::kTexts;
  for (const toml::node& item : array) {
    const auto* text = item.as_string();
    if (!text) {
      entry.type = Type::kOther;
      entry.values.clear();
      return;
    }
    entry.values.push_back(text->get());
  }
}

Entry entry_of(const std::string& section, const std::string& key, const toml::node& node) {
  Entry entry{section, key, Type::kOther, {}, line_of(node)};
  const auto one = [&](Type type, std::string value) {
    entry.type = type;
    entry.values = {std::move(value)};
  };
  if (const auto* text = node.as_string()) one(Type::kText, text->get());
  if (const auto* number = node.as_integer()) one(Type::kInteger, fmt::format("{}", number->get()));
  if (const auto* number = node.as_floating_point()) one(Type::kNumber, fmt::format("{}", number->get()));
  if (const auto* truth = node.as_boolean()) one(Type::kSwitch, truth->get() ? "true" : "false");
  if (const auto* array = node.as_array()) read_array(*array, entry);
  return entry;
}

/// Of the first section that begins with no name; 0 without one.
int line_without_name(const std::string& text) {
  int line = 0;
  for (const std::string& each : split_text(text, '\n')) {
    ++line;
    const size_t begin = each.find_first_not_of(" \t");
    if (begin == std::string::npos || each[begin] != '[') continue;
    const size_t name = each.find_first_not_of(" \t[");
    if (name == std::string::npos) return line;
    if (!std::isalnum(static_cast<unsigned char>(each[name])) && !std::strchr("_-\"']", each[name]))
      return line;
  }
  return 0;
}

/// One's own, root's, which are an administrator's arrangement, and those of whoever became root by sudo.
bool is_trusted(uid_t owner) {
  if (owner == geteuid() || owner == 0) return true;
  const char* before = std::getenv("SUDO_UID");
  return geteuid() == 0 && before && std::to_string(owner) == before;
}

toml::table parse(const std::string& path) {
  std::error_code error;
  // A pipe of that name would be waited for.
  if (fs::status(path, error).type() != fs::file_type::regular) fail("{} is not a file", path);
  // In a folder that others may write, /tmp say, it could have jobs, and the token with them, sent to
  // anybody.
  struct stat status {};
  if (stat(path.c_str(), &status) == 0 && !is_trusted(status.st_uid))
    fail(
        "{} is another user's, who would decide what is done here; make it yours with chown, or leave it "
        "aside with --no-config",
        path);
  if (fs::file_size(path, error) > kMostBytes) fail("{} is larger than {} bytes", path, kMostBytes);
  const std::string text = read_file(path);
  try {
    return toml::parse(text);
  } catch (const Impossible&) {
    fail("{}:{}: a section needs a name, as in [tune]", path, line_without_name(text));
  } catch (const toml::parse_error& problem) {
    fail("{}:{}:{}: {}", path, problem.source().begin.line, problem.source().begin.column,
         problem.description());
  }
}

}  // namespace

ConfigFile read_config_file(const std::string& path) {
  ConfigFile file;
  // One that leads nowhere, by a link that was moved, is somebody's mistake: parse() says so.
  if (std::error_code error; !fs::exists(fs::symlink_status(path, error))) return file;
  for (const auto& [name, node] : parse(path)) {
    const std::string key(name.str());
    const toml::table* section = node.as_table();
    if (!section) {
      file.entries.push_back(entry_of("", key, node));
      continue;
    }
    file.sections.push_back({key, line_of(node)});
    for (const auto& [inner, value] : *section)
      file.entries.push_back(entry_of(key, std::string(inner.str()), value));
  }
  // A table has its keys in the order of the alphabet; of several mistakes the first in the file is told.
  std::stable_sort(file.entries.begin(), file.entries.end(),
                   [](const Entry& a, const Entry& b) { return a.line < b.line; });
  return file;
}

}  // namespace lathe::cli
