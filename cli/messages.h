// What a person should know while a command works: on stderr, unless --quiet. Data goes to stdout, errors are
// exceptions.
#pragma once

#include <fmt/core.h>

#include <cstdio>
#include <string>
#include <utility>

#include "core/support/printable.h"

namespace lathe::cli {

void set_quiet(bool quiet);
bool is_quiet();

/// Writes the text as it is. Not by fmt::print, which throws where it cannot: a tracker whose log's disk is
/// full goes on, and who is told of an error gets its exit code.
inline void put_on_stderr(const std::string& text) { std::fputs(text.c_str(), stderr); }

/// Prints a line, without what a terminal would obey: much of it was said by others.
template <typename... Args>
void say(fmt::format_string<Args...> format, Args&&... args) {
  if (!is_quiet()) put_on_stderr(printable(fmt::format(format, std::forward<Args>(args)...)) + "\n");
}

}  // namespace lathe::cli
