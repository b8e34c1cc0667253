#include "core/tir/dims.h"

#include <algorithm>

#include "core/arith/simplify.h"
#include "core/support/error.h"

namespace lathe::tir {

std::vector<Var> dims_of(const FuncNode& func) {
  std::vector<Var> dims;
  for (const Buffer& param : func.params)
    for (const Expr& extent : param->shape) {
      if (as_int(extent)) continue;
      post_order(extent, [&](const NodeRef& node) {
        if (!node.as<VarNode>()) return;
        Var dim = node.cast<VarNode>();
        if (std::find(dims.begin(), dims.end(), dim) == dims.end()) dims.push_back(dim);
      });
    }
  return dims;
}

Func with_dims(const Func& func, std::span<const int64_t> values) {
  std::vector<Var> dims = dims_of(*func);
  CHECK(dims.size() == values.size(), "{} values for {} dimensions of {}", values.size(), dims.size(),
        func->name);
  VarMap numbers;
  for (size_t i = 0; i < dims.size(); ++i)
    if (values[i] != kStaysOpen) numbers[dims[i].get()] = Expr(values[i]);
  if (numbers.empty()) return func;
  NodeRef bound = rewrite(func, [&](const NodeRef& node) -> NodeRef {
    if (const VarNode* v = node.as<VarNode>()) {
      auto found = numbers.find(v);
      return found == numbers.end() ? node : NodeRef(found->second);
    }
    // 4 * 64 becomes a number: whoever asks for a constant extent takes no sum of two.
    if (const Binary* b = node.as<Binary>(); b && as_int(b->a) && as_int(b->b))
      return binary(b->op, b->a, b->b);
    return node;
  });
  // What stays open may have become simpler.
  return with_simple_shapes(bound.cast<FuncNode>());
}

Func with_dims_within(const Func& func, std::span<const Bound> bounds) {
  const std::vector<Var> dims = dims_of(*func);
  CHECK(dims.size() == bounds.size(), "{} bounds for {} dimensions of {}", bounds.size(), dims.size(),
        func->name);
  Analyzer known;
  for (size_t i = 0; i < dims.size(); ++i) known.bind(dims[i], bounds[i]);
  auto of_dims_alone = [&](const Expr& e) {
    bool has = false, others = false;
    post_order(e, [&](const NodeRef& node) {
      const auto* v = node.as<VarNode>();
      if (!v && !node.as<Load>()) return;
      const bool is_dim =
          std::any_of(dims.begin(), dims.end(), [&](const Var& dim) { return dim.get() == v; });
      (is_dim ? has : others) = true;
    });
    return has && !others;
  };
  NodeRef bound = rewrite(func, [&](const NodeRef& node) -> NodeRef {
    if (!node.as<VarNode>() && !node.as<Binary>()) return node;
    const Expr e = node.cast<ExprNode>();
    if (e.dtype() != kInt64) return node;
    if (const Binary* b = node.as<Binary>(); b && as_int(b->a) && as_int(b->b))
      return binary(b->op, b->a, b->b);
    if (!of_dims_alone(e)) return node;
    const Bound value = known.bound(known.simplify(e));
    return value.is_point() ? NodeRef(Expr(value.min)) : node;
  });
  return with_simple_shapes(bound.cast<FuncNode>());
}

/// Types say (n + 1 + 1 - 2) + 1 where tensor programs, which compare shapes often, are to say n + 1.
Func with_simple_shapes(const Func& func) {
  if (dims_of(*func).empty()) return func;
  auto simple = [](const Expr& extent) { return as_int(extent) ? extent : simplify(extent); };
  NodeRef result = rewrite(func, [&](const NodeRef& node) -> NodeRef {
    if (const auto* buffer = node.as<BufferNode>()) {
      auto copy = mutate(*buffer);
      for (Expr& extent : copy->shape) extent = simple(extent);
      return seal(std::move(copy));
    }
    if (const auto* loop = node.as<For>()) {
      auto copy = mutate(*loop);
      copy->extent = simple(loop->extent);
      return seal(std::move(copy));
    }
    const auto* block = node.as<Block>();
    if (!block) return node;
    auto copy = mutate(*block);
    for (BlockIter& iter : copy->iters) iter.extent = simple(iter.extent);
    return seal(std::move(copy));
  });
  return result.cast<FuncNode>();
}

bool names_dims(std::string_view text) {
  // func NAME[n, m](...; a name with brackets in it is quoted.
  const size_t params = text.find('(');
  return params != std::string_view::npos && params > 0 && text[params - 1] == ']';
}

bool has_constant_shape(const BufferNode& buffer) {
  return std::all_of(buffer.shape.begin(), buffer.shape.end(),
                     [](const Expr& extent) { return as_int(extent) != nullptr; });
}

Expr byte_count(const BufferNode& buffer) {
  Expr bytes = buffer.dtype.bytes();
  for (const Expr& extent : buffer.shape) bytes = bytes * extent;
  return simplify(bytes);
}

}  // namespace lathe::tir
