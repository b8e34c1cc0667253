// What a searcher tells of a model with more tasks than its tracker lets it tell of (kToldBytes).
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace lathe::cli {

/// A report, on one line. Of more than `most` bytes, the tasks that take least of the model's time are null,
/// so that those that are told keep their places, and `tasks_left_out` is the number of these; if need be
/// `families` are left out, too.
std::string told_report(nlohmann::json report, size_t most);

/// How many elements of the list, from its first on, have `most` bytes together.
size_t count_told(const nlohmann::json& list, size_t most);

}  // namespace lathe::cli
