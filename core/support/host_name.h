// What this machine calls itself.
#pragma once

#include <string>

namespace lathe {

/// The host's name; "localhost", by which a machine without one still answers to itself.
std::string host_name();

}  // namespace lathe
