// What must outlive a loss of power, and disks that are full.
#pragma once

#include <string>

namespace lathe {

/// Throws "cannot write PATH: reason" for an `errno`: Unfit where the disk or the quota is full, which no
/// other flag mends, else Error.
[[noreturn]] void fail_to_write(const std::string& path, int error);

/// The bytes of a file, or the names in a folder, are on the disk when this returns. Throws Error "cannot
/// write PATH to its disk: reason".
void sync_to_disk(const std::string& path);

/// Gives a file another name in its file system. False, and nothing is changed, when there is something of
/// that name: a rename would take its place. Throws Error "cannot write TO: reason".
bool rename_unless_there(const std::string& from, const std::string& to);

}  // namespace lathe
