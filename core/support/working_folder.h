// The folder that paths begin in.
#pragma once

#include <string>

namespace lathe {

/// The path from the root. Throws Error where it begins in the working folder, and that was removed.
std::string absolute_path(const std::string& path);

}  // namespace lathe
