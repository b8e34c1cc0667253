// A small model over the kernels of kernels.cpp, for the tests of this room.
#pragma once

#include "core/runtime/plan_builder.h"
#include "core/support/file.h"

namespace lathe::runtime {

inline const TensorType kThree{{3}, kFloat32};

inline Tensor floats(const std::vector<float>& values) {
  return tensor_of(values, {static_cast<int64_t>(values.size())}, kFloat32);
}

inline std::string test_kernels() { return read_file(TEST_KERNELS); }

/// y = 2 * (2 * (x + c)) + c, with outputs: y as (3, 1), x, c, and y again.
inline ModuleImage test_image() {
  PlanBuilder builder;
  int64_t x = builder.input("x", kThree);
  int64_t c = builder.constant(floats({1, 2, 3}));
  int64_t sum = builder.call({.kernel = "add", .args = {x, c}, .results = {kThree}, .reuse = {0}})[0];
  int64_t two =
      builder.call({.kernel = "twice", .args = {sum}, .results = {kThree}, .workspace_bytes = 12})[0];
  int64_t four =
      builder.call({.kernel = "twice", .args = {two}, .results = {kThree}, .workspace_bytes = 12})[0];
  int64_t y = builder.call({.kernel = "add", .args = {four, c}, .results = {kThree}, .reuse = {0}})[0];
  builder.output("column", builder.view(y, {3, 1}));
  builder.output("x", x);
  builder.output("c", c);
  builder.output("y", y);
  ModuleImage image = builder.finish();
  image.plan.model = "test";
  image.library = test_kernels();
  return image;
}

/// Doubles a vector of n floats `times` times.
inline ModuleImage open_image(int times, int64_t max = kMostBytes) {
  PlanBuilder builder;
  const Size n = builder.dimension({.name = "n", .min = 1, .max = max}, 64);
  int64_t value = builder.input("x", {{n}, kFloat32});
  for (int i = 0; i < times; ++i)
    value = builder.call({.kernel = "twice_open",
                          .args = {value},
                          .results = {{{n}, kFloat32}},
                          .workspace_bytes = builder.size(SizeOp::kMul, 4, n),
                          .dims = {n}})[0];
  builder.output("y", value);
  ModuleImage image = builder.finish();
  image.library = test_kernels();
  return image;
}

/// One kernel that says where its buffers are: the input `x`, and the output `places` itself.
inline ModuleImage places_image() {
  PlanBuilder builder;
  int64_t x = builder.input("x", kThree);
  builder.output("places", builder.call({.kernel = "places", .args = {x}, .results = {{{2}, kInt64}}})[0]);
  ModuleImage image = builder.finish();
  image.library = test_kernels();
  return image;
}

/// A program: the host's function "half.of" makes y of x, of as many elements, and their number.
inline ModuleImage library_image() {
  PlanBuilder builder;
  const Size n = builder.dimension({.name = "n"}, 64);
  builder.input("x", {{n}, kFloat32});
  builder.output("y", builder.result({{n}, kFloat32}));
  builder.output("count", builder.result({{}, kInt64}));
  ModuleImage image = builder.finish();
  Program& program = image.program.emplace();
  program.library_functions = {"half.of"};
  program.library_calls = {{0, 1, {{kFloat32, {-1}}, {kInt64, {}}}, "here: "}};
  program.functions.push_back({.name = "main", .params = 1, .registers = 3});
  program.functions[0].code = {
      {.op = Opcode::kSized, .sized = SizedOp::kExtent, .results = {1}, .args = {0}},
      {.op = Opcode::kLibrary, .results = {1, 2}, .args = {~0, ~1}},
      {.op = Opcode::kTuple, .results = {1}, .args = {~1, ~2}},
      {.op = Opcode::kReturn, .args = {~1}},
  };
  image.library = test_kernels();
  return image;
}

/// A kernel whose check number 7 fails.
inline ModuleImage refusing_image() {
  PlanBuilder builder;
  builder.output("y", builder.call({.kernel = "refuse", .args = {}, .results = {kThree}})[0]);
  ModuleImage image = builder.finish();
  image.library = test_kernels();
  return image;
}

}  // namespace lathe::runtime
