#include "core/tir/lower.h"

#include "core/support/error.h"
#include "core/tir/passes/lower_blocks.h"
#include "core/tir/passes/place_allocations.h"
#include "core/tir/passes/simplify_program.h"
#include "core/tir/passes/skip_neutral_terms.h"
#include "core/tir/passes/specialize_boundaries.h"
#include "core/tir/passes/split_conditions.h"
#include "core/tir/passes/unroll_loops.h"
#include "core/tir/passes/vectorize_loops.h"

namespace lathe::tir {
namespace {
struct Pass {
  const char* name;
  Stmt (*run)(const Stmt&);
};
/// In this order; each header says why its pass stands where it does.
constexpr Pass kPipeline[] = {
    {"lower_blocks", lower_blocks},
    {"skip_neutral_terms", skip_neutral_terms},
    {"simplify_program", simplify_program},
    {"place_allocations", place_allocations},
    {"specialize_boundaries", specialize_boundaries},
    {"simplify_program", simplify_program},
    {"split_conditions", split_conditions},
    {"vectorize_loops", vectorize_loops},
    {"unroll_loops", unroll_loops},
    {"simplify_program", simplify_program},
};

void require_constant_shapes(const Func& func) {
  for (const Buffer& param : func->params)
    for (const Expr& dim : param->shape)
      if (!as_int(dim))
        fail("{}: a dimension of {} is not constant; bind it before lowering", func->name, param->name);
}
}  // namespace

Func lower(const Func& scheduled, const Target&) {
  require_constant_shapes(scheduled);
  auto lowered = mutate(*scheduled);
  for (const Pass& pass : kPipeline) {
    lowered->body = pass.run(lowered->body);
    if (!lowered->body) lowered->body = seq({});
  }
  return seal(std::move(lowered));
}

}  // namespace lathe::tir
