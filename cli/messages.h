// What a person should know while a command works: on stderr, unless --quiet. Data goes to stdout, errors are
// exceptions.
#pragma once

#include <fmt/core.h>

#include <cstdio>
#include <utility>

#include "core/support/printable.h"

namespace lathe::cli {

void set_quiet(bool quiet);
bool is_quiet();

/// Prints a line, without what a terminal would obey: much of it was said by others.
template <typename... Args>
void say(fmt::format_string<Args...> format, Args&&... args) {
  if (!is_quiet()) fmt::print(stderr, "{}\n", printable(fmt::format(format, std::forward<Args>(args)...)));
}

}  // namespace lathe::cli
