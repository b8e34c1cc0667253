#include "schedules/anatomy.h"

#include <algorithm>
#include <numeric>

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

bool is_contiguous(const std::vector<Expr>& indices, const Var& lane) {
  if (indices.empty()) return false;
  for (size_t d = 0; d + 1 < indices.size(); ++d)
    if (uses_var(indices[d], lane.get())) return false;
  std::vector<Var> vars{lane};
  auto form = linear_form(indices.back(), vars);
  return form && form->coefficients[lane.get()] == 1;
}

bool loads_contiguously(const Expr& value, const Var& lane) {
  bool good = true;
  post_order(value, [&](const NodeRef& node) {
    if (const Load* load = node.as<Load>()) {
      bool used = std::any_of(load->indices.begin(), load->indices.end(),
                              [&](const Expr& index) { return uses_var(index, lane.get()); });
      good &= !used || is_contiguous(load->indices, lane);
    }
    if (const Select* select = node.as<Select>()) good &= !uses_var(select->condition, lane.get());
  });
  return good;
}

bool VectorReduction::broadcasts() const {
  for (const Operand& operand : operands)
    if (!operand.contiguous) return true;
  return false;
}

namespace {
/// e as v // n (v % n), giving n; else 0.
int64_t divisor_of(const Expr& e, BinaryOp op, const Var& v) {
  const Binary* binary = e.as<Binary>();
  bool matches = binary && binary->op == op && binary->a == v && as_int(binary->b);
  return matches ? int_value(binary->b) : 0;
}

/// The longest aligned run of values of `lane` along which the elements at `indices` are neighbours (`whole`:
/// all are); 0 when they would have to be gathered.
int64_t run_of(const std::vector<Expr>& indices, const Var& lane, int64_t whole) {
  if (indices.empty()) return 0;
  int64_t packed = divisor_of(indices.back(), BinaryOp::kFloorMod, lane);
  for (size_t d = 0; d + 1 < indices.size(); ++d)
    if (uses_var(indices[d], lane.get()) &&
        (packed == 0 || divisor_of(indices[d], BinaryOp::kFloorDiv, lane) != packed))
      return 0;
  if (packed) return packed;
  std::vector<Var> vars{lane};
  auto form = linear_form(indices.back(), vars);
  return form && form->coefficients[lane.get()] == 1 ? whole : 0;
}

bool any_uses(const std::vector<Expr>& indices, const Var& v) {
  return std::any_of(indices.begin(), indices.end(),
                     [&](const Expr& index) { return uses_var(index, v.get()); });
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
  const Var& lane = block->iters[*vector].var;
  result.run = result.extents[*vector];
  bool gathers = false;
  post_order(update.value, [&](const NodeRef& node) {
    const Load* load = node.as<Load>();
    if (!load || load->buffer == update.buffer) return;
    Operand operand{load->buffer, {}, any_uses(load->indices, lane)};
    for (const BlockIter& iter : block->iters) operand.uses.push_back(any_uses(load->indices, iter.var));
    if (operand.contiguous) {
      int64_t run = run_of(load->indices, lane, result.extents[*vector]);
      gathers |= run == 0;
      result.run = std::gcd(result.run, run);
    }
    result.operands.push_back(std::move(operand));
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
