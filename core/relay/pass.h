// The pass manager. A pass is one free function in a header of its own (passes/*.h) and one row of the table
// in pass.cpp; docs/adding-a-pass.md walks through one.
#pragma once

#include <functional>
#include <span>

#include "core/relay/expr.h"
#include "core/support/pass_instrument.h"
#include "core/tir/target.h"

namespace lathe::relay {

/// In the order of the table.
enum class PassId : uint8_t {
  kInferType,
  kInlineDataflow,
  kSpecialize,
  kSimplifyInference,
  kSimplifyExpr,
  kConvTransposeToConv,
  kRecognizeNorms,
  kCanonicalizeOps,
  kTurnSoftmax,
  kConv3dToConv2d,
  kCropKernels,
  kKeepImages,
  kKeepMatrices,
  kFakeQuantizationToInteger,
  kCanonicalizeQnn,
  kToMixedPrecision,
  kToFloat64,
  kWidenHalves,
  kRoundBlockProducts,
  kExpandBlockProducts,
  kFoldConstant,
  kFoldScaleAxis,
  kSplitConvolutions,
  kWidenProducts,
  kAlterLayout,
  kEliminateCommonSubexpr,
  kDeadCode,
  kToANormalForm,
  kToGraphNormalForm,
  kSqueezeRows,
  kFuseOps,
  kFuseWindows,
  kFuseAttention,
  kNarrowConstants,
  kDefuse,
};

struct Pass;

using PassInstrument = lathe::PassInstrument<Pass, Module>;

/// What the passes of one run share.
struct PassContext {
  int opt_level = 3;             // passes of a higher level are left out
  std::vector<PassId> disabled;  // left out too, unless another pass requires them
  Target target;                 // for layouts, and types of operands
  std::function<std::vector<Tensor>(const std::vector<Expr>& closed)> evaluate;  // null: the interpreter
  std::vector<PassInstrument*> instruments;
  bool verify = true;  // CHECK that the module is well formed after each pass
};

struct Pass {
  PassId id;
  const char* name;  // as in --passes=
  const char* doc;
  int opt_level;
  std::span<const PassId> required;  // run before it, each time
  // One of the two; a function pass sees each global function that is not primitive.
  Module (*on_module)(const Module&, const PassContext&) = nullptr;
  Ref<Function> (*on_function)(const Ref<Function>&) = nullptr;
  /// Of a module whose expressions all have their types the result is one, too: inference would give it back.
  bool keeps_types = false;
};

std::span<const Pass> passes();
const Pass& pass(PassId id);
/// The pass named. Throws Error with the nearest name.
const Pass& find_pass(std::string_view name);

/// Runs `sequence` in order, each pass after those it requires. Errors of a pass are its user's (a type that
/// does not check, say); a module left ill-formed is ours and aborts with its text.
Module run_passes(Module module, std::span<const PassId> sequence, const PassContext& context = {});

/// From an imported model to primitive functions, in order.
std::span<const PassId> inference_pipeline();

}  // namespace lathe::relay
