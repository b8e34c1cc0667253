#include "schedules/padded_image.h"

#include <algorithm>

#include "core/tir/builder.h"
#include "schedules/anatomy.h"

namespace lathe::schedule {

using namespace tir;

Expr PaddedImage::condition_at(const Load& load) const {
  VarMap at;
  for (size_t d = 0; d < vars.size(); ++d) at[vars[d]] = load.indices[d];
  return substitute(condition, at);
}

std::optional<PaddedImage> padded_image(const Func& func, const Block& block) {
  const Store* store = block.body.as<Store>();
  if (!store || !is_injective(block) || is_param(func, store->buffer)) return std::nullopt;
  const Select* select = store->value.as<Select>();
  if (!select) return std::nullopt;
  PaddedImage padded{block.name, store->buffer, {}, select->condition, select->if_false};
  for (const Expr& index : store->indices) {
    const VarNode* v = index.as<VarNode>();
    if (!v || std::find(padded.vars.begin(), padded.vars.end(), v) != padded.vars.end()) return std::nullopt;
    padded.vars.push_back(v);
  }
  return padded.vars.size() == block.iters.size() ? std::optional(padded) : std::nullopt;
}

const Load* neutral_load(const Block& block, const PaddedImage& padded) {
  const Store* store = block.body.as<Store>();
  if (!store || !accumulates(*store)) return nullptr;
  const Binary& update = *store->value.as<Binary>();
  const auto combiner = combiner_of(update.op);
  if (!combiner || !structural_equal(padded.nothing, identity_of(*combiner, padded.buffer->dtype)))
    return nullptr;
  auto is_image = [&](const Expr& e) {
    const Load* load = e.as<Load>();
    return load && load->buffer == padded.buffer ? load : nullptr;
  };
  if (const Load* alone = is_image(update.b)) return alone;
  const Binary* product = *combiner == Combiner::kSum ? update.b.as<Binary>() : nullptr;
  if (!product || product->op != BinaryOp::kMul) return nullptr;
  const Load* left = is_image(product->a);
  return left ? left : is_image(product->b);
}

}  // namespace lathe::schedule
