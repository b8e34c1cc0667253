// What the system tells of itself in files of a line or a few (/proc, /sys).
#pragma once

#include <string>

namespace lathe::worker {

/// The first line, or all of it; "" where the system does not tell.
std::string first_line(const std::string& path);
std::string whole_text(const std::string& path);

}  // namespace lathe::worker
