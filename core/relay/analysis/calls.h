// What passes ask of calls and their operands, and the calls that many of them write.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "core/relay/op.h"

namespace lathe::relay {

/// The operator that `e` calls, or null.
const Op* operator_of(const Expr& e);
/// `e` where it calls the operator named, else null.
const Call* call_of(const Expr& e, std::string_view name);
/// Whether it multiplies by one matrix: nn.dense, nn.matmul, and nn.contrib_dense_pack.
bool is_matrix_product(const Call& call);
/// Whether both are tensors of one shape. Structurally: two symbolic dimensions that happen to be equal are
/// not known to be.
bool same_shape(const Expr& a, const Expr& b);
/// The number that all elements of a constant are; nothing for other expressions, and where it has none.
std::optional<double> filled_value(const Expr& e);
/// Whether that is exactly `value`: constants of exporters are written, not computed.
bool is_filled_with(const Expr& e, double value);

// Typed calls of these operators. REQUIRES: types of the operands.
Expr cast(const Expr& e, DataType dtype);  // `e` itself where it has the type
Expr reshape(const Expr& e, std::vector<int64_t> shape);
Expr transpose(const Expr& e, std::vector<int64_t> axes);

}  // namespace lathe::relay
