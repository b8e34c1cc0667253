// Queries for what one kind of devices has measured.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "db/database.h"
#include "db/reader.h"

namespace lathe::db {

/// "AND `column` is such a device " with its values appended to `values`; "" of any device. The devices are
/// looked for once a query, and are some thousands at most. `kind` outlives the values.
std::string of_kind(std::string_view column, const std::optional<DeviceKind>& kind,
                    std::vector<Value>& values);

}  // namespace lathe::db
