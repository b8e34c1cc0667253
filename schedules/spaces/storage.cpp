// In which type constants are kept.
#include "core/tir/machine.h"
#include "core/tir/prologue.h"
#include "schedules/spaces/building_blocks.h"

namespace lathe::schedule {

using namespace tir;

bool is_constant(const Func& func, const Buffer& buffer) {
  if (is_param(func, buffer)) return is_constant_param(func, buffer);
  // Every block that writes it must read constants alone, or what is constant by that rule; a reduction's own
  // result, which it reads too, does not count.
  for (const Ref<Block>& block : all_blocks(func)) {
    if (!writes_buffer(*block, buffer.get())) continue;
    for (const Region& read : block->reads)
      if (read.buffer != buffer && !is_constant(func, read.buffer)) return false;
  }
  return true;
}

bool may_be_half(DataType dtype, int64_t bytes, const Target& target, const Policy& policy) {
  return policy.rounding == Rounding::kHalfWeights && target.converts_half() && dtype == kFloat32 &&
         bytes >= far_bytes(target);
}

void sample_half_storage(Schedule& schedule, BlockHandle block, bool preferred, Decide decide) {
  IntHandle bits = schedule.sample_categorical(
      {16, 32}, decide == Decide::kHeuristic ? Decision{preferred ? 0 : 1} : Decision{});
  schedule.store_as(block, 0, bits);
}

}  // namespace lathe::schedule
