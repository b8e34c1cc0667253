// The flags of one command: declared, then parsed.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace lathe::cli {

struct Command;

/// A command declares its flags with add(), then calls parse(). Variables keep their values when a flag is
/// not given: what they hold is the default, and help shows it. CLI11 is behind it and stays there.
class Flags {
 public:
  enum class Need : bool { kOptional, kRequired };

  Flags(std::string_view program, const Command& command, std::vector<std::string> arguments);
  ~Flags();

  /// `name` is "--model", or "FILE" for a positional argument.
  void add(const char* name, std::string& value, const char* help, Need need = Need::kOptional);
  /// A flag that may be given several times; also the rest of the positional arguments.
  void add(const char* name, std::vector<std::string>& values, const char* help);
  void add(const char* name, int64_t& value, int64_t least, int64_t most, const char* help);
  void add(const char* name, bool& value, const char* help);
  /// A number above 0.
  void add_positive(const char* name, double& value, const char* help);
  /// A number above 0 and below 1.
  void add_share(const char* name, double& share, const char* help);
  /// Seconds, given as 90, 90s, 10m or 1h.
  void add_duration(const char* name, double& seconds, const char* help);
  /// `a` and `b` may not be given together. REQUIRES: both were added.
  void exclude(const char* a, const char* b);

  /// True when the command is to go on; false after --help has been printed. Throws Error with the nearest
  /// name for an unknown flag.
  bool parse();
  /// Whether the flag was on the command line. REQUIRES: parsed; it was added.
  bool given(const char* name) const;

 private:
  struct Parser;
  std::string name_;  // "tune bench"
  std::vector<std::string> arguments_;
  std::unique_ptr<Parser> parser_;
};

}  // namespace lathe::cli
