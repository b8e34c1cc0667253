// On which devices a job is searched: those of one class, for times of two classes are not compared.
#pragma once

#include <optional>
#include <string>

#include "tracker/device_class.h"
#include "tracker/farm.h"
#include "tracker/needs.h"

namespace lathe::tracker {

/// Why no device fits, or "" and the class that does: of those whose name contains `wanted`, that have what
/// is needed and can run code for the target, the one whose workers that answer have the most slots.
/// `target` is "cpu" or a complete text.
std::optional<DeviceClass> choose_device_class(const FarmStatus& farm, const std::string& target,
                                               const std::string& wanted, const Properties& needs,
                                               std::string& why);

}  // namespace lathe::tracker
