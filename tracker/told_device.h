// What a worker says of its machine in HELLO, as it was said and as it was read.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "tracker/device_class.h"
#include "tracker/needs.h"

namespace lathe::tracker {

/// Never changed, for it is shared with whoever asks for the fleet: the text has up to 64 KiB.
struct ToldDevice {
  explicit ToldDevice(std::string json)
      : text(std::move(json)), its_class(device_class_of(text)), properties(properties_of(text)) {}

  const std::string text;
  const DeviceClass its_class;
  const Properties properties;
};

}  // namespace lathe::tracker
