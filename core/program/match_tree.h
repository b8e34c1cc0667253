// Matches as decisions: each part of a value is looked at once on every way.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "core/program/assembler.h"
#include "core/relay/expr.h"

namespace lathe::program {

/// Numbers of the constructors of a program: those of one type follow each other.
class Constructors {
 public:
  explicit Constructors(const relay::Module& module);
  int64_t number(const relay::ConstructorNode& constructor) const;
  /// The first of the constructor's type, and how many it has.
  std::pair<int64_t, size_t> type_of(const relay::ConstructorNode& constructor) const;
  const std::vector<runtime::DataConstructor>& all() const { return all_; }

 private:
  std::map<std::string, int64_t> numbers_;                   // by "Type.Name"
  std::map<std::string, std::pair<int64_t, size_t>> types_;  // by name
  std::vector<runtime::DataConstructor> all_;
};

/// Where the value of a variable of a pattern is once its clause is reached.
struct PatternVariable {
  relay::Var var;
  int32_t value;  // register
};

/// Adds the code that takes `value` apart and goes on at labels[i] for the first clause i that matches; none:
/// at `otherwise`. Gives the variables of each clause, nothing for one that is never reached. Sestoft 1996,
/// "ML pattern match compilation and partial evaluation", with Jacobs' choice of what is tested first: what
/// most clauses ask.
std::vector<std::optional<std::vector<PatternVariable>>> add_match(
    Assembler& code, const Constructors& constructors, std::span<const relay::Clause> clauses, int32_t value,
    std::span<const int32_t> labels, int32_t otherwise);

}  // namespace lathe::program
