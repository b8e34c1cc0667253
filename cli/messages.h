// What a person should know while a command works: on stderr, unless --quiet. Data goes to stdout, errors are
// exceptions.
#pragma once

#include <fmt/core.h>

#include <cstdio>
#include <utility>

namespace lathe::cli {

void set_quiet(bool quiet);
bool is_quiet();

/// Prints a line.
template <typename... Args>
void say(fmt::format_string<Args...> format, Args&&... args) {
  if (!is_quiet()) fmt::print(stderr, "{}\n", fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace lathe::cli
