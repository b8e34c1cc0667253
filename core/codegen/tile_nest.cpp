#include "core/codegen/tile_nest.h"

#include <algorithm>
#include <map>

namespace lathe::codegen {
namespace {

constexpr int kLanes = 16;

/// The stores of a loop's body; empty where it does anything else.
bool collect_stores(const tir::Stmt& stmt, std::vector<const tir::Store*>& stores) {
  if (const auto* seq = stmt.as<tir::Seq>())
    return std::all_of(seq->stmts.begin(), seq->stmts.end(),
                       [&](const tir::Stmt& s) { return collect_stores(s, stores); });
  stores.push_back(stmt.as<tir::Store>());
  return stores.back() != nullptr;
}

/// One addition to a vector of sums.
struct Addition {
  int64_t slot;
  DotProduct dot;
};

/// Null where `store` does not add a dot product to what it writes.
std::optional<Addition> addition_of(const tir::Store& store) {
  const Binary* sum = store.value.as<Binary>();
  if (!sum || sum->op != BinaryOp::kAdd || sum->dtype.lanes != kLanes) return std::nullopt;
  const tir::Load* before = sum->a.as<tir::Load>();
  if (!before || before->buffer != store.buffer) return std::nullopt;
  const FlatAccess read = flatten(before->buffer, before->indices);
  const FlatAccess written = flatten(store.buffer, store.indices);
  if (!read.is_constant() || !written.is_constant() || !written.is_dense() || !read.is_dense() ||
      read.constant != written.constant)
    return std::nullopt;
  std::optional<DotProduct> dot = dot_product_of(sum->b);
  return dot ? std::optional(Addition{written.constant, std::move(*dot)}) : std::nullopt;
}

int64_t coefficient_of(const FlatAccess& at, const Var& var) {
  for (const auto& [term, coefficient] : at.terms)
    if (term == var) return coefficient;
  return 0;
}

/// `var` is a term of its own, or none.
bool is_apart(const FlatAccess& at, const Var& var) {
  return std::none_of(at.terms.begin(), at.terms.end(),
                      [&](const auto& term) { return term.first != var && uses_var(term.first, var.get()); });
}

/// Fills in rows, columns, slots and the groups of one iteration. False where the additions are no such
/// matrix.
bool arrange(const std::vector<Addition>& additions, TileNest& nest) {
  const DotProduct& first = additions.front().dot;
  const int64_t terms = first.terms;
  struct Place {
    int64_t row, column;
    auto operator<=>(const Place&) const = default;
  };
  std::map<int64_t, std::vector<Place>> by_slot;
  for (const auto& [slot, dot] : additions) {
    if (dot.same->buffer != first.same->buffer || dot.each->buffer != first.each->buffer ||
        dot.terms != first.terms || !have_same_terms(dot.same_at, first.same_at) ||
        !have_same_terms(dot.each_at, first.each_at))
      return false;
    by_slot[slot].push_back({dot.same_at.constant, dot.each_at.constant});
  }
  for (auto& [slot, places] : by_slot) std::sort(places.begin(), places.end());
  const std::vector<Place>& any = by_slot.begin()->second;
  const size_t groups = any.size();
  nest.group_stride = groups > 1 ? any[1].column - any[0].column : 0;
  std::map<Place, int64_t> slots;
  std::vector<int64_t> rows;
  for (auto& [slot, places] : by_slot) {
    if (places.size() != groups) return false;
    for (size_t g = 0; g < groups; ++g) {
      const auto step = static_cast<int64_t>(g);
      if (places[g] != Place{places[0].row + step * terms, places[0].column + step * nest.group_stride})
        return false;
    }
    if (!slots.emplace(places[0], slot).second) return false;
    rows.push_back(places[0].row);
    nest.columns.push_back(places[0].column);
  }
  for (auto* places : {&rows, &nest.columns}) {
    std::sort(places->begin(), places->end());
    places->erase(std::unique(places->begin(), places->end()), places->end());
  }
  if (rows.size() * nest.columns.size() != slots.size()) return false;
  nest.row_stride = rows.size() > 1 ? rows[1] - rows[0] : 0;
  for (size_t r = 0; r < rows.size(); ++r) {
    if (rows[r] != rows[0] + static_cast<int64_t>(r) * nest.row_stride) return false;
    for (int64_t column : nest.columns) {
      auto slot = slots.find({rows[r], column});
      if (slot == slots.end()) return false;
      nest.slots.push_back(slot->second);
    }
  }
  nest.dot = first;
  nest.dot.same_at.constant = rows[0];
  nest.dot.each_at.constant = nest.columns[0];
  for (int64_t& column : nest.columns) column -= nest.dot.each_at.constant;
  nest.rows = rows.size();
  nest.groups = static_cast<int64_t>(groups);
  return true;
}

}  // namespace

std::optional<TileNest> tile_nest_of(const tir::For& loop) {
  TileNest nest;
  const tir::For* innermost = &loop;
  for (;;) {
    if (innermost->iteration != tir::Iteration::kSerial) return std::nullopt;
    nest.loops.push_back(innermost);
    const tir::For* next = innermost->body.as<tir::For>();
    if (!next) break;
    innermost = next;
  }
  std::vector<const tir::Store*> stores;
  if (!collect_stores(innermost->body, stores) || stores.empty()) return std::nullopt;
  std::vector<Addition> additions;
  for (const tir::Store* store : stores) {
    if (store->buffer != stores[0]->buffer) return std::nullopt;
    std::optional<Addition> addition = addition_of(*store);
    if (!addition) return std::nullopt;
    additions.push_back(std::move(*addition));
  }
  nest.sums = stores[0]->buffer;
  nest.sum = stores[0]->value.dtype().element();
  if (!arrange(additions, nest)) return std::nullopt;
  // The sums go from one iteration to the next, so no loop may choose the iterations of another.
  const int64_t* extent = as_int(innermost->extent);
  const int64_t across = coefficient_of(nest.dot.each_at, innermost->var);
  if (nest.groups == 1) nest.group_stride = across;
  if (extent && coefficient_of(nest.dot.same_at, innermost->var) == nest.groups * nest.dot.terms &&
      across == nest.groups * nest.group_stride && is_apart(nest.dot.same_at, innermost->var) &&
      is_apart(nest.dot.each_at, innermost->var)) {
    nest.along_k = innermost;
    nest.loops.pop_back();
    nest.groups *= *extent;
  }
  // Each group is a row of a tile.
  return nest.group_stride >= nest.dot.terms * kLanes ? std::optional(std::move(nest)) : std::nullopt;
}

}  // namespace lathe::codegen
