#include "core/program/match_tree.h"

#include <algorithm>
#include <map>

#include "core/support/error.h"
#include "core/support/stack.h"

namespace lathe::program {
namespace {

using namespace relay;
// Of two languages.
using relay::Expr, relay::Var, relay::VarNode;

// The code of a tree may be exponential in the patterns, and each level of it holds what is left of all rows.
constexpr size_t kMaxDecisions = 100'000, kMaxTests = 2000;

/// A part of the value that is matched: of the whole, or part `index` of `parent`.
struct Part {
  int parent = -1;
  int64_t index = 0;
  int32_t value = 0;  // its register, once it was taken out
};

/// That a part is as a pattern says.
struct Test {
  int part;
  Pattern pattern;
};

/// What is left to test for a clause.
struct Row {
  size_t clause;
  std::vector<Test> tests;
};

class MatchTree {
 public:
  MatchTree(Assembler& code, const Constructors& constructors, std::span<const int32_t> labels,
            int32_t otherwise)
      : code_(code), constructors_(constructors), labels_(labels), otherwise_(otherwise) {}

  std::vector<std::optional<std::vector<PatternVariable>>> run(std::span<const Clause> clauses,
                                                               int32_t value) {
    parts_.push_back({-1, 0, value});
    variables_.resize(clauses.size());
    parts_of_variables_.resize(clauses.size());
    std::vector<Row> rows;
    for (size_t i = 0; i < clauses.size(); ++i) {
      rows.push_back({i, {}});
      append(rows.back(), 0, clauses[i].pattern);
      if (rows.back().tests.size() > kMaxTests)
        fail("a pattern of more than {} constructors; write it as several, one in another", kMaxTests);
    }
    reached_.resize(clauses.size());
    decide(rows, {true});
    std::vector<std::optional<std::vector<PatternVariable>>> result(clauses.size());
    for (size_t i = 0; i < clauses.size(); ++i)
      if (reached_[i]) result[i] = variables_[i];
    return result;
  }

 private:
  using Taken = std::vector<bool>;  // which parts are in their registers on this way

  int part(int parent, int64_t index) {
    auto [found, fresh] = numbers_.try_emplace({parent, index}, static_cast<int>(parts_.size()));
    if (fresh) parts_.push_back({parent, index, code_.fresh_register()});
    return found->second;
  }

  /// Variables are noted, tuples taken apart: tests are of constructors alone.
  void append(Row& row, int part_number, const Pattern& pattern) {
    if (const VarPattern* variable = pattern.as<VarPattern>()) {
      std::vector<PatternVariable>& known = variables_[row.clause];
      // A row that does not ask for the part is met once for each constructor of it.
      const bool is_new = std::none_of(
          known.begin(), known.end(), [&](const PatternVariable& each) { return each.var == variable->var; });
      if (!is_new) return;
      known.push_back({variable->var, parts_[static_cast<size_t>(part_number)].value});
      parts_of_variables_[row.clause].push_back(part_number);
    }
    if (const TuplePattern* tuple = pattern.as<TuplePattern>())
      for (size_t i = 0; i < tuple->items.size(); ++i)
        append(row, part(part_number, static_cast<int64_t>(i)), tuple->items[i]);
    if (pattern.as<ConstructorPattern>()) row.tests.push_back({part_number, pattern});
  }

  int32_t take(int number, Taken& taken) {
    taken.resize(parts_.size());
    const Part each = parts_[static_cast<size_t>(number)];
    if (!taken[static_cast<size_t>(number)]) {
      const int32_t parent = take(each.parent, taken);
      code_.add({.op = Opcode::kField, .number = each.index, .results = {each.value}, .args = {parent}});
      taken[static_cast<size_t>(number)] = true;
    }
    return each.value;
  }

  void go_to(int32_t label) { code_.add({.op = Opcode::kJump, .targets = {label}}); }

  static const Test* test_of(const Row& row, int part_number) {
    auto found = std::find_if(row.tests.begin(), row.tests.end(),
                              [&](const Test& test) { return test.part == part_number; });
    return found == row.tests.end() ? nullptr : &*found;
  }

  /// Of what the first row asks, what most rows do.
  static int best_part(const std::vector<Row>& rows) {
    int best = -1;
    std::ptrdiff_t most = 0;
    for (const Test& test : rows[0].tests) {
      const std::ptrdiff_t asked = std::count_if(
          rows.begin(), rows.end(), [&](const Row& row) { return test_of(row, test.part) != nullptr; });
      if (asked > most) best = test.part, most = asked;
    }
    return best;
  }

  void decide(const std::vector<Row>& rows, const Taken& taken) {
    if (++decisions_ > kMaxDecisions)
      fail("a match that takes more than {} decisions; write it as several, one in another", kMaxDecisions);
    with_enough_stack([&] { decide_once(rows, taken); });
  }

  void decide_once(const std::vector<Row>& rows, Taken taken) {
    if (rows.empty()) return go_to(otherwise_);
    // Rows stand in the order of their clauses: when nothing is left to test for the first, it is taken,
    // whatever the others ask.
    const Row& first = rows[0];
    if (first.tests.empty()) {
      // Registers of its variables are the same on all ways here, so each way fills them.
      for (int number : parts_of_variables_[first.clause]) take(number, taken);
      reached_[first.clause] = true;
      return go_to(labels_[first.clause]);
    }
    const int asked = best_part(rows);
    const ConstructorNode& some = *test_of(first, asked)->pattern.as<ConstructorPattern>()->constructor;
    auto [type, count] = constructors_.type_of(some);
    const int32_t value = take(asked, taken);
    // Constructors that no row asks for go on together.
    std::vector<int32_t> targets(count, -1);
    std::map<int64_t, Constructor> by_number;
    for (const Row& row : rows)
      if (const Test* test = test_of(row, asked)) {
        const Constructor& constructor = test->pattern.as<ConstructorPattern>()->constructor;
        by_number.emplace(constructors_.number(*constructor), constructor);
      }
    for (const auto& each : by_number) targets[static_cast<size_t>(each.first - type)] = code_.fresh_label();
    const int32_t others = code_.fresh_label();
    for (int32_t& target : targets)
      if (target < 0) target = others;
    code_.add({.op = Opcode::kSwitch, .number = type, .args = {value}, .targets = targets});
    for (const auto& [number, constructor] : by_number) {
      code_.place(targets[static_cast<size_t>(number - type)]);
      decide(rows_of(rows, asked, constructor), taken);
    }
    code_.place(others);
    if (by_number.size() < count) decide(rows_of(rows, asked, nullptr), taken);
  }

  /// What is left once the part is known to be of the constructor; null: of none that a row asks for.
  std::vector<Row> rows_of(const std::vector<Row>& rows, int asked, const Constructor& constructor) {
    std::vector<Row> left;
    for (const Row& row : rows) {
      const Test* test = test_of(row, asked);
      if (!test) {
        left.push_back(row);
        continue;
      }
      const auto& pattern = *test->pattern.as<ConstructorPattern>();
      if (!constructor || pattern.constructor->name != constructor->name) continue;
      Row rest{row.clause, {}};
      for (const Test& each : row.tests)
        if (each.part != asked) rest.tests.push_back(each);
      for (size_t i = 0; i < pattern.items.size(); ++i)
        append(rest, part(asked, static_cast<int64_t>(i)), pattern.items[i]);
      left.push_back(std::move(rest));
    }
    return left;
  }

  size_t decisions_ = 0;
  Assembler& code_;
  const Constructors& constructors_;
  std::span<const int32_t> labels_;
  int32_t otherwise_;
  std::vector<Part> parts_;
  std::map<std::pair<int, int64_t>, int> numbers_;  // of parts, by parent and index
  std::vector<std::vector<PatternVariable>> variables_;
  std::vector<std::vector<int>> parts_of_variables_;
  std::vector<bool> reached_;  // clauses
};

std::string key_of(const ConstructorNode& constructor) {
  return constructor.belongs_to->name + "." + constructor.name;
}

}  // namespace

Constructors::Constructors(const Module& module) {
  for (const auto& [name, type] : module->types) {
    types_[name] = {static_cast<int64_t>(all_.size()), type->constructors.size()};
    for (const Constructor& each : type->constructors) {
      numbers_[key_of(*each)] = static_cast<int64_t>(all_.size());
      all_.push_back({each->name, static_cast<int64_t>(each->inputs.size())});
    }
  }
}

int64_t Constructors::number(const ConstructorNode& constructor) const {
  return numbers_.at(key_of(constructor));
}

std::pair<int64_t, size_t> Constructors::type_of(const ConstructorNode& constructor) const {
  return types_.at(constructor.belongs_to->name);
}

std::vector<std::optional<std::vector<PatternVariable>>> add_match(
    Assembler& code, const Constructors& constructors, std::span<const Clause> clauses, int32_t value,
    std::span<const int32_t> labels, int32_t otherwise) {
  return MatchTree(code, constructors, labels, otherwise).run(clauses, value);
}

}  // namespace lathe::program
