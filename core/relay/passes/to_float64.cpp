#include "core/relay/passes/to_float64.h"

#include <algorithm>
#include <unordered_map>

#include "core/relay/functor.h"
#include "core/relay/ops/attrs_tensor.h"

namespace lathe::relay {
namespace {

bool is_narrow(DataType dtype) { return dtype.is_float() && dtype.bits < 64; }

/// Every float32 is a float64: the constants are those of the model, not rounded anew.
Tensor widened(const Tensor& narrow) {
  Tensor wide(narrow.shape(), kFloat64);
  for (int64_t i = 0; i < narrow.size(); ++i) wide.set(i, narrow.value(i));
  return wide;
}

template <typename A, auto kDtype>
NodeRef with_wide_dtype(const NodeRef& node) {
  const A& attrs = *node.as<A>();
  std::optional<DataType> dtype = attrs.*kDtype;
  if (!dtype || !is_narrow(*dtype)) return node;
  auto copy = mutate(attrs);
  copy.get()->*kDtype = kFloat64;
  return seal(std::move(copy));
}

struct AttrsRow {
  const NodeType* type;
  NodeRef (*widen)(const NodeRef& attrs);
};
template <typename A, auto kDtype>
constexpr AttrsRow row() {
  return {&A::kType, with_wide_dtype<A, kDtype>};
}

/// The attributes that name the element type of a result, unless it is an integer (sort, topk, qnn).
constexpr AttrsRow kAttrs[] = {
    row<ConvAttrs, &ConvAttrs::out_dtype>(),
    row<ConvTransposeAttrs, &ConvTransposeAttrs::out_dtype>(),
    row<DenseAttrs, &DenseAttrs::out_dtype>(),
    row<MatmulAttrs, &MatmulAttrs::out_dtype>(),
    row<BatchMatmulAttrs, &BatchMatmulAttrs::out_dtype>(),
    row<ResizeAttrs, &ResizeAttrs::out_dtype>(),
    row<CastAttrs, &CastAttrs::dtype>(),
    row<InitAttrs, &InitAttrs::dtype>(),
    row<DtypeAttrs, &DtypeAttrs::dtype>(),
    row<OneHotAttrs, &OneHotAttrs::dtype>(),
    row<ScanAttrs, &ScanAttrs::dtype>(),
};

/// zeros and ones are float32 unless told otherwise.
NodeRef widened_call(const NodeRef& node, const Call& call) {
  if (call.callee.as<PrimFunc>() || call.callee.as<ExternFunc>())
    fail("float64: the model calls a tensor program or a library function, which computes as it is written");
  const auto* op = call.callee.as<OpNode>();
  if (op && op->name.starts_with("qnn."))
    fail("float64: the model is quantized ({}): its results are those of its integers", op->name);
  const auto* init = call.attrs.as<InitAttrs>();
  if (!op || !call.args.empty() || !init || init->dtype) return node;
  auto attrs = mutate(*init);
  attrs->dtype = kFloat64;
  auto copy = mutate(call);
  copy->attrs = seal(std::move(attrs));
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
  // Attributes of other operators name no type of real numbers.
  const auto* attrs = std::find_if(std::begin(kAttrs), std::end(kAttrs),
                                   [&](const AttrsRow& r) { return r.type == &node->type(); });
  return attrs == std::end(kAttrs) ? node : attrs->widen(node);
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
