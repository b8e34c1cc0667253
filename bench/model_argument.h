// A model of the zoo or a file, with the shapes of inputs that the file leaves open:
// net.onnx:x=1x3x64x64:mask=1x64.
#pragma once

#include <string>

#include "core/support/error.h"
#include "core/support/text.h"
#include "tuner/load_model.h"

namespace lathe::bench {

struct ModelArgument {
  std::string name;
  tuner::InputShapes shapes;
};

/// Throws Error when the text is none.
inline ModelArgument parse_model(const std::string& text) {
  std::vector<std::string> parts = split_text(text, ':');
  ModelArgument model{parts[0], {}};
  for (size_t i = 1; i < parts.size(); ++i) {
    size_t equals = parts[i].find('=');
    if (equals == std::string::npos) fail("`{}`: `{}` must be NAME=1x3x64x64", text, parts[i]);
    std::vector<int64_t>& dims = model.shapes[parts[i].substr(0, equals)];
    for (const std::string& dim : split_text(parts[i].substr(equals + 1), 'x')) {
      dims.push_back(std::atoll(dim.c_str()));
      if (dims.back() < 1) fail("`{}`: `{}` is no dimension", text, dim);
    }
  }
  return model;
}

inline relay::Module load(const ModelArgument& model) { return tuner::load_model(model.name, model.shapes); }

}  // namespace lathe::bench
