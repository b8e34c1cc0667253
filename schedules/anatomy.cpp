#include "schedules/anatomy.h"

namespace lathe::schedule {

using namespace tir;

bool is_injective(const Block& block) {
  for (const BlockIter& iter : block.iters)
    if (iter.kind != IterKind::kSpatial) return false;
  return !block.init && block.body.as<Store>() && block.writes.size() == 1;
}

bool is_reduction(const Block& block) {
  bool reduces = false;
  for (const BlockIter& iter : block.iters) {
    if (iter.kind == IterKind::kOpaque) return false;
    reduces |= iter.kind == IterKind::kReduce;
  }
  return reduces && block.init && block.body.as<Store>() && block.writes.size() == 1;
}

int64_t iterations(const Block& block) {
  int64_t count = 1;
  for (const BlockIter& iter : block.iters) count *= as_int(iter.extent) ? int_value(iter.extent) : 0;
  return count;
}

bool VectorReduction::broadcasts() const {
  for (const Operand& operand : operands)
    if (!operand.contiguous) return true;
  return false;
}

namespace {
/// How the last index and the others use the vector variable, as an operand; nothing when lanes would have to
/// be gathered.
std::optional<Operand> operand_of(const Load& load, const Block& block, size_t vector) {
  Operand operand{load.buffer, std::vector<bool>(block.iters.size()), false};
  const Var& lane = block.iters[vector].var;
  for (size_t d = 0; d < load.indices.size(); ++d) {
    for (size_t i = 0; i < block.iters.size(); ++i)
      operand.uses[i] = operand.uses[i] || uses_var(load.indices[d], block.iters[i].var.get());
    if (!uses_var(load.indices[d], lane.get())) continue;
    std::vector<Var> vars{lane};
    auto form = linear_form(load.indices[d], vars);
    if (d + 1 != load.indices.size() || !form || form->coefficients[lane.get()] != 1) return std::nullopt;
    operand.contiguous = true;
  }
  return operand;
}
}  // namespace

std::optional<VectorReduction> vector_reduction(const Ref<Block>& block) {
  if (!is_reduction(*block)) return std::nullopt;
  const Store& update = *block->body.as<Store>();
  VectorReduction result;
  result.block = block->name;
  std::optional<size_t> vector;
  for (size_t i = 0; i < block->iters.size(); ++i) {
    const BlockIter& iter = block->iters[i];
    if (!as_int(iter.extent)) return std::nullopt;
    result.extents.push_back(int_value(iter.extent));
    result.reduces.push_back(iter.kind == IterKind::kReduce);
    if (!update.indices.empty() && update.indices.back() == iter.var) vector = i;
  }
  if (!vector || result.extents[*vector] == 1) return std::nullopt;
  result.vector = *vector;
  bool gathers = false;
  post_order(update.value, [&](const NodeRef& node) {
    const Load* load = node.as<Load>();
    if (!load || load->buffer == update.buffer) return;
    if (auto operand = operand_of(*load, *block, *vector))
      result.operands.push_back(std::move(*operand));
    else
      gathers = true;
  });
  if (gathers || result.operands.empty()) return std::nullopt;
  return result;
}

Ref<Block> dominant_reduction(const Func& func) {
  Ref<Block> best;
  for (const Ref<Block>& block : all_blocks(func))
    if (is_reduction(*block) && (!best || iterations(*block) > iterations(*best))) best = block;
  return best;
}

}  // namespace lathe::schedule
