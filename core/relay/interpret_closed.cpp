#include "core/relay/interpret_closed.h"

#include "core/relay/analysis/call_type.h"
#include "core/relay/lower.h"
#include "core/tir/interpret.h"

namespace lathe::relay {

std::vector<Tensor> interpret_closed(const std::vector<Expr>& closed) {
  auto function = std::make_unique<Function>();
  function->body = typed_tuple(closed);
  function->result_type = function->body->checked_type;
  // Tensors become parameters: a tensor program has no constants but scalars.
  LiftedConstants lifted = lift_constants(seal(std::move(function)));
  tir::Func program = lower_function(lifted.function, "constants");
  std::vector<Tensor> tensors = lifted.values;
  size_t inputs = tensors.size();
  for (size_t i = inputs; i < program->params.size(); ++i)
    tensors.emplace_back(tir::constant_shape(program->params[i]), program->params[i]->dtype);
  tir::interpret(program, tensors);
  return {tensors.begin() + static_cast<long>(inputs), tensors.end()};
}

}  // namespace lathe::relay
