// The flags of one command: declared, then parsed.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/flag.h"

namespace lathe::cli {

struct Command;

/// A command declares its flags with add(), then calls parse(). Variables keep their values when a flag is
/// not given: what they hold is the default, and help shows it. CLI11 is behind it and stays there.
///
/// A flag's `spelling` is its name and, after a blank, what to call its value (flag.h: completion follows
/// from it): "--db FILE", "--precision given|bf16"; a positional argument is "FILE", or "WHAT best|history".
/// A value of "a|b" that is neither is refused, and on the command line an empty one.
///
/// What the command line does not give comes from the environment and the configuration files
/// (configuration.h). Every command has --help, --quiet (messages.h) and --no-config besides.
class Flags {
 public:
  enum class Need : bool { kOptional, kRequired };
  enum class Purpose : uint8_t {
    kRun,
    kDeclare,  // only to know the flags: parse() reads nothing and returns false
    kResolve,  // only to know the values: what is required may be missing; parse() returns false
  };

  Flags(const Command& command, std::vector<std::string> arguments, Purpose purpose = Purpose::kRun);
  ~Flags();

  void add(const std::string& spelling, std::string& value, const char* help, Need need = Need::kOptional);
  /// A flag that may be given several times; also the rest of the positional arguments.
  void add(const std::string& spelling, std::vector<std::string>& values, const char* help);
  void add(const std::string& spelling, int64_t& value, int64_t least, int64_t most, const char* help);
  void add(const std::string& spelling, bool& value, const char* help);
  /// A number above 0.
  void add_positive(const std::string& spelling, double& value, const char* help);
  /// A number above 0 and below 1.
  void add_share(const std::string& spelling, double& share, const char* help);
  /// Seconds, given as 90, 90s, 10m or 1h.
  void add_duration(const std::string& spelling, double& seconds, const char* help);
  /// `a` and `b` may not be given together; the nearer of two sources counts. REQUIRES: both were added.
  void exclude(const char* a, const char* b);

  /// Neither the environment nor a file sets it: a folder's lathe.toml may be a stranger's. REQUIRES: it was
  /// added.
  void keep_to_command_line(const char* name);

  /// True when the command is to go on; false after --help has been printed. Throws Error with the nearest
  /// name for an unknown flag.
  bool parse();
  /// Whether something set the flag: the command line, the environment, a file. REQUIRES: parsed; it was
  /// added.
  bool given(const char* name) const;

  /// As declared and, after parse(), with values and their origins; the flags of every command come last.
  std::vector<Flag> table() const;

 private:
  struct Parser;
  void parse_arguments();
  void configure();

  const Command& command_;
  std::vector<std::string> arguments_;
  Purpose purpose_;
  std::unique_ptr<Parser> parser_;
};

}  // namespace lathe::cli
