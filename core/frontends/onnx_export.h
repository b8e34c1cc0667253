// Relay models as ONNX files, so that a peer runs the very same network.
#pragma once

#include <string>

#include "core/relay/expr.h"

namespace lathe::onnx {

/// `main` of the module as an ONNX model, of opset 17 or the first that has
/// all its operators. Inputs keep their names, outputs are output_0, output_1,
/// ... as far as no input has that name. REQUIRES: types are inferred, shapes constant. Throws Error naming
/// an operator that has no ONNX form here.
void export_file(const relay::Module& module, const std::string& path);

/// Whether calls of a Relay operator can be exported at all; some of its attributes may still be refused.
bool has_onnx_form(const std::string& op);

}  // namespace lathe::onnx
