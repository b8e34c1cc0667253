// What must outlive a loss of power, and disks that are full.
#pragma once

#include <string>

namespace lathe {

/// Whether an `errno` says that the disk or the quota is full, or that files may have no more (`ulimit -f`):
/// the machine's fault, which no other flag mends.
bool says_full(int error);

/// Throws "cannot write PATH: reason" for an `errno`: Unfit where that says_full(), else Error.
[[noreturn]] void fail_to_write(const std::string& path, int error);

/// The same with "cannot make the folder PATH: reason".
[[noreturn]] void fail_to_make_folder(const std::string& path, int error);

/// Makes the folder and those above it, or fails so.
void make_folder(const std::string& path);

/// The bytes of a file, or the names in a folder, are on the disk when this returns. Throws Error "cannot
/// write PATH to its disk: reason".
void sync_to_disk(const std::string& path);

/// Gives a file another name in its file system. False, and nothing is changed, when there is something of
/// that name: a rename would take its place. Throws Error "cannot write TO: reason".
bool rename_unless_there(const std::string& from, const std::string& to);

}  // namespace lathe
