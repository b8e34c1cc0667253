// What a process that nobody trusts takes of the disk by a folder of its own, and how that is got rid of.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace lathe {

struct DiskUse {
  uint64_t bytes = 0;  // of the disk: of a file with holes what is not one
  size_t files = 0;    // folders and links among them
  /// There is more that cannot be counted: folders within each other without end, a process that nobody may
  /// look at, a file without a name that is in memory alone. A file that vanishes while it is looked at may
  /// seem so, once.
  bool uncounted = false;
};

/// Of all in `folder`, and of what no folder has any more while a process of the group `group` (0: none)
/// holds it. Ends when it has found more than `most_files`.
DiskUse disk_use(const std::string& folder, pid_t group, size_t most_files);

/// Removes a folder, if there is one, with all in it, however deep it is and whatever its modes. Throws Error
/// when it cannot. REQUIRES: nobody writes there any more.
void remove_folder(const std::string& path);

}  // namespace lathe
