// What is known of a database's file before it is opened. Which file systems it can be on: its write-ahead
// log has an index in shared memory, which machines do not share.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lathe::db {

/// The name of a network or cluster file system by statfs(2)'s number of it ("NFS"); of one in user space
/// (FUSE), whose number is one for all, by the name in the table of mounts ("fuse.sshfs"). "" for a local
/// one.
std::string_view network_file_system_name(uint32_t magic, std::string_view mounted_as);

/// The same of the file system on which `path` is or would be.
std::string_view network_file_system(const std::string& path);

/// Whether it is a file that begins as SQLite's do.
bool is_sqlite_file(const std::string& path);

}  // namespace lathe::db
