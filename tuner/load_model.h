// The models a user can name.
#pragma once

#include <string>

#include "core/relay/expr.h"
#include "tuner/bind_shapes.h"

namespace lathe::tuner {

/// A model of the zoo ("resnet18"), an ONNX file (net.onnx) or a Relay text file (net.relay), its dynamic
/// dimensions settled by the shapes, but for those that `open` keeps. Types may have to be inferred. Throws
/// Error for an unknown model, a damaged file, or a shape that does not fit.
relay::Module load_model(const std::string& model, const InputShapes& shapes = {}, const OpenDims& open = {});

}  // namespace lathe::tuner
