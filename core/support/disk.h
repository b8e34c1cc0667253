// What must outlive a loss of power.
#pragma once

#include <string>

namespace lathe {

/// The bytes of a file, or the names in a folder, are on the disk when this returns. Throws Error "cannot
/// write PATH to its disk: reason".
void sync_to_disk(const std::string& path);

}  // namespace lathe
