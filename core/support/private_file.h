// Files of one user in folders that are everybody's, as /tmp and /dev/shm.
#pragma once

#include <string>

namespace lathe {

/// A descriptor of the file, which is made when it is not there, for reading and writing by this user alone.
/// Throws Unfit, with the reason, for what is no regular file, another user's, or open to others: whoever
/// made it there first could hold its locks and write into it.
int open_private_file(const std::string& path);

}  // namespace lathe
