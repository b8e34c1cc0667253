// Tests that cut tiles: which part of a tile lies inside an edge. For specialize_boundaries, which splits by
// them.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "core/arith/simplify.h"

namespace lathe::tir {

/// coefficient * atom + (terms over tile loops) + constant < 0, where `atom` is the one part that loops
/// outside decide.
struct EdgeTest {
  Expr atom;
  int64_t coefficient = 0;
  int64_t largest = 0, smallest = 0;  // of the tile's terms and the constant
  Expr tile = 0;                      // these
  int64_t step = 0;                   // what divides them but for the constant; 0 for no terms
  bool open = false;                  // a dimension that is open has a say in the atom
  bool is_sum = false;                // several loops outside have, by terms of their own
};

/// Different expressions that are no sums and no multiples, with their coefficients.
using Terms = std::vector<std::pair<Expr, int64_t>>;
/// Adds factor * e to the sum of `terms` and `constant`.
void add_terms(const Expr& e, int64_t factor, Terms& terms, int64_t& constant);

/// Of loops inside the statement looked at; -1: not a tile's.
using Extents = std::map<const VarNode*, int64_t>;

/// Open dimensions of a function: variables that no loop of it binds.
using Dims = std::set<const VarNode*>;
/// Whether one of them has a say.
bool uses_dims(const Expr& e, const Dims& dims);

/// The test when it has the form above for a statement inside which the loops `inner` are. Where a dimension
/// is open, or loops outside have several terms, the atom is all that these decide: less the dimension.
std::optional<EdgeTest> edge_test(const Expr& condition, const Extents& inner, const Dims& dims);

/// The values of the atom for which the whole tile is inside.
Bound inside_values(const EdgeTest& test);

/// Parts of a tile that an edge may leave, without none and all. Of terms that are multiples, as tiles of 4
/// rows are of rows, the edge leaves the same ones for several values of the atom.
int64_t parts_within(const EdgeTest& test);

/// The same places of the tile pass for all of these values of the atom.
bool decides_alike(const EdgeTest& test, const Bound& values);

/// What Ifs around a statement decided about sums in which an open dimension has a say: where an edge is.
class EdgePlaces {
 public:
  /// REQUIRES: `dims` outlives this.
  explicit EdgePlaces(const Dims& dims) : dims_(&dims) {}

  void add(const Expr& sum, const Bound& values) { places_.emplace_back(sum, values); }
  /// The condition holds, or it does not.
  void decide(const Expr& condition, bool holds);
  /// What `sum` may be, whose variables `analyzer` knows.
  Bound values(const Analyzer& analyzer, const Expr& sum) const;
  bool empty() const { return places_.empty(); }

 private:
  const Dims* dims_;
  std::vector<std::pair<Expr, Bound>> places_;
};

}  // namespace lathe::tir
