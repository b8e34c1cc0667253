// Operators of which a run tells what a model often knows: each result is that of the same model whose inputs
// are known when it is imported.
#pragma once

#include "tests/frontends/onnx_models.h"

namespace lathe::onnx {

inline Tensor floats(const std::vector<float>& values, Shape shape) {
  return tensor_of(values, std::move(shape), kFloat32);
}
inline Tensor integers_of(const std::vector<int64_t>& values, Shape shape) {
  return tensor_of(values, std::move(shape), kInt64);
}
inline Tensor vector_of(const std::vector<int64_t>& values) {
  return integers_of(values, {static_cast<int64_t>(values.size())});
}
inline Tensor number_of(int64_t value) { return integers_of({value}, {}); }

struct Input {
  std::string name;
  Tensor value;
};

/// As if known; dimensions are open where `open` says so.
inline void expect_as_known(const std::string& last, const std::vector<Input>& given,
                            const Strings& outputs = {"y"}, int64_t opset = 17) {
  for (bool open : {false, true}) {
    SCOPED_TRACE(open ? "open" : "closed");
    Model model{{last}, "", outputs, opset};
    ImportOptions known, options;
    std::vector<Tensor> inputs;
    for (const Input& input : given) {
      const DataType dtype = input.value.dtype();
      Strings dims;
      for (int64_t dim : input.value.shape())
        // What the ranks of results follow from is no size.
        dims.push_back(open && dtype.is_float() ? fmt::format("d{}", dim) : std::to_string(dim));
      model.inputs += input_of(input.name, dims, dtype == kInt64 ? kInt : dtype == kBool ? kBoolean : kFloat);
      known.constants[input.name] = input.value;
      inputs.push_back(input.value);
    }
    if (open) options.keeps_open = [](const std::string&) { return true; };
    try {
      expect_equal(run(import_bytes(model.file(), "m.onnx", options), inputs),
                   run(import_bytes(model.file(), "m.onnx", known), {}));
    } catch (const Error& error) {
      FAIL() << error.what();
    }
  }
}

}  // namespace lathe::onnx
