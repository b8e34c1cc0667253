// What the user sees while a job runs: a table that redraws itself on a terminal, a line now and then
// elsewhere.
#pragma once

#include <chrono>
#include <span>
#include <string>
#include <string_view>

#include "tuner/combination.h"
#include "tuner/session.h"

namespace lathe::cli {

class TuneProgress {
 public:
  /// Writes to stderr. REQUIRES: tasks outlive it.
  TuneProgress(std::span<const tuner::Task> tasks, bool quiet);
  ~TuneProgress();
  void show(const tuner::SessionStatus& status);

 private:
  void draw(const tuner::SessionStatus& status);
  std::string headline(const tuner::SessionStatus& status) const;

  std::span<const tuner::Task> tasks_;
  bool quiet_, terminal_;
  int drawn_lines_ = 0;
  std::chrono::steady_clock::time_point last_{};
};

/// One line about what is going on.
class ProgressLine {
 public:
  /// Writes to stderr.
  explicit ProgressLine(bool quiet);
  ~ProgressLine();
  void show(const std::string& text);

 private:
  bool quiet_, terminal_, drawn_ = false;
  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now(), last_{};
};

/// The line about a choice over the whole model while it is made; "" before there is one.
std::string choice_text(const tuner::ChoiceStatus& status);

/// A name as a column of `width` bytes has it: of a longer one the beginning and the end, of which a task's
/// are the model and the kernel.
std::string in_column(std::string_view name, size_t width);

/// 12.3 us, 4.56 ms, 1.2 s; "-" for 0.
std::string duration_text(double seconds);

}  // namespace lathe::cli
