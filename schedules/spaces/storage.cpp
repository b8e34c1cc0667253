// In which type constants are kept.
#include "schedules/spaces/building_blocks.h"

namespace lathe::schedule {

using namespace tir;

int64_t far_bytes(const Target& target) { return target.l2_bytes / 32; }

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
