// Modules that are values: passes on them are checked by interpreting both.
#pragma once

#include "core/relay/interpret_closed.h"

namespace lathe::relay {

/// A module without parameters.
inline Module closed(const Expr& body) {
  auto function = std::make_unique<Function>();
  function->body = body;
  function->result_type = body->checked_type;
  function->checked_type = func_type({}, body->checked_type);
  return make_module(seal(std::move(function)));
}

inline Tensor value_of(const Module& module) {
  return interpret_closed({module->functions.at("main")->body})[0];
}

}  // namespace lathe::relay
