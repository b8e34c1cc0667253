// Errors: `Error` is the user's mistake (input, flags, files, messages from the network); CHECK is ours.
#pragma once

#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lathe {

/// A place in a source text. Lines and columns count from 1; line 0 means "no place".
struct Span {
  std::string source;  // file name, or the operator's name in an imported model
  int line = 0;
  int column = 0;
  int end_column = 0;
};

/// A mistake in what the user gave us. `what()` is the whole message, as printed before exit code 2:
/// where, what, the values, and what to do; lower case, no full stop.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Formats and throws an Error: `fail("split: factor is {}, must be at least 1", factor)`.
template <typename... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(fmt::format(format, std::forward<Args>(args)...));
}

/// The message of an error at `span` of `text`: "file:line:col: error: message", the line and a caret.
std::string caret_message(const Span& span, std::string_view text, std::string_view message);

/// The candidate nearest to `name` by edit distance, when it is near enough to be a typing mistake; or "".
std::string nearest(std::string_view name, const std::vector<std::string>& candidates);

/// "; did you mean `x`?" or "".
std::string did_you_mean(std::string_view name, const std::vector<std::string>& candidates);

/// Prints `message` and a stack to stderr and aborts. Called by CHECK.
[[noreturn]] void check_failed(const char* file, int line, const char* condition, const std::string& message);

}  // namespace lathe

/// Aborts when an invariant of ours is broken: CHECK(x > 0, "x is {}", x).
#define CHECK(condition, ...)                                                               \
  do {                                                                                      \
    if (!(condition)) [[unlikely]]                                                          \
      ::lathe::check_failed(__FILE__, __LINE__, #condition, ::fmt::format("" __VA_ARGS__)); \
  } while (false)
