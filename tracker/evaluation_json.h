// How a candidate is measured, as JSON: a column of the database and a part of what searchers send.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "tracker/wire/wire.h"

namespace lathe::tracker {

nlohmann::json evaluation_json(const wire::Evaluation& evaluation);

/// Reads what it finds; what is missing, or of another type, stays as it is.
void read_evaluation(const nlohmann::json& json, wire::Evaluation& evaluation);

}  // namespace lathe::tracker
