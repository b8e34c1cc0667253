// What the main functions of benchmarks share: their flags; and bad flags and errors are one message and exit
// code 2.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

namespace lathe::bench {

/// The flags of a benchmark: declared, then parsed. A name is "--db", or "models" for an argument without a
/// flag. A variable keeps its value when its flag is not given: that is the default, and help shows it.
///
/// CLI11 is behind it and stays there: its headers take longer to compile than the rest of a benchmark.
class Flags {
 public:
  enum class Need : bool { kOptional, kRequired };

  explicit Flags(const char* description);
  ~Flags();

  void add(const char* name, std::string& value, const char* help, Need need = Need::kOptional);
  /// Several, separated by commas or given one by one.
  void add(const char* name, std::vector<std::string>& values, const char* help, Need need = Need::kOptional);
  void add(const char* name, bool& value, const char* help);
  /// From `least` to `most`. Of int, int64_t, uint32_t, uint64_t (size_t) and double.
  template <typename Number>
  void add(const char* name, Number& value, std::type_identity_t<Number> least,
           std::type_identity_t<Number> most, const char* help);
  void add(const char* name, std::vector<int64_t>& values, int64_t least, int64_t most, const char* help);
  /// Given as 60s, 10m or 8h.
  void add_duration(const char* name, double& seconds, double least, double most, const char* help);
  /// What a benchmark gives processes of its own: help says nothing of it. REQUIRES: it was added.
  void hide(const char* name);

  /// Ends the program, by an exception that guarded_main catches, when the flags are bad, or ask for help.
  void parse(int argc, char** argv);

 private:
  struct Parser;
  std::unique_ptr<Parser> parser_;
};

/// The exit code of `run`; 2, with the message, of an exception or of bad flags.
int guarded_main(int (*run)(int argc, char** argv), int argc, char** argv);

}  // namespace lathe::bench
