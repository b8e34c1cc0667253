#include "core/relay/pass.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/relay/analysis/well_formed.h"
#include "core/relay/text.h"

namespace lathe::relay {
namespace {

using enum PassId;

Module example() {
  return parse_module(
      "def @main(%x: Tensor[(2), float32]) { let %dead = nn.relu(%x); add(%x, multiply(2f, 3f)) }");
}

struct Names final : PassInstrument {
  std::vector<std::string> ran;
  void after(const Pass& pass, const Module&) override { ran.push_back(pass.name); }
};

TEST(RunPasses, RequiredPassesRunBefore) {
  Names names;
  PassId sequence[] = {kDeadCode, kFoldConstant};
  Module module = run_passes(example(), sequence, {.instruments = {&names}});
  EXPECT_EQ(names.ran, (std::vector<std::string>{"dead_code", "infer_type", "specialize", "fold_constant"}));
  EXPECT_EQ(print(module->functions.at("main")->body), "add(%x, 6f)\n");
}

TEST(RunPasses, TypesAreInferredOnceWhileNothingChanges) {
  Names names;
  // Folding changes the example, and fusing the result: both keep the types.
  PassId sequence[] = {kCanonicalizeOps, kSimplifyExpr, kFoldConstant,
                       kFoldScaleAxis,   kFuseOps,      kFuseWindows};
  run_passes(example(), sequence, {.instruments = {&names}});
  EXPECT_EQ(std::count(names.ran.begin(), names.ran.end(), "infer_type"), 1);
}

TEST(RunPasses, LevelAndDisabledLeavePassesOut) {
  Names names;
  PassId sequence[] = {kDeadCode, kFoldConstant};
  run_passes(example(), sequence, {.opt_level = 1, .instruments = {&names}});
  EXPECT_EQ(names.ran, (std::vector<std::string>{"dead_code"}));
  names.ran.clear();
  run_passes(example(), sequence, {.disabled = {kDeadCode}, .instruments = {&names}});
  EXPECT_EQ(names.ran, (std::vector<std::string>{"infer_type", "specialize", "fold_constant"}));
}

TEST(RunPasses, NothingToDoGivesTheSameModule) {
  PassId sequence[] = {kInferType, kSimplifyExpr, kEliminateCommonSubexpr, kDeadCode, kFoldConstant};
  Module once = run_passes(example(), sequence), twice = run_passes(once, sequence);
  EXPECT_TRUE(once == twice) << print(once) << print(twice);
}

/// Processors compute in float32 what is float16; other devices do not, and kernels stay what they are.
TEST(RunPasses, WhatIsFusedOrForOtherDevicesKeepsFloat16) {
  const PassId widen[] = {kWidenHalves}, fuse[] = {kInferType, kFuseOps};
  const Module given = run_passes(parse_module("def @main(%x: Tensor[(2), float16]) { add(%x, %x) }"),
                                  std::vector{kInferType, kSpecialize});
  EXPECT_FALSE(run_passes(given, widen) == given);
  Target gpu;
  gpu.kind = "cuda";
  EXPECT_TRUE(run_passes(given, widen, {.target = gpu}) == given);
  const Module fused = run_passes(given, fuse);
  EXPECT_TRUE(run_passes(fused, widen) == fused) << print(run_passes(fused, widen));
}

TEST(RunPasses, TimesAreReported) {
  PassTimes<Pass, Module> times;
  PassId sequence[] = {kDeadCode, kDeadCode};
  run_passes(example(), sequence, {.instruments = {&times}});
  EXPECT_NE(times.report().find("ms  dead_code\n"), std::string::npos) << times.report();
  EXPECT_NE(times.report().find("ms  dead_code (nothing to do)\n"), std::string::npos) << times.report();
}

TEST(FindPass, SuggestsTheNearestName) {
  try {
    find_pass("fuse_op");
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "unknown pass `fuse_op`; did you mean `fuse_ops`?");
  }
}

Module module_of(std::vector<Var> params, Expr body) {
  return make_module(make<Function>(std::vector<TypeVar>{}, std::move(params), Type(), std::move(body)));
}

TEST(WellFormed, SeesWhatPassesMayBreak) {
  Var x = make_var("x"), y = make_var("y");
  EXPECT_EQ(find_ill_formed(module_of({x}, tuple({x}))), "");
  EXPECT_EQ(find_ill_formed(module_of({x}, y)), "@main: variable %y is free");
  EXPECT_EQ(find_ill_formed(module_of({x, x}, x)), "@main: variable %x is bound twice");
  EXPECT_EQ(find_ill_formed(module_of({x}, tuple({make<Let>(y, x, y), y}))),
            "@main: variable %y is used out of its scope");
  // Sharing moves an expression out of the scope of its variable.
  Expr shared = tuple({y});
  EXPECT_EQ(find_ill_formed(module_of({x}, tuple({make<Let>(y, x, shared), shared}))),
            "@main: variable %y is used out of its scope");
  EXPECT_EQ(find_ill_formed(module_of({x}, make<Call>(make<GlobalVarNode>("f"), std::vector<Expr>{x}))),
            "@main: there is no function @f");
  Expr function =
      make<Function>(std::vector<TypeVar>{}, std::vector{x}, Type(), make<Call>(y, std::vector<Expr>{x}));
  EXPECT_EQ(find_ill_formed(module_of({}, make<Let>(y, function, y))), "");
}

}  // namespace
}  // namespace lathe::relay
