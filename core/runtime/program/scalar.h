// Numbers in registers: tensors of rank 0, as the operators of Relay compute with them.
#pragma once

#include <optional>
#include <string_view>

#include "core/runtime/program/program.h"

namespace lathe::runtime {

/// A number of one of the element types: integers and booleans as int64 (of 64 bits without a sign: the same
/// bits), others as double, rounded to their type.
union Number {
  int64_t integer;
  double real;
};

/// The operator of that name, where it has an instruction for numbers of `dtype`. Remainders and roundings of
/// floats have none, nor have floats of 16 bits.
std::optional<ScalarOp> find_scalar_op(std::string_view name, DataType dtype);
std::string_view scalar_op_name(ScalarOp op);
int scalar_op_args(ScalarOp op);
/// Of the result. kCast says it itself.
DataType scalar_result_type(ScalarOp op, DataType dtype);

/// As the operators define it: integers wrap, division by 0 gives 0. kSelect takes a, b where c, kCast is
/// cast_number.
Number compute_scalar(ScalarOp op, DataType dtype, Number a, Number b);
/// Floats are truncated toward zero; what the type does not hold becomes its nearest value, NaN zero.
Number cast_number(DataType from, DataType to, Number a);

/// A number in memory.
Number load_number(DataType dtype, const void* from);
void store_number(DataType dtype, Number number, void* to);

/// A small number for a type, and back; nothing for none. For instructions.
int64_t dtype_number(DataType dtype);
std::optional<DataType> dtype_of_number(int64_t number);
/// Whether there are numbers of the type.
bool is_number_type(DataType dtype);

}  // namespace lathe::runtime
