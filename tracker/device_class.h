// Devices whose times can be compared: the same kind of processor, of the same size, that code is compiled
// for in the same way. One search is measured by one class alone.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "db/reader.h"

namespace lathe::tracker {

struct DeviceClass {
  std::string name;          // for people and for matching: "AMD EPYC 9R14, 2 cores"; "" for what is none
  std::string architecture;  // of the processor: "x86_64"
  std::string target;        // what its workers compile for by themselves, complete; may be ""
  std::string machine;       // the numbers measured of one of them, as text; may be ""
};

/// Of the JSON that a worker says HELLO with (workers/device.h), which may be anything.
DeviceClass device_class_of(std::string_view device_json);

/// Of the class of such devices.
std::string class_name(std::string_view model, int64_t cores);
/// What the database calls the devices of that class; none of "".
std::optional<db::DeviceKind> kind_of_class(std::string_view name);

/// Name and version of what drives a device, of the same JSON; of a processor, which has no other, the
/// kernel's. "" where it does not say.
std::string driver_of(const nlohmann::json& device);

}  // namespace lathe::tracker
