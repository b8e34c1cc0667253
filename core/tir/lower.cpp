#include "core/tir/lower.h"

#include "core/tir/pass.h"

namespace lathe::tir {

Func lower(const Func& scheduled, const Target& target) {
  return run_passes(scheduled, lowering_pipeline(), {.target = target});
}

}  // namespace lathe::tir
