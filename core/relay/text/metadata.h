// The metadata section at the end of a text: what meta[...] refers to.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/support/tensor.h"
#include "core/tir/stmt.h"

namespace lathe::relay {

/// Values of meta[...] references, by index.
struct Metadata {
  std::vector<Tensor> constants;  // meta[relay.Constant][i]
  std::vector<tir::Func> funcs;   // meta[tir.Func][i]
  std::map<std::string, std::vector<nlohmann::json>>
      boxed;  // of attributes, by type: meta[runtime.BoxInt][i]
};

/// Our own form, or that of Apache TVM. Throws Error without a place.
Metadata read_metadata(std::string_view text);
/// Of constants and tensor programs.
std::string write_metadata(const Metadata& metadata);

/// Whether it is what tvm::SaveJSON writes: a graph of all kinds of nodes.
bool is_tvm_metadata(const nlohmann::json& json);
/// Its constants and boxed numbers, strings and lists. What else it holds stays unread, and its meta[...] are
/// unknown. Throws Error, or nlohmann's exception.
Metadata read_tvm_metadata(const nlohmann::json& json);

/// A shape that memory may be asked for. Throws Error.
std::vector<int64_t> checked_shape(std::vector<int64_t> shape);

}  // namespace lathe::relay
