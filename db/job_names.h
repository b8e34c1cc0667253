// What jobs may be called by.
#pragma once

#include <string>

namespace lathe::db {

/// Throws Error for a beginning so short that a slip, or the number of a row, may well be somebody's job: one
/// may be cancelled by it.
void require_telling(const std::string& beginning);

}  // namespace lathe::db
