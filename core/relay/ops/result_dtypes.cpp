#include "core/relay/ops/result_dtypes.h"

#include <algorithm>

#include "core/relay/ops/attrs_nn.h"
#include "core/relay/ops/attrs_tensor.h"

namespace lathe::relay {
namespace {

using Change = FunctionRef<DataType(DataType)>;

template <typename A, auto kDtype>
Attrs changed(const Attrs& attrs, Change of) {
  const A& given = *attrs.as<A>();
  std::optional<DataType> dtype = given.*kDtype;
  if (!dtype || !dtype->is_float() || of(*dtype) == *dtype) return attrs;
  auto copy = mutate(given);
  copy.get()->*kDtype = of(*dtype);
  return seal(std::move(copy));
}

struct Row {
  const NodeType* type;
  Attrs (*change)(const Attrs& attrs, Change of);
};
template <typename A, auto kDtype>
constexpr Row row() {
  return {&A::kType, changed<A, kDtype>};
}

/// But those whose type is always an integer (sort, topk, qnn).
constexpr Row kRows[] = {
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

}  // namespace

Attrs with_real_dtypes(const Attrs& attrs, Change of) {
  if (!attrs) return attrs;
  const auto* found = std::find_if(std::begin(kRows), std::end(kRows),
                                   [&](const Row& r) { return r.type == &attrs->type(); });
  return found == std::end(kRows) ? attrs : found->change(attrs, of);
}

}  // namespace lathe::relay
