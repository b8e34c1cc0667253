// Copies of a database while it is in use.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace lathe::db {

/// Copies the database at `path`, of this or an older schema, as it is at one moment into the new file
/// `copy`; writers go on meanwhile. The copy may be on a network; it is checked before it has its name.
/// Throws Error when `copy` exists or cannot be written, or when what was copied is damaged.
void back_up(const std::string& path, const std::string& copy);

/// Makes the database at `path`: `fill` is told where it is meanwhile, and it has its name once that has
/// returned. When that throws, nothing is left. False when another was there by then: nothing was made.
bool make_filled(const std::string& path, const std::function<void(const std::string& part)>& fill);

/// Database::problems(). Throws Error for one that is none of ours, or too damaged to be read.
std::vector<std::string> problems_of(const std::string& path);

}  // namespace lathe::db
