// Copies of a database while it is in use.
#pragma once

#include <string>
#include <vector>

namespace lathe::db {

/// Copies the database at `path`, of this or an older schema, as it is at one moment into the new file
/// `copy`; writers go on meanwhile. The copy may be on a network; it is checked before it has its name.
/// Throws Error when `copy` exists or cannot be written, or when what was copied is damaged.
void back_up(const std::string& path, const std::string& copy);

/// Database::problems(). Throws Error for one that is none of ours, or too damaged to be read.
std::vector<std::string> problems_of(const std::string& path);

}  // namespace lathe::db
