// On which devices a job is searched: those of one class, for times of two classes are not compared.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tracker/device_class.h"
#include "tracker/farm.h"
#include "tracker/needs.h"

namespace lathe::tracker {

/// The features of the CPU that code for the target uses and a device with a target of its own lacks.
using LackingFeatures =
    std::function<std::vector<std::string>(const std::string& target, const std::string& device_target)>;

/// Why no device fits, or "" and the class that does: of those whose name contains `wanted`, that have what
/// is needed and can run code for the target, the one whose workers that answer have the most slots.
/// `target` is "cpu" or a complete text, which `lacking` is asked about; empty: it is not asked.
std::optional<DeviceClass> choose_device_class(const FarmStatus& farm, const std::string& target,
                                               const std::string& wanted, const Properties& needs,
                                               const LackingFeatures& lacking, std::string& why);

}  // namespace lathe::tracker
