// In which type constants are kept.
#include <functional>

#include "core/arith/exact_cast.h"
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

bool pays_as_half(DataType dtype, int64_t bytes, const Target& target) {
  return target.converts_half() && dtype == kFloat32 && bytes >= far_bytes(target);
}

bool may_be_half(DataType dtype, int64_t bytes, const Target& target, const Policy& policy) {
  return policy.rounding == Rounding::kHalfWeights && pays_as_half(dtype, bytes, target);
}

namespace {
/// Adds the blocks that make `buffer` of float16 without rounding, in their order; false where it is made
/// otherwise.
bool add_widening(const Func& func, const Buffer& buffer, std::vector<Ref<Block>>& blocks) {
  if (buffer->dtype != kFloat32 || is_param(func, buffer)) return false;
  std::vector<Ref<Block>> writers = all_blocks(func);
  std::erase_if(writers, [&](const Ref<Block>& block) { return !writes_buffer(*block, buffer.get()); });
  const Store* store = writers.size() == 1 ? writers[0]->body.as<Store>() : nullptr;
  const std::function<bool(const Expr&)> is_exact = [&](const Expr& value) {
    if (exact_cast(kFloat16, value)) return true;
    if (const Load* copied = value.as<Load>()) return add_widening(func, copied->buffer, blocks);
    const Select* choice = value.as<Select>();
    return choice && is_exact(choice->if_true) && is_exact(choice->if_false);
  };
  if (!store || writers[0]->init || !is_exact(store->value)) return false;
  blocks.push_back(writers[0]);
  return true;
}
}  // namespace

std::vector<BlockHandle> widening_of_constant(Schedule& schedule, const Buffer& weights) {
  std::vector<Ref<Block>> blocks;
  if (!is_constant(schedule.func(), weights) || !add_widening(schedule.func(), weights, blocks)) return {};
  std::vector<BlockHandle> handles;
  for (const Ref<Block>& block : blocks) handles.push_back(schedule.get_block(block->name));
  return handles;
}

std::optional<BlockHandle> copying_of_constant(Schedule& schedule, const Buffer& weights) {
  const Func& func = schedule.func();
  if (is_param(func, weights) || !is_constant(func, weights)) return {};
  std::vector<Ref<Block>> writers = all_blocks(func);
  std::erase_if(writers, [&](const Ref<Block>& block) { return !writes_buffer(*block, weights.get()); });
  const Store* store = writers.size() == 1 ? writers[0]->body.as<Store>() : nullptr;
  const std::function<bool(const Expr&)> is_copied = [&](const Expr& value) {
    const Select* choice = value.as<Select>();
    if (choice) return is_copied(choice->if_true) && is_copied(choice->if_false);
    return value.as<Load>() != nullptr || value.as<FloatImm>() != nullptr;
  };
  if (!store || writers[0]->init || !is_copied(store->value)) return {};
  return schedule.get_block(writers[0]->name);
}

void sample_half_storage(Schedule& schedule, const std::vector<BlockHandle>& blocks, bool preferred,
                         Decide decide) {
  IntHandle bits = schedule.sample_categorical(
      {16, 32}, decide == Decide::kHeuristic ? Decision{preferred ? 0 : 1} : Decision{});
  for (BlockHandle block : blocks) schedule.store_as(block, 0, bits);
}

}  // namespace lathe::schedule
