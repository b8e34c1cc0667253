// What to say about inputs whose dimensions a model leaves open: nothing is guessed for them.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/arith/expr.h"

namespace lathe::relay {

/// A dimension of an input, as its model states it.
struct StatedDim {
  std::string text;     // "224", a name ("n"), "2 * k", or "?"
  int64_t extent = -1;  // -1: open
  lathe::Expr size{};   // of one that is made of others: by their names; else null

  bool open() const { return extent < 0; }
  /// The open dimensions that it is made of, mostly one: what tells all of them settles it.
  std::set<std::string> names() const;
};

struct StatedInput {
  std::string name;
  std::optional<std::vector<StatedDim>> dims;  // nothing: not even their number is stated

  bool open() const;
};

/// One message that names each input with open dimensions, its shape as stated, and the fewest --shape flags
/// that would settle them all, to be pasted; "" when none is open.
std::string open_shapes_message(const std::vector<StatedInput>& inputs);

}  // namespace lathe::relay
