#include "core/relay/analysis/match_coverage.h"

#include <algorithm>
#include <optional>

#include "core/support/stack.h"

namespace lathe::relay {
namespace {

// The problem is NP-complete in the patterns, and tuples widen the table: beyond this it gives up.
constexpr size_t kMaxColumns = 500;
constexpr int kMaxSteps = 10'000;

using Row = std::vector<Pattern>;  // the column that is looked at next is the last
using Witness = std::vector<std::string>;

class Coverage {
 public:
  explicit Coverage(const Module& module) : module_(module) {}

  /// Values for `columns` columns that no row matches; last column first.
  std::optional<Witness> uncovered(const std::vector<Row>& rows, size_t columns) {
    std::optional<Witness> found;
    with_enough_stack([&] { found = uncovered_once(rows, columns); });
    return found;
  }

 private:
  std::optional<Witness> uncovered_once(const std::vector<Row>& rows, size_t columns) {
    if (rows.empty()) return Witness(columns, "_");
    if (columns == 0 || columns > kMaxColumns || ++steps_ > kMaxSteps) return std::nullopt;
    // A column of wildcards alone decides nothing and is dropped. Tuples have one constructor.
    const Pattern* head = nullptr;
    for (const Row& row : rows)
      if (row.back().as<ConstructorPattern>() || row.back().as<TuplePattern>()) head = &row.back();
    if (!head) return extended("_", 0, uncovered(specialized(rows, nullptr, 0), columns - 1));
    if (const auto* tuple = head->as<TuplePattern>()) {
      size_t arity = tuple->items.size();
      return extended("", arity, uncovered(specialized(rows, nullptr, arity), columns - 1 + arity));
    }
    const Constructor& any = head->as<ConstructorPattern>()->constructor;
    auto data = module_->types.find(any->belongs_to->name);
    if (data == module_->types.end()) return std::nullopt;
    // Each constructor in turn, also those that no row names: only wildcards match them.
    for (const Constructor& each : data->second->constructors) {
      size_t arity = each->inputs.size();
      auto found = uncovered(specialized(rows, each.get(), arity), columns - 1 + arity);
      if (found) return extended(each->name, arity, std::move(found));
    }
    return std::nullopt;
  }

  /// The rows whose last pattern may match `constructor` (null: a tuple, or anything), with its items in its
  /// place.
  static std::vector<Row> specialized(const std::vector<Row>& rows, const ConstructorNode* constructor,
                                      size_t arity) {
    std::vector<Row> result;
    for (const Row& row : rows) {
      Row rest(row.begin(), row.end() - 1);
      const std::vector<Pattern>* items = nullptr;
      if (const auto* tuple = row.back().as<TuplePattern>()) items = &tuple->items;
      if (const auto* pattern = row.back().as<ConstructorPattern>()) {
        if (!constructor || pattern->constructor->name != constructor->name) continue;
        items = &pattern->items;
      }
      if (items && items->size() == arity)
        // In reverse, so that the first item is the next column.
        rest.insert(rest.end(), items->rbegin(), items->rend());
      else
        rest.insert(rest.end(), arity, make<WildcardPattern>());
      result.push_back(std::move(rest));
    }
    return result;
  }

  /// Puts the first `arity` values under the constructor named.
  static std::optional<Witness> extended(const std::string& name, size_t arity,
                                         std::optional<Witness> values) {
    if (!values) return values;
    std::string items;
    for (size_t i = 0; i < arity; ++i) items += (i ? ", " : "") + (*values)[i];
    // An empty tuple is written (), a constructor without fields by its name alone.
    bool is_tuple = name.empty();
    values->erase(values->begin(), values->begin() + static_cast<long>(arity));
    values->insert(values->begin(), arity || is_tuple ? fmt::format("{}({})", name, items) : name);
    return values;
  }

  const Module& module_;
  int steps_ = 0;
};

}  // namespace

std::string find_uncovered(const Match& match, const Module& module) {
  std::vector<Row> rows;
  for (const Clause& clause : match.clauses) rows.push_back({clause.pattern});
  auto values = Coverage(module).uncovered(rows, 1);
  return values ? values->front() : "";
}

}  // namespace lathe::relay
