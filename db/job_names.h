// What jobs may be called by.
#pragma once

#include <cstddef>
#include <string>

namespace lathe::db {

/// Throws Error for a beginning so short that a slip, or the number of a row, may well be somebody's job: one
/// may be cancelled by it.
void require_telling(const std::string& beginning);

/// Throws Error when more than one job begins so.
void require_one(const std::string& beginning, size_t jobs);

}  // namespace lathe::db
