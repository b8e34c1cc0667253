// Properties of random programs: they read back as they print, their types hold, and passes keep their
// values. LATHE_PROGRAMS=FIRST-LAST runs other seeds than the test's own.
#include "tests/relay/random_programs.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "core/relay/functor.h"
#include "core/relay/interpret/interpreter.h"
#include "core/relay/pass.h"
#include "core/relay/passes/infer_type.h"
#include "core/relay/text.h"
#include "core/support/text.h"

namespace lathe::relay {
namespace {

std::pair<uint64_t, uint64_t> seeds() {
  const char* given = std::getenv("LATHE_PROGRAMS");
  if (!given) return {1, 100};
  std::vector<std::string> parts = split_text(given, '-');
  return {std::stoull(parts.at(0)), std::stoull(parts.at(1))};
}

/// The value of @main as text.
std::string value_of(const Module& module) {
  Interpreter interpreter(module);
  Value value = interpreter.call("main");
  const Ref<Function>& main = interpreter.module()->functions.at("main");
  EXPECT_TRUE(has_type(value, main->body->checked_type, *interpreter.module())) << print(value);
  return print(value);
}

void check(const Module& original) {
  // What is read back has places, for messages.
  Module module = parse_module(print(original), "random");
  ASSERT_TRUE(structural_equal(original, module, /*map_free=*/true)) << print(module);
  std::string value = value_of(module);
  Module typed = run_passes(module, std::vector{PassId::kInferType});
  std::string typed_text = print(typed);
  ASSERT_EQ(print(run_passes(parse_module(typed_text), std::vector{PassId::kInferType})), typed_text);
  using enum PassId;
  const std::vector<PassId> kSequences[] = {
      {kToANormalForm},
      {kToANormalForm, kToGraphNormalForm},
      {kToGraphNormalForm},
      {kDeadCode},
      {kSimplifyExpr},
      {kFoldConstant},
      {kEliminateCommonSubexpr},
      {kFuseOps},
      {kFuseOps, kDefuse},
      {kSimplifyExpr, kEliminateCommonSubexpr, kFoldConstant, kDeadCode, kToANormalForm},
  };
  for (const std::vector<PassId>& sequence : kSequences) {
    std::string names;
    for (PassId id : sequence) names += std::string(" ") + pass(id).name;
    Module result = run_passes(module, sequence);
    try {
      ASSERT_EQ(value_of(result), value) << "after" << names << ":\n" << print(result);
    } catch (const Error& error) {
      FAIL() << "after" << names << ": " << error.what() << "\n" << print(result);
    }
  }
}

/// What a row of the table says of its pass: after it, inference has nothing to add.
void check_types_stay(const Module& original) {
  const Module module = run_passes(original, std::vector{PassId::kInferType, PassId::kSpecialize});
  for (const Pass& each : passes()) {
    if (!each.keeps_types) continue;
    const Module result = each.on_module
                              ? each.on_module(module, PassContext{})
                              : map_functions(module, [&](const Ref<Function>& function) {
                                  return function->attrs.primitive ? function : each.on_function(function);
                                });
    ASSERT_TRUE(infer_type(result) == result) << each.name << "\n" << print(result);
  }
}

TEST(RandomPrograms, KeepTheirTypes) {
  auto [first, last] = seeds();
  for (uint64_t seed = first; seed <= last; ++seed) {
    SCOPED_TRACE(fmt::format("LATHE_PROGRAMS={0}-{0}", seed));
    check_types_stay(random_program(seed));
    if (HasFatalFailure()) return;
  }
}

TEST(RandomPrograms, KeepTheirValues) {
  auto [first, last] = seeds();
  for (uint64_t seed = first; seed <= last; ++seed) {
    Module module = random_program(seed);
    SCOPED_TRACE(fmt::format("LATHE_PROGRAMS={0}-{0}", seed));
    try {
      check(module);
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
    }
    if (HasFailure()) {
      auto functions = mutate(*module);
      std::erase_if(functions->functions,
                    [](const auto& each) { return each.first != "main" && each.first[0] != 'f'; });
      FAIL() << print(seal(std::move(functions)));
    }
  }
}

}  // namespace
}  // namespace lathe::relay
