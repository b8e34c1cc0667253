#include "core/relay/pass.h"

#include <algorithm>

#include "core/relay/analysis/well_formed.h"
#include "core/relay/functor.h"
#include "core/relay/interpret_closed.h"
#include "core/relay/passes/alter_layout.h"
#include "core/relay/passes/canonicalize_ops.h"
#include "core/relay/passes/canonicalize_qnn.h"
#include "core/relay/passes/conv3d_to_conv2d.h"
#include "core/relay/passes/conv_transpose_to_conv.h"
#include "core/relay/passes/crop_kernels.h"
#include "core/relay/passes/dead_code.h"
#include "core/relay/passes/defuse.h"
#include "core/relay/passes/eliminate_common_subexpr.h"
#include "core/relay/passes/expand_block_products.h"
#include "core/relay/passes/fake_quantization_to_integer.h"
#include "core/relay/passes/fold_constant.h"
#include "core/relay/passes/fold_scale_axis.h"
#include "core/relay/passes/fuse_attention.h"
#include "core/relay/passes/fuse_ops.h"
#include "core/relay/passes/fuse_windows.h"
#include "core/relay/passes/infer_type.h"
#include "core/relay/passes/inline_dataflow.h"
#include "core/relay/passes/keep_images.h"
#include "core/relay/passes/keep_matrices.h"
#include "core/relay/passes/narrow_constants.h"
#include "core/relay/passes/normal_form.h"
#include "core/relay/passes/recognize_norms.h"
#include "core/relay/passes/round_block_products.h"
#include "core/relay/passes/simplify_expr.h"
#include "core/relay/passes/simplify_inference.h"
#include "core/relay/passes/specialize.h"
#include "core/relay/passes/squeeze_rows.h"
#include "core/relay/passes/to_float64.h"
#include "core/relay/passes/to_mixed_precision.h"
#include "core/relay/passes/turn_softmax.h"
#include "core/relay/passes/widen_halves.h"
#include "core/relay/passes/widen_products.h"
#include "core/relay/text.h"
#include "core/support/in_order.h"
#include "core/support/pass_table.h"

namespace lathe::relay {
namespace {

using enum PassId;

/// Of every expression, and of tensors the shape and the base type.
constexpr PassId kTypes[] = {kInferType, kSpecialize};
constexpr PassId kInferred[] = {kInferType};

/// A pass that needs nothing of the context, as a row takes it.
template <auto kPass>
Module plain(const Module& module, const PassContext&) {
  return kPass(module);
}
/// Names one of the two overloads.
constexpr Module (*kInfer)(const Module&) = infer_type;

Module fold_constants(const Module& module, const PassContext& context) {
  return fold_constant(module, context.evaluate ? context.evaluate : interpret_closed);
}
Module alter_layouts(const Module& module, const PassContext& context) {
  return alter_layout(module, context.target);
}

Module turn_narrow_softmax(const Module& module, const PassContext& context) {
  return turn_softmax(module, context.target);
}
Module join_attention(const Module& module, const PassContext& context) {
  return fuse_attention(module, context.target);
}
Module narrow_weights(const Module& module, const PassContext& context) {
  return narrow_constants(module, context.target);
}
Module widen_operands(const Module& module, const PassContext& context) {
  return widen_products(module, NarrowCosts(context.target));
}
Module widen_float16(const Module& module, const PassContext& context) {
  // Other devices have arithmetic of 16 bits.
  return context.target.kind == "cpu" ? widen_halves(module, NarrowCosts(context.target)) : module;
}
Module expand_blocks(const Module& module, const PassContext& context) {
  return expand_block_products(module, context.target);
}
Module round_blocks(const Module& module, const PassContext& context) {
  return round_block_products(module, context.target, context.evaluate ? context.evaluate : interpret_closed);
}
Module mixed_precision(const Module& module, const PassContext& context) {
  return to_mixed_precision(module, NarrowCosts(context.target));
}

constexpr bool kKeepsTypes = true;

// clang-format off
constexpr Pass kPasses[] = {
    // id, name, what it does, opt level, required passes, function on modules, function on functions, whether types stay
    {kInferType, "infer_type", "every expression gets its type", 0, {}, plain<kInfer>},
    {kInlineDataflow, "inline_dataflow", "dataflow blocks become part of the graph around them", 0, {}, nullptr, inline_dataflow},
    {kSpecialize, "specialize", "functions that are polymorphic in shapes or base types become one for each", 0, kInferred, plain<specialize>, nullptr, kKeepsTypes},
    {kSimplifyInference, "simplify_inference", "batch norms become scale and shift, dropout vanishes", 0, kTypes, plain<simplify_inference>, nullptr, kKeepsTypes},
    {kSimplifyExpr, "simplify_expr", "x * 1, x + 0, reshape of reshape, transpose of transpose or within a product, cast of cast", 1, kTypes, nullptr, simplify_expr, kKeepsTypes},
    {kConvTransposeToConv, "conv_transpose_to_conv", "transposed convolutions become convolutions of their phases", 1, kTypes, plain<conv_transpose_to_conv>},
    {kRecognizeNorms, "recognize_norms", "normalizations written out in means and roots become one operator", 1, kTypes, nullptr, recognize_norms, kKeepsTypes},
    {kCanonicalizeOps, "canonicalize_ops", "bias_add becomes a broadcasting add, a convolution of rows one of images", 0, kTypes, plain<canonicalize_ops>, nullptr, kKeepsTypes},
    {kTurnSoftmax, "turn_softmax", "softmax along an axis with few elements behind it goes along the last axis", 1, kTypes, turn_narrow_softmax, nullptr, kKeepsTypes},
    {kConv3dToConv2d, "conv3d_to_conv2d", "convolutions of volumes become convolutions of images", 1, kTypes, plain<conv3d_to_conv2d>},
    {kCropKernels, "crop_kernels", "taps of convolutions that meet padding alone vanish", 1, kTypes, nullptr, crop_kernels, kKeepsTypes},
    {kKeepImages, "keep_images", "values between convolutions of rows stay images", 1, kTypes, nullptr, keep_images, kKeepsTypes},
    {kKeepMatrices, "keep_matrices", "values between dense layers stay matrices", 1, kTypes, nullptr, keep_matrices, kKeepsTypes},
    {kFakeQuantizationToInteger, "fake_quantization_to_integer", "operators between dequantize and quantize compute on integers", 1, kTypes, plain<fake_quantization_to_integer>},
    {kCanonicalizeQnn, "canonicalize_qnn", "operators on quantized tensors become integer arithmetic and scales", 0, kTypes, plain<canonicalize_qnn>},
    {kToMixedPrecision, "to_mixed_precision", "convolutions and dense layers multiply bfloat16, tensors are stored as bfloat16", 0, kTypes, mixed_precision},
    {kToFloat64, "to_float64", "all real numbers become float64, those given to main by casts", 0, {}, plain<to_float64>},
    {kWidenHalves, "widen_halves", "float16 becomes float32 where processors compute on it as such", 0, kTypes, widen_float16},
    {kRoundBlockProducts, "round_block_products", "products with weights of blocks that share a scale multiply bytes where their data may be rounded", 1, kTypes, round_blocks, nullptr, kKeepsTypes},
    {kExpandBlockProducts, "expand_block_products", "products with weights of blocks that share a scale become those of real weights where rows are many", 1, kTypes, expand_blocks, nullptr, kKeepsTypes},
    {kFoldConstant, "fold_constant", "expressions of constants become constants", 2, kTypes, fold_constants, nullptr, kKeepsTypes},
    {kFoldScaleAxis, "fold_scale_axis", "scales along channels move into the weights of convolutions and dense layers", 3, kTypes, plain<fold_scale_axis>, nullptr, kKeepsTypes},
    {kSplitConvolutions, "split_convolutions", "results of dilated convolutions that see the same taps are computed with these", 3, kTypes, nullptr, split_convolutions},
    {kWidenProducts, "widen_products", "8-bit operands of products become int16 where a machine multiplies those faster", 3, kTypes, widen_operands, nullptr, kKeepsTypes},
    {kAlterLayout, "alter_layout", "NCHW becomes NCHWc, weights are packed", 3, kTypes, alter_layouts, nullptr, kKeepsTypes},
    {kEliminateCommonSubexpr, "eliminate_common_subexpr", "equal calls become one", 2, {}, nullptr, eliminate_common_subexpr, kKeepsTypes},
    {kDeadCode, "dead_code", "bindings without use and without effect vanish", 1, {}, nullptr, dead_code},
    {kToANormalForm, "to_a_normal_form", "every intermediate value is bound by let", 0, {}, nullptr, to_a_normal_form, kKeepsTypes},
    {kToGraphNormalForm, "to_graph_normal_form", "values bound by let are shared in the graph instead", 0, {}, nullptr, to_graph_normal_form},
    {kSqueezeRows, "squeeze_rows", "axes of one behind the rows of reductions, norms and pools are taken out", 1, kTypes, plain<squeeze_rows>, nullptr, kKeepsTypes},
    {kFuseOps, "fuse_ops", "operators are grouped into primitive functions", 0, kTypes, plain<fuse_ops>, nullptr, kKeepsTypes},
    {kFuseWindows, "fuse_windows", "depthwise convolutions and poolings join the convolutions before and after them", 1, kTypes, nullptr, fuse_windows},
    {kFuseAttention, "fuse_attention", "two matrix products with a softmax of rows between them become one kernel", 1, kTypes, join_attention},
    {kNarrowConstants, "narrow_constants", "weights that float16 holds exactly are stored so where few rows read them", 3, kTypes, narrow_weights, nullptr, kKeepsTypes},
    {kDefuse, "defuse", "primitive functions are inlined again: the inverse of fuse_ops", 0, {}, nullptr, defuse},
};

/// Values that lets bind are shared in the graph from the start: passes look at operands, and operators fuse
/// with these. Quantized graphs next: folding would make their weights float. The second folding is for the scaled and
/// packed weights, those of all steps of a recurrence once.
constexpr PassId kInferencePipeline[] = {
    kInlineDataflow, kInferType, kWidenHalves, kToGraphNormalForm, kRoundBlockProducts, kExpandBlockProducts, kFakeQuantizationToInteger, kCanonicalizeQnn, kSimplifyInference, kConvTransposeToConv, kCanonicalizeOps, kTurnSoftmax, kConv3dToConv2d, kCropKernels, kSimplifyExpr,
    kEliminateCommonSubexpr, kRecognizeNorms, kKeepImages, kKeepMatrices, kDeadCode, kFoldConstant, kFoldScaleAxis, kSplitConvolutions, kWidenProducts, kAlterLayout, kSqueezeRows, kEliminateCommonSubexpr, kFoldConstant, kFuseOps, kFuseWindows, kFuseAttention, kNarrowConstants,
};
// clang-format on

static_assert(in_order(kPasses), "rows stand in the order of PassId");

/// Primitive functions are finished kernels: passes on functions leave them.
Module apply(const Pass& pass, const Module& module, const PassContext& context) {
  if (pass.on_module) return pass.on_module(module, context);
  return map_functions(module, [&](const Ref<Function>& function) {
    return function->attrs.primitive ? function : pass.on_function(function);
  });
}

Module run_pass(const Module& module, const Pass& pass, const PassContext& context) {
  for (PassInstrument* each : context.instruments) each->before(pass, module);
  Module result = apply(pass, module, context);
  // The bug is reported at the pass that made it, not where it is found out later.
  if (context.verify && !(result == module)) {
    std::string problem = find_ill_formed(result);
    CHECK(problem.empty(), "pass {} left the module ill-formed: {}\n{}", pass.name, problem,
          print(result, {.metadata = false}));
  }
  for (PassInstrument* each : context.instruments) each->after(pass, result);
  return result;
}

}  // namespace

std::span<const Pass> passes() { return kPasses; }

const Pass& pass(PassId id) { return kPasses[static_cast<size_t>(id)]; }

const Pass& find_pass(std::string_view name) { return pass_named<Pass>(name, kPasses); }

std::span<const PassId> inference_pipeline() { return kInferencePipeline; }

Module run_passes(Module module, std::span<const PassId> sequence, const PassContext& context) {
  Module typed;    // what inference gave last, or a pass that keeps types made of it
  Module special;  // the same of instances: no pass makes functions that are polymorphic in shapes
  auto run = [&](PassId id) {
    const bool has_types = module == typed, is_special = module == special;
    if ((id == kInferType && has_types) || (id == kSpecialize && is_special)) return;
    module = run_pass(module, pass(id), context);
    if (id == kInferType || (has_types && pass(id).keeps_types)) typed = module;
    if (id == kSpecialize || is_special) special = module;
  };
  for (PassId id : sequence) {
    const Pass& next = pass(id);
    bool disabled = std::find(context.disabled.begin(), context.disabled.end(), id) != context.disabled.end();
    if (disabled || next.opt_level > context.opt_level) continue;
    // Each time that the module has changed: a pass may leave expressions without types.
    for (PassId required : next.required) run(required);
    run(id);
  }
  return module;
}

}  // namespace lathe::relay
