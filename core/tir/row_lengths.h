// Rows of a few elements that lie one behind the other: schedules make rows lanes, and code generation takes
// the elements at one place of as many rows out of whole vectors (docs/decisions/014).
#pragma once

#include <cstdint>

namespace lathe::tir {

/// Whether rows of `length` elements are taken apart in a few instructions. Of even lengths above 2 several
/// elements of a vector are wanted in one lane, for which there must be instructions that take lanes of two
/// vectors (AVX-512).
constexpr bool is_short_row(int64_t length, bool takes_of_two_vectors) {
  constexpr int64_t kShortest = 2, kLongest = 7;
  return length >= kShortest && length <= kLongest &&
         (length == kShortest || length % 2 == 1 || takes_of_two_vectors);
}

}  // namespace lathe::tir
