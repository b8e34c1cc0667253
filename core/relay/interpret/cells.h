// The cells of references, and which of them nothing reaches any more.
#pragma once

#include "core/relay/interpret/value.h"

namespace lathe::relay {

/// Mark and sweep: circles through references are freed as all else is.
class Cells {
 public:
  /// A reference to a new cell. REQUIRES: is_full() was asked before, and collect() called where it is.
  Value create(Value value);
  const Value& read(const RefValue& reference) const { return cells_.at(index(reference)); }
  void write(const RefValue& reference, Value value) { cells_.at(index(reference)) = std::move(value); }

  /// Whether there are twice as many cells as the last collection left.
  bool is_full() const { return used() >= limit_; }
  /// Frees the cells that neither `roots` nor values kept for good reach.
  void collect(const std::vector<Value>& roots);
  /// The cells that `value` reaches stay: it is handed to somebody else.
  void keep(const Value& value);
  size_t used() const { return cells_.size() - free_.size(); }

 private:
  static size_t index(const RefValue& reference) { return static_cast<size_t>(reference.cell); }

  std::vector<Value> cells_;
  std::vector<size_t> free_;
  std::vector<Value> kept_;  // references
  size_t limit_ = 1024;
};

}  // namespace lathe::relay
