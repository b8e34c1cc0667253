// Models whose dimensions stay open, run by the interpreter at several sizes: each result is that of the same
// model imported for that size alone.
#pragma once

#include <gtest/gtest.h>

#include "tests/frontends/onnx_models.h"

namespace lathe::onnx {

inline ImportedModel open_model(const Model& model) {
  return import_bytes(model.file(), "m.onnx", {.keeps_open = [](const std::string&) { return true; }});
}

inline void expect_same_at(const Model& model, const std::vector<Shapes>& sizes) {
  const std::string file = model.file();
  try {
    const ImportedModel open = open_model(model);
    for (const Shapes& shapes : sizes) {
      const std::vector<Tensor> ours = run_at(open, shapes),
                                expected = run_at(import_bytes(file, "m.onnx", {.shapes = shapes}), shapes);
      expect_equal(ours, expected);
    }
  } catch (const Error& error) {
    FAIL() << error.what();
  }
}

/// Of x (b, t, 6).
inline void expect_same(const Strings& nodes, const Strings& outputs = {"y"}, int64_t opset = 17) {
  SCOPED_TRACE(nodes.back());
  expect_same_at({nodes, input_of("x", {"b", "t", "6"}), outputs, opset},
                 {{{"x", {1, 1, 6}}}, {{"x", {2, 5, 6}}}, {{"x", {3, 8, 6}}}});
}

/// s: the shape of x; t: its second dimension, a vector.
inline const Strings kShape = {
    node("Shape", {"x"}, {"s"}), ints("i1", {1}),  node("Gather", {"s", "i1"}, {"t"}),
    ints("zero", {0}),           ints("one", {1}), ints("two", {2})};

inline Strings with_shape(const Strings& more) {
  Strings nodes = kShape;
  nodes.insert(nodes.end(), more.begin(), more.end());
  return nodes;
}

}  // namespace lathe::onnx
