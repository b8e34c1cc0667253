// The tracker's pages as files in memory: made from src/ by bundle.mjs, embedded by CMakeLists.txt.
#pragma once

#include <optional>
#include <string_view>

namespace lathe::dashboards {

/// The bytes of the file that `path` ("/", "/app.js") names, for as long as the program runs.
std::optional<std::string_view> page(std::string_view path);

}  // namespace lathe::dashboards
