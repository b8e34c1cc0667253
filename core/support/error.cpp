#include "core/support/error.h"

#include <execinfo.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace lathe {

std::string caret_message(const Span& span, std::string_view text, std::string_view message) {
  std::string result = fmt::format("{}:{}:{}: error: {}", span.source, span.line, span.column, message);
  // The text of one error is searched from its start: errors are rare, and an index of lines
  // would be kept for all.
  size_t begin = 0;
  for (int line = 1; line < span.line && begin != std::string_view::npos; ++line) {
    begin = text.find('\n', begin);
    if (begin != std::string_view::npos) ++begin;
  }
  if (span.line == 0 || begin == std::string_view::npos) return result;
  std::string_view line = text.substr(begin, text.find('\n', begin) - begin);
  // Very long lines (models print one line a function header) are cut around the caret.
  size_t column = span.column > 0 ? span.column - 1 : 0, from = column > 90 ? column - 60 : 0;
  line = line.substr(std::min(from, line.size()), 150);
  // A span may end on a later line; then there is one caret.
  size_t width = std::clamp<int>(span.end_column - span.column, 1, 80);
  result += fmt::format("\n  {}\n  {}{}", line, std::string(column - from, ' '), std::string(width, '^'));
  return result;
}

namespace {
/// Letters inserted, left out, replaced, or exchanged with their neighbour.
size_t edit_distance(std::string_view a, std::string_view b) {
  // Damerau's distance, where no letter is edited twice (optimal string alignment).
  std::vector<size_t> before, above, row(b.size() + 1);  // the last three of the table
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    before = std::exchange(above, row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] != b[j - 1])});
      const bool exchanged = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (exchanged) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}
}  // namespace

std::string nearest(std::string_view name, const std::vector<std::string>& candidates) {
  // The table has a place for each pair of letters, and names come from files and strangers: of 128 KB each
  // it took seconds. Nobody mistypes so long a one.
  constexpr size_t kLongestName = 128;
  if (name.size() > kLongestName) return "";
  // A third of the letters may be wrong, one at least: what differs more is another name.
  size_t best_distance = std::max<size_t>(1, name.size() / 3) + 1;
  std::string best;
  for (const std::string& candidate : candidates) {
    // At least as many letters are inserted or left out.
    if (std::max(name.size(), candidate.size()) - std::min(name.size(), candidate.size()) >= best_distance)
      continue;
    size_t distance = edit_distance(name, candidate);
    // The first of equals: tables are in the order in which their rows are read.
    if (distance < best_distance) best_distance = distance, best = candidate;
  }
  return best;
}

std::string did_you_mean(std::string_view name, const std::vector<std::string>& candidates) {
  std::string best = nearest(name, candidates);
  return best.empty() ? "" : fmt::format("; did you mean `{}`?", best);
}

void check_failed(const char* file, int line, const char* condition, const std::string& message) {
  std::fprintf(stderr, "%s:%d: internal error: CHECK(%s)%s%s\n", file, line, condition,
               message.empty() ? "" : ": ", message.c_str());
  void* frames[64];
  // To the descriptor, without memory: the heap may be what is broken.
  backtrace_symbols_fd(frames, backtrace(frames, 64), STDERR_FILENO);
  std::abort();
}

}  // namespace lathe
