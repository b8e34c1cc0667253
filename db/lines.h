// Lines of a file from strangers, and how many of them may be bad.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "core/support/digest.h"
#include "core/support/record_limits.h"

namespace lathe::db {

/// Reads a file line by line, in bounded memory whatever it holds.
class Lines {
 public:
  /// Longer lines are cut there: no record is so long.
  static constexpr size_t kLongest = limits::kLine;
  /// What goes on for longer than that is no line, and no log: a hole in a file may be of terabytes.
  static constexpr size_t kNoLine = 2 * kLongest;

  /// Throws Error for a file that cannot be read, is none (a folder, a device), or is a Python pickle:
  /// reading one runs what it says.
  explicit Lines(const std::string& path);

  /// The next line without its end; false after the last one. Throws Error where no end comes for long.
  bool next(std::string& line);
  /// "PATH:LINE" of the line last read.
  std::string place() const;
  /// Of all bytes. REQUIRES: read to the end, not asked before.
  std::string digest() { return digest_.digest(); }

 private:
  std::string path_;
  std::ifstream file_;
  Sha256 digest_;
  int64_t number_ = 0;
};

/// Counts the lines of an import. A writer that was killed leaves a torn line: 1% may be bad, and always one.
class Tolerance {
 public:
  void good() { ++good_; }
  /// `why` is said of the first bad lines; of `count` that are bad for one reason once.
  void bad(const std::string& place, const std::string& why, int64_t count = 1);

  /// Throws Error when more are bad than may be, or none is good.
  void settle(const std::string& what) const;

  int64_t bad() const { return bad_; }
  /// "PLACE: WHY" of each bad line, the first twenty of them.
  const std::vector<std::string>& reasons() const { return reasons_; }

 private:
  int64_t good_ = 0, bad_ = 0;
  std::vector<std::string> reasons_;
};

}  // namespace lathe::db
