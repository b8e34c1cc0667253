#include "cli/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "cli/messages.h"
#include "cli/terminal.h"

namespace lathe::cli {
namespace {

int terminal_rows() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 ? size.ws_row : 24;
}

/// The share of the trials that failed, when there are any: "3 failed".
std::string failures(const tuner::TaskState& state) {
  int64_t failed = state.trials - state.outcomes[static_cast<size_t>(Outcome::kOk)];
  return failed > 0 ? fmt::format("{} failed", failed) : "";
}

std::string task_line(const tuner::Task& task, const tuner::TaskState& state) {
  double gflops = state.best_seconds > 0 ? task.flops / state.best_seconds / 1e9 : 0;
  double gain =
      state.best_seconds > 0 && state.default_seconds > 0 ? state.default_seconds / state.best_seconds : 0;
  return fmt::format("  {:<34} x{:<3} {:>5}  {:>9}  {:>7}  {:>6}  {}", in_column(task.name, 34), task.calls,
                     state.trials, duration_text(state.best_seconds),
                     gflops > 0 ? fmt::format("{:.1f}", gflops) : "-",
                     gain > 0 ? fmt::format("{:.2f}x", gain) : "-", failures(state));
}

}  // namespace

std::string in_column(std::string_view name, size_t width) {
  constexpr std::string_view kGap = "...";
  if (name.size() <= width) return std::string(name);
  const auto is_inside = [&](size_t byte) {  // a character of UTF-8
    return byte < name.size() && (static_cast<unsigned char>(name[byte]) & 0xc0) == 0x80;
  };
  size_t begin = (width - kGap.size()) / 2, end = name.size() - (width - kGap.size() - begin);
  while (begin > 0 && is_inside(begin)) --begin;
  while (is_inside(end)) ++end;
  return fmt::format("{}{}{}", name.substr(0, begin), kGap, name.substr(end));
}

std::string duration_text(double seconds) {
  if (seconds <= 0) return "-";
  if (seconds < 1e-3) return fmt::format("{:.1f} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.2f} ms", seconds * 1e3);
  if (seconds < 120) return fmt::format("{:.1f} s", seconds);
  return fmt::format("{:.0f} min", seconds / 60);
}

TuneProgress::TuneProgress(std::span<const tuner::Task> tasks, bool quiet)
    : tasks_(tasks), quiet_(quiet), terminal_(can_redraw(STDERR_FILENO)) {}

TuneProgress::~TuneProgress() {
  if (drawn_lines_ > 0) std::fputc('\n', stderr);
}

std::string TuneProgress::headline(const tuner::SessionStatus& status) const {
  std::string budget = status.budget > 0 ? fmt::format("/{}", status.budget) : "";
  std::string line =
      fmt::format("[{:>5.0f} s] {}{} trials, {:.1f}/s", status.seconds, status.trials, budget,
                  status.seconds > 0 ? static_cast<double>(status.trials) / status.seconds : 0);
  if (status.model_seconds > 0)
    line += fmt::format(", kernels together {}", duration_text(status.model_seconds));
  if (status.model_seconds > 0 && status.default_model_seconds > 0)
    line += fmt::format(" (untuned {})", duration_text(status.default_model_seconds));
  if (status.quality.samples > 0)
    line += fmt::format(", model rank correlation {:.2f}", status.quality.spearman);
  if (std::isfinite(status.seconds_left) && status.seconds_left > 0 && status.trials > 0)
    line += fmt::format(", about {} left", duration_text(status.seconds_left));
  return line;
}

void TuneProgress::show(const tuner::SessionStatus& status) {
  using namespace std::chrono_literals;
  auto now = std::chrono::steady_clock::now();
  // A file of a job of an hour has some hundred lines.
  if (quiet_ || now - last_ < (terminal_ ? 250ms : 5000ms)) return;
  last_ = now;
  if (terminal_)
    draw(status);
  else
    put_on_stderr(headline(status) + "\n");
}

void TuneProgress::draw(const tuner::SessionStatus& status) {
  // Up to the first line of what was drawn last, which is drawn over (ECMA-48: CPL; EL 2 clears the line).
  if (drawn_lines_ > 0) put_on_stderr(fmt::format("\x1b[{}F", drawn_lines_));
  auto print = [](const std::string& line) { put_on_stderr(fmt::format("\x1b[2K{}\n", line)); };
  // What has scrolled away cannot be drawn over. Four lines beside the tasks': two above them, the number of
  // those left out, and the one where the cursor stays.
  size_t rows = std::min(tasks_.size(), static_cast<size_t>(std::max(3, terminal_rows() - 4)));
  print(headline(status));
  print(fmt::format("  {:<34} {:<4} {:>5}  {:>9}  {:>7}  {:>6}", "task", "uses", "tried", "best", "GFLOP/s",
                    "gain"));
  for (size_t i = 0; i < rows; ++i) print(task_line(tasks_[i], status.tasks[i]));
  if (rows < tasks_.size()) print(fmt::format("  and {} more", tasks_.size() - rows));
  drawn_lines_ = static_cast<int>(rows) + 2 + (rows < tasks_.size());
  std::fflush(stderr);
}

ProgressLine::ProgressLine(bool quiet) : quiet_(quiet), terminal_(can_redraw(STDERR_FILENO)) {}

ProgressLine::~ProgressLine() {
  if (drawn_) std::fputc('\n', stderr);
}

void ProgressLine::show(const std::string& text) {
  using namespace std::chrono_literals;
  auto now = std::chrono::steady_clock::now();
  if (quiet_ || text.empty() || now - last_ < (terminal_ ? 0ms : 5000ms)) return;
  last_ = now;
  put_on_stderr(fmt::format("{}[{:>5.0f} s] {}{}", terminal_ ? "\r\x1b[2K" : "",
                            std::chrono::duration<double>(now - begun_).count(), text,
                            terminal_ ? "" : "\n"));
  drawn_ = terminal_;
  std::fflush(stderr);
}

std::string choice_text(const tuner::ChoiceStatus& status) {
  if (status.before <= 0) return "";
  return fmt::format("whole model: {} exchanges tried, {} -> {}", status.challengers,
                     duration_text(status.before), duration_text(status.incumbent));
}

}  // namespace lathe::cli
