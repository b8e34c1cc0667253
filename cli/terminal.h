// What a terminal is asked for; nothing of it goes to files and pipes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lathe::cli {

/// Whether `file` is a terminal that can move its cursor (TERM is not "dumb").
bool can_redraw(int file);

enum class Color : uint8_t { kRed = 31, kGreen = 32, kYellow = 33 };

/// The text, in colour where `file` is a terminal and NO_COLOR is unset or empty (no-color.org).
std::string colored(std::string_view text, Color color, int file);

}  // namespace lathe::cli
