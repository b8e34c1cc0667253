// Operators that converters compose, on cases of Debian's libonnx-testdata (./run conformance has them all),
// and on small models for what that release of the standard does not know.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "core/frontends/onnx.h"
#include "core/relay/text.h"
#include "tests/frontends/one_node.h"
#include "tests/frontends/onnx_bytes.h"
#include "tests/thrown_by.h"

namespace lathe::onnx {
namespace {
namespace fs = std::filesystem;

std::vector<Tensor> load_tensors(const fs::path& folder, const std::string& prefix) {
  std::vector<Tensor> tensors;
  for (fs::path path; fs::exists(path = folder / fmt::format("{}_{}.pb", prefix, tensors.size()));)
    tensors.push_back(load_tensor(path.string()));
  return tensors;
}

const char* const kCases[] = {
    "test_blackmanwindow",
    "test_compress_negative_axis",
    "test_dft_inverse",
    "test_einsum_batch_diagonal",
    "test_einsum_batch_matmul",
    "test_gridsample_bicubic",
    "test_gridsample_reflection_padding",
    "test_gru_batchwise",
    "test_gru_seq_length",
    "test_hannwindow_symmetric",
    "test_if",
    "test_lstm_batchwise",
    "test_lstm_with_peepholes",
    "test_melweightmatrix",
    "test_nllloss_NCd1d2d3_sum_weight_high_ii",
    "test_nllloss_NCd1d2_with_weight_reduction_mean",
    "test_nonmaxsuppression_center_point_box_format",
    "test_nonmaxsuppression_flipped_coordinates",
    "test_nonmaxsuppression_limit_output_size",
    "test_nonmaxsuppression_two_batches",
    "test_nonmaxsuppression_two_classes",
    "test_nonzero_example",
    "test_reduce_log_sum_exp_default_axes_keepdims_random",
    "test_reversesequence_batch",
    "test_rnn_seq_length",
    "test_roialign_aligned_true",
    "test_scan9_sum",
    "test_sce_mean_weight_ii_3d_log_prob",
    "test_simple_rnn_batchwise",
    "test_stft_with_window",
    "test_training_dropout_zero_ratio_mask",
    "test_unique_not_sorted_without_axis",
    "test_unique_sorted_with_axis_3d",
    "test_unique_sorted_with_negative_axis",
    "test_unique_sorted_without_axis",
    "../simple/test_sequence_model1",
    "../simple/test_sequence_model2",
    "../simple/test_sequence_model3",
    "../simple/test_sequence_model4",
    "../simple/test_sequence_model5",
    "../simple/test_sequence_model6",
    "../simple/test_sequence_model7",
    "../simple/test_sequence_model8",
};

TEST(OnnxOperators, ComputeWhatTheStandardSays) {
  for (const std::string name : kCases) {
    SCOPED_TRACE(name);
    const fs::path folder = "/usr/share/libonnx-testdata/data/node/" + name, model = folder / "model.onnx";
    std::vector<Tensor> inputs = load_tensors(folder / "test_data_set_0", "input"),
                        expected = load_tensors(folder / "test_data_set_0", "output");
    ImportOptions options;
    for (size_t i = 0; i < inputs.size(); ++i)
      options.constants[declared_inputs(model.string())[i].name] = inputs[i];
    std::vector<Tensor> outputs = outputs_of(import_file(model.string(), options));
    ASSERT_EQ(outputs.size(), expected.size());
    for (size_t i = 0; i < outputs.size(); ++i) {
      EXPECT_EQ(outputs[i].dtype(), expected[i].dtype());
      EXPECT_LT(max_relative_error(outputs[i], expected[i]), 1e-4) << "output " << i;
    }
  }
}

using testing::DoubleNear;
using testing::ElementsAre;
using testing::Pointwise;
MATCHER(IsNear, "") { return std::fabs(std::get<0>(arg) - std::get<1>(arg)) < 1e-5; }

/// softmax(scale * q k^T + bias) v of one head, the plain way.
std::vector<double> plain_attention(const Tensor& q, const Tensor& k, const Tensor& v, double scale,
                                    double cap, bool causal) {
  int64_t queries = q.shape()[2], keys = k.shape()[2], size = q.shape()[3], width = v.shape()[3];
  std::vector<double> result;
  for (int64_t i = 0; i < queries; ++i) {
    std::vector<double> share(static_cast<size_t>(keys));
    double sum = 0;
    for (int64_t j = 0; j < keys; ++j) {
      double score = 0;
      for (int64_t d = 0; d < size; ++d) score += scale * q.value(i * size + d) * k.value(j * size + d);
      if (cap > 0) score = cap * std::tanh(score / cap);
      share[static_cast<size_t>(j)] = causal && j > i ? 0 : std::exp(score);
      sum += share[static_cast<size_t>(j)];
    }
    for (int64_t d = 0; d < width; ++d) {
      double value = 0;
      for (int64_t j = 0; j < keys; ++j)
        value += share[static_cast<size_t>(j)] / sum * v.value(j * width + d);
      result.push_back(value);
    }
  }
  return result;
}

TEST(OnnxOperators, Attention) {
  Tensor q = random_tensor({1, 1, 3, 4}, kFloat32, 1), k = random_tensor({1, 1, 5, 4}, kFloat32, 2),
         v = random_tensor({1, 1, 5, 2}, kFloat32, 3);
  EXPECT_THAT(values(run("Attention", {q, k, v})[0]),
              Pointwise(IsNear(), plain_attention(q, k, v, 0.5, 0, false)));
  std::string attributes =
      bytes::integer("is_causal", 1) + bytes::real("scale", 0.25f) + bytes::real("softcap", 2);
  EXPECT_THAT(values(run("Attention", {q, k, v}, attributes)[0]),
              Pointwise(IsNear(), plain_attention(q, k, v, 0.25, 2, true)));
}

TEST(OnnxOperators, HeadsOfQueriesShareThoseOfKeys) {
  Tensor q = random_tensor({2, 3, 8}, kFloat32, 1), k = random_tensor({2, 5, 4}, kFloat32, 2),
         v = random_tensor({2, 5, 6}, kFloat32, 3);
  Tensor y =
      run("Attention", {q, k, v}, bytes::integer("q_num_heads", 4) + bytes::integer("kv_num_heads", 2))[0];
  ASSERT_EQ(y.shape(), (std::vector<int64_t>{2, 3, 12}));
  // Batch 1, head 3 of queries: head 1 of keys.
  auto head = [](const Tensor& x, int64_t first, int64_t size) {
    int64_t length = x.shape()[1], width = x.shape()[2];
    Tensor part({1, 1, length, size}, kFloat32);
    for (int64_t i = 0; i < length * size; ++i)
      part.set(i, x.value((length + i / size) * width + first + i % size));
    return part;
  };
  EXPECT_THAT(values(head(y, 9, 3)),
              Pointwise(IsNear(), plain_attention(head(q, 6, 2), head(k, 2, 2), head(v, 3, 3), std::sqrt(0.5),
                                                  0, false)));
}

TEST(OnnxOperators, AQueryThatSeesNothingGivesZeros) {
  Tensor x = random_tensor({1, 1, 2, 2}, kFloat32, 1), mask({2, 2}, kBool);
  mask.set(0, 0), mask.set(1, 0), mask.set(2, 1), mask.set(3, 0);
  Tensor y = run("Attention", {x, x, x, mask})[0];
  EXPECT_THAT(values(y), ElementsAre(0, 0, DoubleNear(x.value(0), 1e-6), DoubleNear(x.value(1), 1e-6)));
}

TEST(OnnxOperators, RotaryEmbeddingTurnsPairs) {
  Tensor x = floats({1, 2, 3, 4}, {1, 1, 1, 4}), zeros = floats({0, 0}, {1, 1, 2}),
         ones = floats({1, 1}, {1, 1, 2});
  EXPECT_THAT(values(run("RotaryEmbedding", {x, ones, zeros})[0]), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(values(run("RotaryEmbedding", {x, zeros, ones})[0]), ElementsAre(-3, -4, 1, 2));
  EXPECT_THAT(values(run("RotaryEmbedding", {x, zeros, ones}, bytes::integer("interleaved", 1))[0]),
              ElementsAre(-2, 1, -4, 3));
}

TEST(OnnxOperators, TensorScatterWritesIntoACache) {
  Tensor cache = floats({0, 0, 0, 0}, {1, 4, 1}), update = floats({7, 8}, {1, 2, 1});
  EXPECT_THAT(values(run("TensorScatter", {cache, update, longs({1})})[0]), ElementsAre(0, 7, 8, 0));
  EXPECT_THAT(values(run("TensorScatter", {cache, update, longs({3})}, bytes::text("mode", "circular"))[0]),
              ElementsAre(8, 0, 0, 7));
}

TEST(OnnxOperators, CausalConvKeepsWhatItSaw) {
  Tensor x = floats({1, 2, 3}, {1, 1, 3}), w = floats({1, 10, 100}, {1, 1, 3}),
         past = floats({5, 6}, {1, 1, 2});
  std::vector<Tensor> result = run("CausalConvWithState", {x, w, Tensor(), past}, "", 2);
  EXPECT_THAT(values(result[0]), ElementsAre(165, 216, 321));
  EXPECT_THAT(values(result[1]), ElementsAre(2, 3));
}

TEST(OnnxOperators, LinearAttentionUpdatesAState) {
  Tensor q = floats({1, 1, 1, 1}, {1, 2, 2}), k = floats({1, 0, 0, 2}, {1, 2, 2}),
         v = floats({3, 4}, {1, 2, 1});
  std::string heads = bytes::integer("q_num_heads", 1) + bytes::integer("kv_num_heads", 1);
  std::vector<Tensor> result = run("LinearAttention", {q, k, v},
                                   heads + bytes::text("update_rule", "linear") + bytes::real("scale", 1), 2);
  EXPECT_THAT(values(result[0]), ElementsAre(3, 11));
  EXPECT_THAT(values(result[1]), ElementsAre(3, 8));
}

TEST(OnnxOperators, PoolingsAndNormsOfNewerOpsets) {
  Tensor x = floats({3, 4, -6, 8}, {1, 1, 4});
  EXPECT_THAT(
      values(run("LpPool", {x}, bytes::integers("kernel_shape", {2}) + bytes::integers("strides", {2}))[0]),
      Pointwise(IsNear(), {5.0, 10.0}));
  EXPECT_THAT(values(run("GlobalLpPool", {x}, bytes::integer("p", 1))[0]), Pointwise(IsNear(), {21.0}));
  Tensor y = floats({1, 3, 2, 6}, {1, 4, 1}), scale = floats({1, 1, 2, 2}, {4}),
         bias = floats({0, 0, 0, 1}, {4});
  EXPECT_THAT(values(run("GroupNormalization", {y, scale, bias},
                         bytes::integer("num_groups", 2) + bytes::real("epsilon", 0))[0]),
              Pointwise(IsNear(), {-1.0, 1.0, -2.0, 3.0}));
}

TEST(OnnxOperators, MovedAndFoldedTensors) {
  Tensor x = floats({1, 2, 3, 4}, {4});
  EXPECT_THAT(values(run("CenterCropPad", {x, longs({2})})[0]), ElementsAre(2, 3));
  EXPECT_THAT(values(run("CenterCropPad", {x, longs({7})})[0]), ElementsAre(0, 1, 2, 3, 4, 0, 0));
  EXPECT_THAT(values(run("Pad", {x, longs({1, 2})}, bytes::text("mode", "wrap"))[0]),
              ElementsAre(4, 1, 2, 3, 4, 1, 2));
  EXPECT_THAT(values(run("CumProd", {x, longs({0}).reshaped({})})[0]), ElementsAre(1, 2, 6, 24));
  EXPECT_THAT(values(run("ReduceProd", {floats({}, {0, 2}), longs({0})})[0]), ElementsAre(1, 1))
      << "of nothing";
  EXPECT_THAT(values(run("BitwiseXor", {longs({5, 6}), longs({3, 6})})[0]), ElementsAre(6, 0));
  Tensor columns = floats({1, 2, 3, 4, 5, 6}, {1, 2, 3});
  EXPECT_THAT(values(run("Col2Im", {columns, longs({1, 4}), longs({1, 2})})[0]), ElementsAre(1, 6, 8, 6));
  Tensor grid = run("AffineGrid", {floats({1, 0, 0.5f, 0, 1, 0}, {1, 2, 3}), longs({1, 1, 2, 2})})[0];
  EXPECT_THAT(values(grid), ElementsAre(0, -0.5, 1, -0.5, 0, 0.5, 1, 0.5));
}

TEST(OnnxOperators, DeformConvMovesTaps) {
  const Tensor x = random_tensor({1, 4, 5, 6}, kFloat32, 1), w = random_tensor({2, 2, 3, 3}, kFloat32, 2),
               b = floats({1, -1}, {2});
  const std::string attributes = bytes::integer("group", 2) + bytes::integers("pads", {1, 1, 1, 1});
  auto offsets = [&](float down, float right) {
    Tensor result({1, 2 * 2 * 9, 5, 6}, kFloat32);
    for (int64_t i = 0; i < result.size(); ++i) result.set(i, i / 30 % 2 == 0 ? down : right);
    return result;
  };
  auto deformed = [&](const Tensor& moves, const Tensor& mask = {}) {
    return values(
        run("DeformConv", {x, w, moves, b, mask}, attributes + bytes::integer("offset_group", 2))[0]);
  };
  EXPECT_THAT(deformed(offsets(0, 0)), Pointwise(IsNear(), values(run("Conv", {x, w, b}, attributes)[0])));
  // As if the image lay one row and half a column on.
  const Tensor moved = run("GridSample",
                           {x,
                            [] {
                              Tensor grid({1, 5, 6, 2}, kFloat32);
                              for (int64_t i = 0; i < 30; ++i) {
                                grid.set(2 * i, (i % 6 + 0.5) / 2.5 - 1);
                                grid.set(2 * i + 1, (i / 6 + 1) / 2.0 - 1);
                              }
                              return grid;
                            }()},
                           bytes::integer("align_corners", 1))[0];
  const std::vector<double> y = deformed(offsets(1, 0.5)),
                            inner = values(run("Conv", {moved, w, b}, attributes)[0]);
  for (size_t i = 0; i < y.size(); ++i) {
    const size_t row = i / 6 % 5, column = i % 6;
    const bool border =
        row == 0 || row == 4 || column == 0 || column == 5;  // the moved image is cut off there
    EXPECT_NEAR(y[i], border ? y[i] : inner[i], 1e-5) << i;
  }
  Tensor half({1, 2 * 9, 5, 6}, kFloat32);
  for (int64_t i = 0; i < half.size(); ++i) half.set(i, 0.5);
  std::vector<double> expected = values(run("Conv", {x, w}, attributes)[0]);
  for (size_t i = 0; i < expected.size(); ++i) expected[i] = expected[i] / 2 + (i < 30 ? 1 : -1);
  EXPECT_THAT(deformed(offsets(0, 0), half), Pointwise(IsNear(), expected));
}

TEST(OnnxOperators, QuantizesByBlocks) {
  const Tensor scale = floats({1, 2, 4, 8}, {2, 2}), x = floats({1, -2, 3, 4, 5, 6, 4, 2, 90, 16}, {2, 5});
  const std::string blocks = bytes::integer("block_size", 3) + bytes::integer("axis", 1);
  Tensor zero = zeros({2, 2}, kInt8);
  zero.set(1, 1);
  const Tensor q = run("QuantizeLinear", {x, scale, zero}, blocks)[0];
  EXPECT_THAT(values(q), ElementsAre(1, -2, 3, 3, 3, 2, 1, 0, 11, 2));
  EXPECT_THAT(values(run("DequantizeLinear", {q, scale, zero}, blocks)[0]),
              ElementsAre(1, -2, 3, 4, 4, 8, 4, 0, 88, 16));
}

/// The standard does not say what nearest is before opset 11: the place before in a larger image, the one
/// behind in a smaller one, as ONNX Runtime has it.
TEST(OnnxOperators, NearestPlacesBeforeOpset11) {
  const auto resized = [](const Tensor& scales) {
    return values(outputs_of(import_node("Resize", {floats({1, 2, 3, 4, 5}, {1, 5}), scales}, "", 1, 10))[0]);
  };
  EXPECT_THAT(resized(floats({1, .6F}, {2})), ElementsAre(1, 3, 5));
  EXPECT_THAT(resized(floats({2, .6F}, {2})), ElementsAre(1, 3, 5, 1, 3, 5));
  // Of an image both axes are looked at together.
  const Tensor image = floats({1, 2, 3, 4, 5}, {1, 1, 1, 5}), scales = floats({1, 1, 2, .6F}, {4});
  const Tensor both = outputs_of(import_node("Resize", {image, scales}, "", 1, 10))[0];
  EXPECT_EQ(both.shape(), (std::vector<int64_t>{1, 1, 2, 3}));
  EXPECT_THAT(values(both), ElementsAre(1, 3, 5, 1, 3, 5));
  EXPECT_THAT(resized(floats({1, 1.6F}, {2})), ElementsAre(1, 1, 2, 2, 3, 4, 4, 5));
}

TEST(OnnxOperators, ResizesOfAnyAxes) {
  const Tensor row = floats({1, 2, 3, 4}, {4}), none;
  const std::string twice =
      bytes::text("nearest_mode", "floor") + bytes::text("coordinate_transformation_mode", "asymmetric");
  EXPECT_THAT(values(run("Resize", {row, none, floats({2}, {1})}, twice)[0]),
              ElementsAre(1, 1, 2, 2, 3, 3, 4, 4));
  // All of five axes, which takes more than one step.
  const Tensor x = random_tensor({2, 1, 2, 3, 2}, kFloat32, 1);
  const Tensor y = run("Resize", {x, none, none, longs({4, 2, 4, 6, 4})})[0];
  ASSERT_EQ(y.shape(), (std::vector<int64_t>{4, 2, 4, 6, 4}));
  for (int64_t i = 0; i < y.size(); ++i) {
    const int64_t place[] = {i / 192, i / 96 % 2, i / 24 % 4, i / 4 % 6, i % 4};
    const int64_t from = (((place[0] / 2 * 2 + place[2] / 2) * 3) + place[3] / 2) * 2 + place[4] / 2;
    ASSERT_EQ(y.value(i), x.value(from)) << i;
  }
  // Channels last, only some axes named, in any order.
  const std::string axes = bytes::integers("axes", {2, 1}) + bytes::text("mode", "linear");
  EXPECT_EQ(
      run("Resize", {random_tensor({1, 4, 6, 3}, kFloat32, 1), none, none, longs({9, 2})}, axes)[0].shape(),
      (std::vector<int64_t>{1, 2, 9, 3}));
  // Of volumes; one factor for all axes, from the one that leaves least room.
  const std::string keep =
      bytes::text("keep_aspect_ratio_policy", "not_larger") + bytes::integers("axes", {2, 3, 4});
  EXPECT_EQ(
      run("Resize", {random_tensor({1, 2, 4, 6, 8}, kFloat32, 1), none, none, longs({8, 9, 16})}, keep)[0]
          .shape(),
      (std::vector<int64_t>{1, 2, 6, 9, 12}));
}

TEST(OnnxOperators, ResizesThatDoNotFitAreErrors) {
  const Tensor x = random_tensor({1, 2, 3}, kFloat32, 1), none;
  auto error = [&](std::vector<Tensor> inputs, const std::string& attributes = "") {
    inputs.insert(inputs.begin(), {x, none});
    return thrown_by([&] { run("Resize", inputs, attributes); });
  };
  using testing::HasSubstr;
  EXPECT_THAT(error({none, longs({1, 2})}), HasSubstr("2 numbers for 3 axes"));
  EXPECT_THAT(error({none, longs({1, 2, 0})}), HasSubstr("a size of 0, must be positive"));
  EXPECT_THAT(error({floats({1, 1, -2}, {3})}), HasSubstr("a scale of -2, must be positive"));
  EXPECT_THAT(error({none, longs({1, 2, 6})}, bytes::text("nearest_mode", "up")),
              HasSubstr("nearest_mode `up` is unknown"));
  EXPECT_THAT(error({none, longs({1, 2, 6})}, bytes::text("mode", "area")), HasSubstr("method is `area`"));
  // A layout has a letter for each axis.
  const Tensor deep = random_tensor(std::vector<int64_t>(30, 1), kFloat32, 1);
  EXPECT_THAT(thrown_by([&] {
                run("Resize", {deep, none, none, longs({2})}, bytes::integers("axes", {29}));
              }),
              HasSubstr("an image of 30 dimensions, must have 24 at most"));
}

TEST(OnnxOperators, CastsToIntegersWrap) {
  const Tensor x = floats({300, -1, -129.5F, 65543, 12.9F}, {5});
  const auto to = [&](int64_t type) { return values(run("Cast", {x}, bytes::integer("to", type))[0]); };
  EXPECT_THAT(to(2), ElementsAre(44, 255, 127, 7, 12));       // uint8
  EXPECT_THAT(to(3), ElementsAre(44, -1, 127, 7, 12));        // int8
  EXPECT_THAT(to(5), ElementsAre(300, -1, -129, 7, 12));      // int16
  EXPECT_THAT(to(6), ElementsAre(300, -1, -129, 65543, 12));  // int32
  EXPECT_THAT(to(12), ElementsAre(300, 4294967295, 4294967167, 65543, 12));
  const Tensor wide = run("Cast", {floats({1e19F, -1, -129.5F}, {3})}, bytes::integer("to", 13))[0];
  EXPECT_THAT(std::vector<uint64_t>(wide.as<uint64_t>(), wide.as<uint64_t>() + 3),
              ElementsAre(9999999980506447872U, UINT64_MAX, UINT64_MAX - 128));
}

TEST(OnnxOperators, LoopsAreUnrolled) {
  // total += i; gathers the totals; goes on while total < 4
  std::string body = bytes::graph(
      {bytes::node("Cast", {"i"}, {"f"}, bytes::integer("to", 1)),
       bytes::node("Add", {"total", "f"}, {"next"}), bytes::node("Less", {"next", "limit"}, {"more"}),
       bytes::node("Identity", {"next"}, {"seen"})},
      bytes::input("i") + bytes::input("go") + bytes::input("total"), {"more", "next", "seen"});
  Tensor yes({}, kBool);
  yes.set(0, 1);
  ImportOptions options{
      .constants = {{"limit", floats({4}, {})}, {"go_first", yes}, {"start", floats({0}, {})}}};
  std::string inputs = bytes::input("limit") + bytes::input("go_first") + bytes::input("start");
  std::string loop =
      bytes::node("Loop", {"", "go_first", "start"}, {"end", "all"}, bytes::subgraph("body", body));
  std::vector<Tensor> result =
      outputs_of(import_bytes(bytes::model(loop, inputs, {"end", "all"}, 24), "m.onnx", options));
  EXPECT_THAT(values(result[0]), ElementsAre(6));
  EXPECT_THAT(values(result[1]), ElementsAre(0, 1, 3, 6));
  // PyTorch writes a loop without a count with the largest one.
  options.constants["most"] = tensor_of<int64_t>({INT64_MAX}, {}, kInt64);
  loop = bytes::node("Loop", {"most", "go_first", "start"}, {"end", "all"}, bytes::subgraph("body", body));
  inputs += bytes::input("most");
  result = outputs_of(import_bytes(bytes::model(loop, inputs, {"end", "all"}, 24), "m.onnx", options));
  EXPECT_THAT(values(result[0]), ElementsAre(6));
}

TEST(OnnxOperators, MessagesFromABodyNameTheFileOnce) {
  std::string body = bytes::graph({bytes::node("Reshape", {"x", "x"}, {"next"})},
                                  bytes::input("i") + bytes::input("go") + bytes::input("x"), {"go", "next"});
  std::string missing =
      bytes::graph({bytes::node("Relu", {"nothing"}, {"next"})},
                   bytes::input("i") + bytes::input("go") + bytes::input("x"), {"go", "next"});
  auto message = [](const std::string& graph) -> std::string {
    ImportOptions options{.constants = {{"count", longs({1})}, {"start", floats({3, 4}, {2})}}};
    std::string loop = bytes::node("Loop", {"count", "", "start"}, {"end"}, bytes::subgraph("body", graph));
    return thrown_by([&] {
      import_bytes(bytes::model(loop, bytes::input("count") + bytes::input("start"), {"end"}, 24), "m.onnx",
                   options);
    });
  };
  EXPECT_THAT(message(body), testing::StartsWith("m.onnx: node `end` (Loop): node `next` (Reshape): "));
  EXPECT_EQ(message(missing),
            "m.onnx: node `end` (Loop): node `next` (Relu) uses `nothing`, which nothing defines before it");
}

TEST(OnnxOperators, ConstantsKeepAllDigits) {
  constexpr int64_t kOdd = (int64_t{1} << 53) + 1;  // no double
  Tensor filled = run("ConstantOfShape", {longs({2})}, bytes::tensor("value", kOdd))[0];
  ASSERT_EQ(filled.size(), 2);
  EXPECT_EQ(filled.integer(0), kOdd);
  EXPECT_EQ(filled.integer(1), kOdd);
}

TEST(OnnxOperators, LogSumExpOfInfinities) {
  Tensor x = floats({-INFINITY, -INFINITY, INFINITY, 0, -INFINITY, 2}, {3, 2});
  EXPECT_THAT(values(run("ReduceLogSumExp", {x, longs({1})}, bytes::integer("keepdims", 0))[0]),
              ElementsAre(-INFINITY, INFINITY, 2));
}

/// Found by fuzz_onnx, and by reading.
TEST(OnnxOperators, InputsThatDoNotFitAreErrors) {
  Tensor matrix = floats({1, 2, 3, 4, 5, 6}, {2, 3}), image = floats({1, 2, 3, 4}, {1, 1, 2, 2});
  EXPECT_THROW(run("ReverseSequence", {matrix, longs({1, 2})}), Error) << "lengths of three sequences";
  EXPECT_THROW(run("Attention", {matrix, matrix, matrix}), Error);
  EXPECT_THROW(run("RotaryEmbedding", {image, image, image}), Error);
  EXPECT_THROW(run("GridSample", {floats({}, {1, 1, 0, 2}), image}), Error);
  EXPECT_THROW(run("RoiAlign", {image, longs({1}), longs({0})}), Error);
  EXPECT_THROW(run("Einsum", {matrix}, bytes::text("equation", "ii")), Error) << "no square";
  EXPECT_THROW(run("Col2Im", {image, longs({1 << 30, 1 << 30, 1 << 30}), longs({1, 1, 1})}), Error);
  EXPECT_THROW(run("LpPool", {image}, bytes::integers("kernel_shape", {1, 1}) + bytes::integer("p", 0)),
               Error);
}

TEST(OnnxOperators, HalvesAreSummedWideAndRoundedOnce) {
  Tensor x({1, 4096}, kFloat16), w({4096, 1}, kFloat16);
  for (int64_t i = 0; i < 4096; ++i) x.set(i, 1), w.set(i, 1);
  EXPECT_THAT(values(run("MatMul", {x, w})[0]), ElementsAre(4096)) << "2048 + 1 is 2048 in float16";
  EXPECT_THAT(values(run("ReduceSum", {x, longs({1})})[0]), ElementsAre(4096));
  EXPECT_EQ(run("ReduceSum", {x, longs({1})})[0].dtype(), kFloat16);
}

/// By the first column.
double determinant(const std::vector<std::vector<double>>& m) {
  if (m.empty()) return 1;
  double sum = 0;
  for (size_t i = 0; i < m.size(); ++i) {
    std::vector<std::vector<double>> minor;
    for (size_t k = 0; k < m.size(); ++k)
      if (k != i) minor.emplace_back(m[k].begin() + 1, m[k].end());
    sum += (i % 2 == 0 ? 1 : -1) * m[i][0] * determinant(minor);
  }
  return sum;
}

TEST(OnnxOperators, Determinants) {
  for (int64_t n = 1; n <= 7; ++n) {
    Tensor x = random_tensor({5, n, n}, kFloat32, 6);
    // Rows must be swapped; then one whose rows depend on each other; then zeros.
    x.set(0, 0);
    for (int64_t j = 0; j < n && n > 1; ++j) x.set(n * n + (n - 1) * n + j, 2 * x.value(n * n + j));
    for (int64_t j = 0; j < n * n; ++j) x.set(2 * n * n + j, 0);
    const Tensor y = run("Det", {x})[0];
    ASSERT_EQ(y.shape(), std::vector<int64_t>{5});
    for (int64_t b = 0; b < 5; ++b) {
      std::vector<std::vector<double>> m(static_cast<size_t>(n), std::vector<double>(static_cast<size_t>(n)));
      for (int64_t i = 0; i < n * n; ++i)
        m[static_cast<size_t>(i / n)][static_cast<size_t>(i % n)] = x.value(b * n * n + i);
      EXPECT_NEAR(y.value(b), determinant(m), 1e-5) << b << " of " << n;
    }
  }
  EXPECT_EQ(run("Det", {floats({1, 2, 3, 4}, {2, 2})})[0].shape(), std::vector<int64_t>{});
  // Of many rows the vectors are whole and cut.
  for (int64_t n : {16, 37}) {
    Tensor x({n, n}, kFloat64);
    for (int64_t i = 0; i < n * n; ++i) x.set(i, 0);
    for (int64_t i = 0; i < n; ++i) x.set(i * n + (i + 1) % n, i % 2 ? 2 : 0.5);
    EXPECT_NEAR(run("Det", {x})[0].value(0), n % 2 ? 0.5 : -1, 1e-12) << "a cycle of " << n;
  }
  EXPECT_THAT(values(run("Det", {floats({}, {2, 0, 0})})[0]), ElementsAre(1, 1));
  EXPECT_THROW(run("Det", {floats({1, 2}, {1, 2})}), Error);
  EXPECT_THROW(run("Det", {floats({1, 2}, {2})}), Error);
}

/// Signals and volumes are products of bytes as images are, not of their differences from the zero point.
TEST(OnnxOperators, IntegerConvolutionsOfAnyRank) {
  for (const size_t rank : {1, 2, 3}) {
    std::vector<int64_t> image(rank + 2, 5), kernel(rank + 2, 3);
    image[0] = 1, image[1] = kernel[1] = 4;
    const std::vector<Tensor> inputs{random_tensor(image, kUInt8, 3), random_tensor(kernel, kInt8, 4),
                                     tensor_of(std::vector<uint8_t>{3}, {}, kUInt8)};
    const ImportedModel model = import_node("ConvInteger", inputs);
    EXPECT_THAT(relay::print(model.module->functions.at("main")->body),
                testing::HasSubstr(fmt::format("qnn.conv{}d(", rank)));
  }
}

/// Whose range is 0, by which nothing can be divided.
TEST(OnnxOperators, QuantizeZerosAlone) {
  const std::vector<Tensor> results = run("DynamicQuantizeLinear", {floats({0, 0}, {2})}, "", 3);
  EXPECT_EQ(values(results[0]), (std::vector<double>{0, 0}));
  EXPECT_EQ(values(results[1]), std::vector<double>{1});
  EXPECT_EQ(values(results[2]), std::vector<double>{0});
}

}  // namespace
}  // namespace lathe::onnx
