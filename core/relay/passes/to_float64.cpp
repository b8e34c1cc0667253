#include "core/relay/passes/to_float64.h"

#include <unordered_map>

#include "core/relay/functor.h"
#include "core/relay/ops/attrs_tensor.h"
#include "core/relay/ops/result_dtypes.h"

namespace lathe::relay {
namespace {

bool is_narrow(DataType dtype) { return dtype.is_float() && dtype.bits < 64; }

/// Every float32 is a float64: the constants are those of the model, not rounded anew.
Tensor widened(const Tensor& narrow) {
  Tensor wide(narrow.shape(), kFloat64);
  for (int64_t i = 0; i < narrow.size(); ++i) wide.set(i, narrow.value(i));
  return wide;
}

/// zeros and ones are float32 unless told otherwise.
NodeRef widened_call(const NodeRef& node, const Call& call) {
  if (call.callee.as<PrimFunc>() || call.callee.as<ExternFunc>())
    fail("float64: the model calls a tensor program or a library function, which computes as it is written");
  const auto* op = call.callee.as<OpNode>();
  if (op && op->name.starts_with("qnn."))
    fail("float64: the model is quantized ({}): its results are those of its integers", op->name);
  Attrs attrs = with_real_dtypes(call.attrs, [](DataType) { return kFloat64; });
  const auto* init = attrs.as<InitAttrs>();
  if (op && call.args.empty() && init && !init->dtype) {
    auto told = mutate(*init);
    told->dtype = kFloat64;
    attrs = seal(std::move(told));
  }
  if (attrs == call.attrs) return node;
  auto copy = mutate(call);
  copy->attrs = std::move(attrs);
  return seal(std::move(copy));
}

NodeRef widened_node(const NodeRef& node) {
  // Types appear in annotations, casts of matches and definitions of data types: a rewrite of the whole
  // module reaches them all.
  if (const auto* type = node.as<TensorType>())
    return is_narrow(type->dtype) ? NodeRef(tensor_type(type->shape, kFloat64)) : node;
  if (const auto* literal = node.as<Constant>())
    return is_narrow(literal->value.dtype()) ? NodeRef(constant(widened(literal->value))) : node;
  if (const auto* call = node.as<Call>()) return widened_call(node, *call);
  return node;
}

/// `wide`, the function `given` widened, on tensors of the types that `given` takes.
Ref<Function> taking(const Function& given, const Ref<Function>& wide) {
  auto copy = mutate(*wide);
  // The parameters that the caller gives keep their types; inside, a cast stands for each.
  std::unordered_map<const Node*, Expr> casts;
  for (size_t i = 0; i < given.params.size(); ++i) {
    const auto* type = given.params[i]->annotation.as<TensorType>();
    if (!type || !is_narrow(type->dtype)) continue;
    copy->params[i] = make_var(given.params[i]->name, given.params[i]->annotation);
    casts[wide->params[i].get()] = call("cast", {copy->params[i]}, make<CastAttrs>(kFloat64));
  }
  copy->body = substitute(wide->body, casts);
  // It is of other parameters now; inference is to find it anew.
  copy->checked_type = nullptr;
  return seal(std::move(copy));
}

}  // namespace

Module to_float64(const Module& module) {
  auto result =
      mutate(*rewrite(module, [](const NodeRef& node) { return widened_node(node); }).as<ModuleNode>());
  auto given = module->functions.find("main");
  if (given != module->functions.end())
    result->functions["main"] = taking(*given->second, result->functions.at("main"));
  return seal(std::move(result));
}

}  // namespace lathe::relay
