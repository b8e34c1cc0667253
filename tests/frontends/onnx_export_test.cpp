// Operators there and back: exported, imported, and computed on the same numbers as before.
#include "core/frontends/onnx_export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/frontends/onnx.h"
#include "core/relay/functor.h"
#include "core/relay/interpret_closed.h"
#include "core/relay/op.h"
#include "core/relay/pass.h"
#include "core/relay/passes/infer_type.h"
#include "core/relay/text.h"
#include "core/support/file.h"
#include "core/support/temporary_folder.h"
#include "tests/thrown_by.h"

namespace lathe::onnx {
namespace {

using Inputs = std::map<std::string, Tensor>;

/// main's parameters and body, as Relay text.
struct Row {
  const char *params, *body;
  double low = -INFINITY, high = INFINITY;  // of the numbers it is given
};

constexpr const char* kVector = "%x: Tensor[(2, 3), float32]";
constexpr const char* kPair = "%x: Tensor[(2, 3), float32], %y: Tensor[(3), float32]";
constexpr const char* kIntegers = "%x: Tensor[(2, 3), int32], %y: Tensor[(3), int32]";
constexpr const char* kBooleans = "%x: Tensor[(2, 3), bool], %y: Tensor[(3), bool]";
constexpr const char* kImage = "%x: Tensor[(2, 4, 6, 8), float32]";
constexpr const char* kNorm =
    "%x: Tensor[(2, 4, 6), float32], %g: Tensor[(4), float32], %b: Tensor[(4), float32]";
constexpr const char* kNormLast =
    "%x: Tensor[(2, 4, 6), float32], %g: Tensor[(6), float32], %b: Tensor[(6), float32]";

const Row kRows[] = {
    {kVector, "abs(%x)"},
    {kVector, "acos(%x)", -1, 1},
    {kVector, "acosh(%x)", 1, 9},
    {kVector, "asin(%x)", -1, 1},
    {kVector, "asinh(%x)"},
    {kVector, "atan(%x)"},
    {kVector, "atanh(%x)", -0.9, 0.9},
    {kVector, "ceil(%x)"},
    {kVector, "copy(%x)"},
    {kVector, "cos(%x)"},
    {kVector, "cosh(%x)"},
    {kVector, "erf(%x)"},
    {kVector, "exp(%x)"},
    {kVector, "floor(%x)"},
    {kVector, "isinf(%x)"},
    {kVector, "isnan(%x)"},
    {kVector, "isfinite(%x)"},
    {kVector, "log(%x)", 0.1, 9},
    {kVector, "log2(%x)", 0.1, 9},
    {kVector, "log10(%x)", 0.1, 9},
    {kBooleans, "logical_not(%x)"},
    {kVector, "negative(%x)"},
    {kVector, "round(%x)"},
    {kVector, "rsqrt(%x)", 0.1, 9},
    {kVector, "sigmoid(%x)"},
    {kVector, "sign(%x)"},
    {kVector, "sin(%x)"},
    {kVector, "sinh(%x)"},
    {kVector, "sqrt(%x)", 0, 9},
    {kVector, "tan(%x)"},
    {kVector, "tanh(%x)"},
    {kVector, "trunc(%x)"},
    {kVector, "cast(%x, dtype=\"int64\")"},
    {kIntegers, "cast_like(%x, cast(%y, dtype=\"float32\"))"},
    {kVector, "clip(%x, a_min=-0.5f, a_max=0.75f)"},
    {kIntegers, "clip(%x, a_min=1f, a_max=3f)"},
    {kVector, "add(%x, zeros(shape=[2, 3], dtype=\"float32\"))"},
    {kVector, "multiply(%x, ones(shape=[2, 3], dtype=\"float32\"))"},
    {kVector, "add(zeros_like(%x), ones_like(%x))"},
    {kVector, "add(%x, full(2.5f, shape=[2, 3], dtype=\"float32\"))"},
    {kVector, "add(%x, full_like(%x, 1.5f))"},
    {kPair, "add(%x, %y)"},
    {kPair, "subtract(%x, %y)"},
    {kPair, "multiply(%x, %y)"},
    {kPair, "divide(%x, %y)"},
    {kPair, "minimum(%x, %y)"},
    {kPair, "maximum(%x, %y)"},
    {kPair, "power(%x, %y)", 0.1, 3},
    {kPair, "mod(%x, %y)"},
    {kPair, "trunc_mod(%x, %y)"},
    {kPair, "floor_mod(%x, %y)"},
    {kPair, "floor_divide(%x, %y)"},
    {kPair, "trunc_divide(%x, %y)"},
    {kIntegers, "floor_mod(%x, add(%y, 1))"},
    {kIntegers, "floor_divide(%x, add(%y, 1))"},
    {"%x: Tensor[(3), uint8], %y: Tensor[(3), uint8]", "left_shift(%x, %y)", 0, 3},
    {"%x: Tensor[(3), uint8], %y: Tensor[(3), uint8]", "right_shift(%x, %y)", 0, 3},
    {kBooleans, "logical_and(%x, %y)"},
    {kBooleans, "logical_or(%x, %y)"},
    {kBooleans, "logical_xor(%x, %y)"},
    {kIntegers, "equal(%x, %y)"},
    {kIntegers, "not_equal(%x, %y)"},
    {kPair, "less(%x, %y)"},
    {kPair, "less_equal(%x, %y)"},
    {kPair, "greater(%x, %y)"},
    {kPair, "greater_equal(%x, %y)"},
    {kPair, "where(less(%x, %y), %x, %y)"},
    {kVector, "nn.relu(%x)"},
    {kVector, "nn.leaky_relu(%x, alpha=0.3f)"},
    {"%x: Tensor[(2, 4, 5), float32], %y: Tensor[(4), float32]", "nn.prelu(%x, %y)"},
    {kVector, "nn.dropout(%x).0"},
    {kVector, "qnn.dequantize(qnn.quantize(%x, 0.1f, 3, out_dtype=\"int8\"), 0.1f, 3)"},
    {"%x: Tensor[(1, 2, 7), int8], %w: Tensor[(4, 2, 3), int8]",
     "qnn.conv1d(%x, %w, 3, 0, 1f, 1f, padding=[1, 1], out_dtype=\"int32\")"},
    {"%x: Tensor[(1, 2, 3, 4, 5), int8], %w: Tensor[(4, 2, 1, 3, 2), int8]",
     "qnn.conv3d(%x, %w, 3, 0, 1f, 1f, out_dtype=\"int32\")"},
    {"%x: Tensor[(3, 5), int8], %w: Tensor[(4, 3), int8]",
     "qnn.matmul(%x, %w, 3, 0, 1f, 1f, transpose_a=True, transpose_b=True, out_dtype=\"int32\")"},
    {"%x: Tensor[(2, 5, 3), int8], %w: Tensor[(2, 4, 3), int8]",
     "qnn.batch_matmul(%x, %w, 3, 0, 1f, 1f, out_dtype=\"int32\")"},
    {"%x: Tensor[(2, 3), int32]", "qnn.requantize(%x, 0.5f, 0, 0.25f, 1, out_dtype=\"int8\")"},

    {kImage, "sum(%x, axis=[1, -1])"},
    {kImage, "sum(%x, axis=[1], keepdims=True, exclude=True)"},
    {kImage, "prod(%x, axis=[1])"},
    {kImage, "max(%x)"},
    {kImage, "min(%x, axis=[2], keepdims=True)"},
    {kImage, "mean(%x, axis=[2, 3])"},
    {kImage, "logsumexp(%x, axis=[3])"},
    {kImage, "variance(%x, mean(%x, axis=[1], keepdims=True), axis=[1], unbiased=True)"},
    {kBooleans, "all(%x, axis=[1])"},
    {kBooleans, "any(%x, axis=[0], keepdims=True)"},
    {kImage, "argmax(%x, axis=[1, 3])"},
    {kImage, "argmin(%x, axis=[2], keepdims=True)"},
    {kImage, "nn.softmax(%x, axis=1)"},
    {kImage, "nn.fast_softmax(%x)"},
    {kImage, "nn.log_softmax(%x, axis=-1)"},
    {kImage, "cumsum(%x, axis=2, exclusive=True)"},
    {kVector, "cumsum(%x)"},
    {kImage, "sort(%x, axis=1)"},
    {kImage, "argsort(%x, axis=2, is_ascend=False)"},
    {"%x: Tensor[(3, 4, 4), float32]", "linalg.det(%x)"},
    {kImage, "topk(%x, k=3, axis=3, ret_type=\"both\").0"},
    {kImage, "topk(%x, k=3, axis=3, ret_type=\"both\", dtype=\"int64\").1"},
    {kImage, "topk(%x, k=2, axis=1, ret_type=\"indices\", is_ascend=True)"},
    {kImage, "topk_like(%x, zeros(shape=[2], dtype=\"bool\"), axis=1, ret_type=\"values\")"},

    {kImage, "reshape(%x, newshape=[2, -1, 6])"},
    {"%x: Tensor[(6), float32], %y: Tensor[(2, 3), float32]", "reshape_like(%x, %y)"},
    {kImage, "squeeze(expand_dims(%x, axis=2), axis=[2])"},
    {kImage, "nn.batch_flatten(%x)"},
    {kImage, "transpose(%x, axes=[0, 2, -1, 1])"},
    {kImage, "transpose(%x)"},
    {kPair, "broadcast_to(%y, shape=[2, 3])"},
    {kPair, "broadcast_to_like(%y, %x)"},
    {kPair, "concatenate((%x, reshape(%y, newshape=[1, 3])), axis=0)"},
    {kVector, "stack((%x, negative(%x)), axis=-1)"},
    {kImage, "split(%x, indices_or_sections=[1, 3], axis=1).1"},
    {kImage, "concatenate(split(%x, sections=2, axis=3), axis=1)"},
    {kImage, "strided_slice(%x, begin=[0, 3], end=[2, -5], strides=[1, -1])"},
    {kImage, "strided_slice(%x, begin=[1, 2], end=[-1, 4], axes=[1, 3], slice_mode=\"size\")"},
    {"%x: Tensor[(5, 3), float32], %i: Tensor[(2, 4), int64]", "take(%x, %i, axis=0)"},
    {"%x: Tensor[(5, 3), float32], %i: Tensor[(4), int32]", "take(%x, %i, mode=\"wrap\")"},
    {"%x: Tensor[(2, 5, 3), float32], %i: Tensor[(2, 4), int32]", "take(%x, %i, axis=1, batch_dims=1)", 0, 4},
    {"%x: Tensor[(2, 5, 6, 3), float32], %i: Tensor[(2, 4, 1), int32]", "take(%x, %i, axis=2, batch_dims=1)",
     0, 4},
    {"%x: Tensor[(5, 3), float32], %i: Tensor[(2, 3), int64]", "gather(%x, %i, axis=0)", 0, 4},
    {"%x: Tensor[(5, 3), float32], %i: Tensor[(2, 4), int64]", "gather_nd(%x, %i)", 0, 2},
    {"%x: Tensor[(5, 3), float32], %i: Tensor[(2, 3), int64], %u: Tensor[(2, 3), float32]",
     "scatter_elements(%x, %i, %u, axis=0, reduction=\"add\")", 0, 4},
    {"%x: Tensor[(5, 3), float32], %i: Tensor[(1, 2), int64], %u: Tensor[(2, 3), float32]",
     "scatter_nd(%x, %i, %u, mode=\"add\")", 0, 4},
    {"%x: Tensor[(5, 3), float32], %i: Tensor[(1, 2), int64], %u: Tensor[(2, 3), float32]",
     "scatter_nd(%x, %i, %u, mode=\"max\")", 0, 4},
    {kVector, "sum(strided_slice(%x, begin=[0, -9], end=[2, -9], strides=[1, -1]))"},
    {kVector, "tile(%x, reps=[2, 1, 3])"},
    {kVector, "repeat(%x, repeats=2, axis=1)"},
    {kVector, "reverse(%x, axis=1)"},
    {kVector, "nn.pad(%x, 1.5f, pad_width=[[1, 0], [2, 1]])"},
    {kVector, "nn.pad(%x, 0f, pad_width=[[1, 0], [2, 1]], pad_mode=\"edge\")"},
    {kVector, "nn.mirror_pad(%x, mode=\"REFLECT\", pad_width=[[1, 0], [2, 1]])"},
    {kImage, "nn.depth_to_space(%x, block_size=2, mode=\"CRD\")"},
    {kImage, "nn.space_to_depth(%x, block_size=2)"},
    {"%i: Tensor[(2, 3), int64]", "one_hot(%i, 2f, -1f, depth=4, axis=1, dtype=\"float32\")", 0, 3},
    {kVector, "add(%x, arange(0f, 3f, 1f, dtype=\"float32\"))"},
    {kVector, "arange_like(reshape(%x, newshape=[-1]), dtype=\"int64\")"},
    {kVector, "shape_of(%x, dtype=\"int64\")"},
    {kVector, "ndarray_size(%x, dtype=\"int64\")"},

    {"%x: Tensor[(1, 4, 9), float32], %w: Tensor[(6, 2, 3), float32]",
     "nn.conv1d(%x, %w, strides=[2], padding=[1, 0], groups=2)"},
    {"%x: Tensor[(1, 4, 6, 6), float32], %w: Tensor[(3, 4, 3, 3), float32], %b: Tensor[(3), float32]",
     "nn.bias_add(nn.conv2d(%x, %w, padding=[1, 1], dilation=[2, 2]), %b)"},
    {"%x: Tensor[(1, 2, 4, 4, 4), float32], %w: Tensor[(3, 2, 2, 2, 2), float32]", "nn.conv3d(%x, %w)"},
    {"%x: Tensor[(1, 2, 5), float32], %w: Tensor[(2, 3, 3), float32]",
     "nn.conv1d_transpose(%x, %w, strides=[2])"},
    {"%x: Tensor[(1, 2, 4, 4), float32], %w: Tensor[(2, 3, 3, 3), float32]",
     "nn.conv2d_transpose(%x, %w, strides=[2, 2], padding=[1, 1], output_padding=[1, 1])"},
    {"%x: Tensor[(1, 2, 3, 3, 3), float32], %w: Tensor[(2, 3, 2, 2, 2), float32]",
     "nn.conv3d_transpose(%x, %w)"},
    {"%x: Tensor[(1, 2, 4, 4), uint8], %w: Tensor[(3, 2, 3, 3), int8]",
     "nn.conv2d(%x, %w, out_dtype=\"int32\")"},
    {"%x: Tensor[(2, 3), int8], %w: Tensor[(4, 3), int8]", "nn.dense(%x, %w, out_dtype=\"int32\")"},
    {"%x: Tensor[(1, 2, 4, 4), uint8], %w: Tensor[(3, 2, 3, 3), int8], %b: Tensor[(3), int32]",
     "nn.bias_add(nn.conv2d(%x, %w, out_dtype=\"int32\"), %b)"},
    {"%x: Tensor[(2, 3), int8], %w: Tensor[(4, 3), int8], %b: Tensor[(4), int32]",
     "nn.bias_add(nn.dense(%x, %w, out_dtype=\"int32\"), %b)"},
    {kImage, "nn.max_pool2d(%x, pool_size=[3, 3], strides=[2, 2], padding=[1, 1], dilation=[2, 1])"},
    {kImage, "nn.avg_pool2d(%x, pool_size=[3, 2], strides=[2, 2], padding=[1, 1], ceil_mode=True)"},
    {kImage, "nn.avg_pool2d(%x, pool_size=[3, 3], padding=[1, 1], count_include_pad=True)"},
    {"%x: Tensor[(1, 2, 8), float32]", "nn.max_pool1d(%x, pool_size=[2], strides=[2])"},
    {"%x: Tensor[(1, 2, 8), float32]", "nn.avg_pool1d(%x, pool_size=[2], strides=[2])"},
    {"%x: Tensor[(1, 2, 4, 4, 4), float32]", "nn.max_pool3d(%x, pool_size=[2, 2, 2], strides=[2, 2, 2])"},
    {"%x: Tensor[(1, 2, 4, 4, 4), float32]", "nn.avg_pool3d(%x, pool_size=[2, 2, 2], strides=[2, 2, 2])"},
    {kImage, "nn.global_max_pool2d(%x)"},
    {kImage, "nn.global_avg_pool2d(%x)"},
    {"%x: Tensor[(1, 2, 8), float32]", "nn.global_avg_pool1d(%x)"},
    {"%x: Tensor[(1, 2, 2, 3, 4), float32]", "nn.global_max_pool3d(%x)"},
    {kImage, "nn.adaptive_avg_pool2d(%x, output_size=[3, 4])"},
    {kImage, "nn.adaptive_max_pool2d(%x, output_size=[2, 2])"},
    {"%x: Tensor[(5, 3), float32], %w: Tensor[(4, 3), float32], %b: Tensor[(4), float32]",
     "nn.bias_add(nn.dense(%x, %w), %b)"},
    {"%x: Tensor[(2, 5, 3), float32], %w: Tensor[(4, 3), float32], %b: Tensor[(4), float32]",
     "nn.bias_add(nn.dense(%x, %w), %b, axis=-1)"},
    {"%x: Tensor[(3, 5), float32], %w: Tensor[(4, 3), float32]",
     "nn.matmul(%x, %w, transpose_a=True, transpose_b=True)"},
    {"%x: Tensor[(2, 5, 3), float32], %w: Tensor[(2, 4, 3), float32]", "nn.batch_matmul(%x, %w)"},
    {"%x: Tensor[(5, 3), float16], %w: Tensor[(4, 3), float16]", "nn.dense(%x, %w, out_dtype=\"float32\")"},
    {kNorm, "nn.batch_norm(%x, %g, %b, %b, abs(%g), epsilon=0.01f).0"},
    {kNormLast, "nn.batch_norm(%x, %g, %b, %b, abs(%g), axis=2, scale=False).0"},
    {kNormLast, "nn.layer_norm(%x, %g, %b)"},
    {kNorm, "nn.layer_norm(%x, %g, %b, axis=1, center=False)"},
    {kNorm, "nn.instance_norm(%x, %g, %b)"},
    {kNormLast, "nn.instance_norm(%x, %g, %b, axis=2)"},
    {kNorm, "nn.group_norm(%x, %g, %b, num_groups=2)"},
    {kNormLast, "nn.standardize(%x, axes=[2])"},
    {kImage, "nn.standardize(%x, axes=[2, 3], epsilon=0.01f, center=False)"},
    {kImage, "nn.lrn(%x, size=3)"},
    {kImage, "nn.l2_normalize(%x, eps=0.001f, axis=[1])"},
    {kImage, "image.resize2d(%x, size=[9, 5])"},
    {kImage, "image.resize2d(%x, size=[4, 5], antialias=True)"},
    {kImage,
     "image.resize2d(%x, size=[9, 5], scales=[1.6, 0.7], "
     "coordinate_transformation_mode=\"half_pixel_symmetric\")"},
    {"%x: Tensor[(1, 2, 6, 8), float32], %y: Tensor[(9), float32], %z: Tensor[(5), float32]",
     "image.resize2d_like(%x, %y, %z)"},
    {"%x: Tensor[(1, 2, 6), float32], %y: Tensor[(9), float32]", "image.resize1d_like(%x, %y)"},
    {"%x: Tensor[(1, 2, 3, 4, 5), float32], %a: Tensor[(2), float32], %b: Tensor[(6), float32],"
     " %c: Tensor[(5), float32]",
     "image.resize3d_like(%x, %a, %b, %c)"},
    {kImage,
     "image.resize2d(%x, size=[12, 16], method=\"nearest_neighbor\", "
     "coordinate_transformation_mode=\"asymmetric\")"},
    {kImage,
     "image.resize2d(%x, size=[5, 11], method=\"cubic\", coordinate_transformation_mode=\"align_corners\")"},
    {"%x: Tensor[(2, 3, 7), float32]", "image.resize1d(%x, size=[11])"},
    {"%x: Tensor[(1, 2, 3, 4, 5), float32]", "image.resize3d(%x, scales=[2f, 1f, 1.5f])"},
    {"%x: Tensor[(1, 6, 8, 3), float32]",
     "image.resize2d(%x, size=[3, 9], layout=\"NHWC\", "
     "coordinate_transformation_mode=\"tf_crop_and_resize\", "
     "roi=[0.1f, 0.2f, 0.9f, 0.7f])"},
    {kImage, "nn.upsampling(%x, scale_h=2f, scale_w=2f)"},
    {kImage, "nn.upsampling(%x, scale_h=1.5f, scale_w=2f, method=\"bilinear\", align_corners=True)"},
    {kIntegers, "bitwise_and(%x, %y)"},
    {kIntegers, "bitwise_or(%x, bitwise_not(%y))"},
    {kIntegers, "bitwise_xor(%x, %y)"},
    {kIntegers, "bitwise_not(%x)"},
    // Reductions have another form in a file of this opset.
    {kIntegers, "max(bitwise_or(%x, %y), axis=[1])"},
    {kImage, "nn.avg_pool2d(%x, pool_size=[2, 2], dilation=[2, 3])"},
    {"%x: Tensor[(2, 6), float32], %w: Tensor[(4, 3, 2), int8], %s: Tensor[(4, 3), float32]",
     "nn.block_dense(%x, %w, %s)"},
    // An encoder's attention.
    {"%x: Tensor[(1, 4, 6), float32], %w: Tensor[(6, 6), float32]",
     "%0 = nn.dense(%x, %w); nn.batch_matmul(nn.softmax(nn.batch_matmul(%0, %x)), transpose(%x, axes=[0, "
     "2, 1]))"},
};

/// Operators that no ONNX graph holds, or none without a choice of ours.
const std::vector<std::string> kNoForm = {
    "cumprod",
    "extent",
    "first_rows",
    "layout_transform",
    "match_shape",
    "nn.contrib_block_dense_pack",
    "nn.contrib_conv2d_NCHWc",
    "nn.contrib_depthwise_conv2d_NCHWc",
    "nn.contrib_dense_pack",
    "qnn.add",
    "qnn.mul",
    "require",
    "reshape_to",
    "vision.best_boxes",
    "zeros_by",
    "zeros_of",
};

Tensor numbers(const relay::TensorType& type, const Row& row, uint64_t seed) {
  Tensor x = random_tensor(relay::constant_shape(type), type.dtype, seed);
  for (int64_t i = 0; i < x.size(); ++i) {
    double value = x.value(i);
    if (std::isfinite(row.low) && type.dtype.is_float())
      value = row.low + (row.high - row.low) * (0.5 + 0.5 * std::tanh(value));
    x.set(i, std::clamp(value, row.low, row.high));
  }
  return x;
}

/// What main computes: quantized operators in terms of others, and constants in place of its parameters.
std::vector<Tensor> computed(const relay::Module& module, const Inputs& inputs) {
  constexpr relay::PassId kPasses[] = {relay::PassId::kInferType, relay::PassId::kCanonicalizeQnn};
  relay::Module plain = relay::run_passes(module, kPasses);
  NodeRef closed = rewrite(plain->functions.at("main")->body, [&](const NodeRef& node) -> NodeRef {
    const auto* var = node.as<relay::VarNode>();
    return var ? make<relay::Constant>(inputs.at(var->name)) : node;
  });
  relay::Module typed = relay::infer_type(
      relay::make_module(make<relay::Function>(std::vector<relay::TypeVar>{}, std::vector<relay::Var>{},
                                               relay::Type(), closed.cast<relay::RelayNode>())));
  return relay::interpret_closed({typed->functions.at("main")->body});
}

TEST(OnnxExport, OperatorsComputeTheSameWhenImported) {
  TemporaryFolder folder;
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.body);
    std::string file = folder / "m.onnx";
    std::string text = fmt::format("#[version = \"0.0.5\"]\ndef @main({}) {{ {} }}\n", row.params, row.body);
    try {
      relay::Module module = relay::infer_type(relay::parse_module(text, "row"));
      Inputs inputs;
      for (const relay::Var& param : module->functions.at("main")->params)
        inputs[param->name] = numbers(*param->checked_type.as<relay::TensorType>(), row, inputs.size());
      export_file(module, file);
      std::vector<Tensor> before = computed(module, inputs),
                          after = computed(import_file(file).module, inputs);
      ASSERT_EQ(before.size(), after.size());
      EXPECT_EQ(before[0].dtype(), after[0].dtype());
      EXPECT_LT(max_relative_error(after[0], before[0]), 1e-5);
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
    }
  }
}

TEST(OnnxExport, EveryOperatorHasAFormOrIsKnownToHaveNone) {
  std::string tested;
  for (const Row& row : kRows) tested += std::string(" ") + row.body;
  for (const std::string& op : relay::op_names()) {
    bool none = std::find(kNoForm.begin(), kNoForm.end(), op) != kNoForm.end();
    EXPECT_EQ(has_onnx_form(op), !none) << op;
    bool is_tested = tested.find(op + "(") != std::string::npos;
    bool family = op.find("_pool") != std::string::npos || op.starts_with("qnn.");  // one row serves them all
    EXPECT_TRUE(is_tested || none || family) << op << " is exported untested";
  }
}

/// main, of these parameters and this body, with types.
relay::Module main_of(const char* params, const char* body) {
  return relay::infer_type(relay::parse_module(
      fmt::format("#[version = \"0.0.5\"]\ndef @main({}) {{ {} }}\n", params, body), "row"));
}

TEST(OnnxExport, WhatHasNoFormIsNamed) {
  TemporaryFolder folder;
  auto message = [&](const char* params, const char* body) -> std::string {
    return thrown_by([&] { export_file(main_of(params, body), folder / "m.onnx"); });
  };
  EXPECT_EQ(message("%x: Tensor[(4), float32]", "cumprod(%x, axis=0)"), "operator cumprod has no ONNX form");
  EXPECT_EQ(message(kImage, "nn.space_to_depth(%x, block_size=2, mode=\"CRD\")"),
            "nn.space_to_depth in mode CRD has no ONNX form");
  const char* const pixels = "%x: Tensor[(1, 4, 4, 2), float32], %w: Tensor[(3, 2, 3, 3), float32]";
  EXPECT_EQ(message(pixels, "nn.conv2d(%x, %w, data_layout=\"NHWC\")"),
            "nn.conv2d in layout NHWC has no ONNX form");
  const char* const kernel = "%x: Tensor[(1, 2, 4, 4), float32], %w: Tensor[(3, 3, 2, 3), float32]";
  EXPECT_EQ(message(kernel, "nn.conv2d(%x, %w, kernel_layout=\"HWIO\")"),
            "nn.conv2d by kernels in layout HWIO has no ONNX form");
  const char* const usual = "%x: Tensor[(1, 2, 4, 4), float32], %w: Tensor[(3, 2, 3, 3), float32]";
  EXPECT_EQ(message(usual, "nn.conv2d(%x, %w, out_layout=\"NHWC\")"),
            "nn.conv2d to layout NHWC has no ONNX form");
  EXPECT_EQ(message(usual,
                    "nn.conv2d(%x, %w, data_layout=\"NCHW\", kernel_layout=\"OIHW\", "
                    "out_layout=\"NCHW\")"),
            "no error");
  EXPECT_EQ(message("%x: Tensor[(1, 2, 4, 4), int8], %w: Tensor[(3, 3, 2, 3), int8]",
                    "qnn.conv2d(%x, %w, 3, 0, 1f, 1f, kernel_layout=\"HWIO\", out_dtype=\"int32\")"),
            "qnn.conv2d by kernels in layout HWIO has no ONNX form");
}

TEST(OnnxExport, NamesOfParametersAreNotGivenToOthers) {
  TemporaryFolder folder;
  const std::string file = folder / "m.onnx";
  const relay::Module module =
      main_of("%c0: Tensor[(2), float32], %t2: Tensor[(2), float32], %output_0: Tensor[(2), float32]",
              "add(multiply(add(%c0, 2f), %t2), %output_0)");
  export_file(module, file);
  const ImportedModel imported = import_file(file);
  std::vector<std::string> names;
  Inputs inputs;
  for (const ValueInfo& input : imported.inputs) {
    names.push_back(input.name);
    inputs[input.name] = random_tensor({2}, kFloat32, names.size());
  }
  ASSERT_THAT(names, testing::ElementsAre("c0", "t2", "output_0"));
  EXPECT_THAT(imported.outputs, testing::ElementsAre("output_1"));
  EXPECT_EQ(max_relative_error(computed(imported.module, inputs)[0], computed(module, inputs)[0]), 0);
}

TEST(OnnxExport, ConvolutionsOfBytesStayOfBytes) {
  TemporaryFolder folder;
  std::string file = folder / "m.onnx";
  export_file(
      main_of("%x: Tensor[(1, 2, 4, 4), uint8], %w: Tensor[(3, 2, 3, 3), int8], %b: Tensor[(3), int32]",
              "nn.bias_add(nn.conv2d(%x, %w, out_dtype=\"int32\"), %b)"),
      file);
  EXPECT_THAT(read_file(file), testing::HasSubstr("ConvInteger")) << "Conv takes no integers";
}

}  // namespace
}  // namespace lathe::onnx
