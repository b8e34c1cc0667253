// Softmax and its kin.
#include "core/relay/ops/families.h"
#include "core/relay/ops/rule.h"

namespace lathe::relay::ops {
namespace {

Relation softmax_type(RelationContext& c, const Attrs& attrs) {
  const TensorType* x = c.tensor(0);
  if (!x) return Relation::kWaits;
  front_axis(c, attrs_as<SoftmaxAttrs>(attrs).axis, static_cast<int64_t>(x->shape.size()));
  return same_as_float_input(c, attrs);
}

template <bool kLog>
Buffers softmax(FuncBuilder& f, const Attrs& attrs, Inputs in, const Type&) {
  const Buffer& x = in[0];
  int64_t axis = attrs_as<SoftmaxAttrs>(attrs).axis;
  if (axis < 0) axis += static_cast<int64_t>(x->shape.size());
  auto without_axis = [&](std::vector<Expr> i) {
    i.erase(i.begin() + axis);
    return i;
  };
  auto exp = [](const Expr& e) { return intrinsic(Intrinsic::kExp, e); };
  // Taken off before exp, which then gives 1 at most: no overflow, and the same quotient.
  Buffer largest = reduce_over(f, "max", x->shape, {axis}, false, tir::Combiner::kMax,
                               [&](const std::vector<Expr>& i) { return load(x, i); });
  if (kLog) {
    Buffer sum = reduce_over(
        f, "sum", x->shape, {axis}, false, tir::Combiner::kSum,
        [&](const std::vector<Expr>& i) { return exp(load(x, i) - load(largest, without_axis(i))); });
    Buffer log = f.compute("log", sum->shape, [&](Vars i) { return intrinsic(Intrinsic::kLog, at(sum, i)); });
    return {f.compute("log_softmax", x->shape, [&](Vars i) {
      std::vector<Expr> rest = without_axis(as_indices(i));
      return at(x, i) - load(largest, rest) - load(log, rest);
    })};
  }
  Buffer exps = f.compute("exp", x->shape,
                          [&](Vars i) { return exp(at(x, i) - load(largest, without_axis(as_indices(i)))); });
  Buffer sum = reduce_over(f, "sum", x->shape, {axis}, false, tir::Combiner::kSum,
                           [&](const std::vector<Expr>& i) { return load(exps, i); });
  // One division a row.
  Buffer scale = f.compute("scale", sum->shape, [&](Vars i) { return div(real(at(sum, i), 1), at(sum, i)); });
  return {f.compute("softmax", x->shape,
                    [&](Vars i) { return at(exps, i) * load(scale, without_axis(as_indices(i))); })};
}

constexpr Op row(const char* name, const char* doc, Compute compute) {
  return {.name = name,
          .doc = doc,
          .args = 1,
          .attrs = &SoftmaxAttrs::kType,
          .infer = softmax_type,
          .compute = compute,
          .fusion = Fusion::kReduction};
}

constexpr Op kSoftmaxOps[] = {
    row("nn.softmax", "exp(x - max x) / sum exp(x - max x) along `axis`.", softmax<false>),
    row("nn.fast_softmax", "softmax.", softmax<false>),
    row("nn.log_softmax", "x - max x - log sum exp(x - max x) along `axis`.", softmax<true>),
};
}  // namespace

std::span<const Op> softmax_ops() { return kSoftmaxOps; }

}  // namespace lathe::relay::ops
