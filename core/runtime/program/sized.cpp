#include "core/runtime/program/sized.h"

#include <algorithm>
#include <cstring>

#include "core/runtime/most_bytes.h"
#include "core/runtime/program/machine.h"
#include "core/support/error.h"
#include "core/support/shape_fault.h"

namespace lathe::runtime {
namespace {

/// In the order of SizedOp.
constexpr std::string_view kNames[] = {"extent", "first_rows", "reshape_to", "zeros_of", "match_shape"};
static_assert(std::size(kNames) == static_cast<size_t>(kLastSizedOp) + 1);

}  // namespace

std::optional<SizedOp> find_sized_op(std::string_view name) {
  const auto* found = std::find(std::begin(kNames), std::end(kNames), name);
  if (found == std::end(kNames)) return std::nullopt;
  return static_cast<SizedOp>(found - std::begin(kNames));
}

std::string_view sized_op_name(SizedOp op) { return kNames[static_cast<size_t>(op)]; }

bool takes_sizes(SizedOp op, size_t args) {
  switch (op) {
    case SizedOp::kExtent:
      return args == 1;
    case SizedOp::kFirstRows:
      return args == 2;
    case SizedOp::kZerosOf:
      return true;
    case SizedOp::kReshapeTo:
    case SizedOp::kMatchShape:
      return args > 0;
  }
  return false;
}

bool may_fail(SizedOp op) { return op != SizedOp::kExtent; }

bool append_sizes(std::span<const Datum> args, int64_t least, std::vector<int64_t>& sizes) {
  for (const Datum& arg : args) {
    if (arg.kind != Kind::kNumber) return false;
    const DataType dtype = arg.dtype();
    if (dtype.code != TypeCode::kInt && dtype.code != TypeCode::kUInt) return false;
    if (arg.number.integer < least) fail("a size is {}, must be at least {}", arg.number.integer, least);
    sizes.push_back(arg.number.integer);
  }
  return true;
}

int64_t checked_bytes(const std::vector<int64_t>& shape, DataType dtype) {
  int64_t bytes = dtype.bytes();
  for (int64_t dim : shape)
    if (__builtin_mul_overflow(bytes, dim, &bytes) || bytes > kMostBytes)
      fail("a tensor of shape {} is too large", shape_text(shape));
  return bytes;
}

/// The beginning of a tensor's memory, or of a number's, under another type.
Datum Machine::view_of(const Datum& whole, const std::vector<int64_t>& shape, DataType dtype) {
  const uint32_t type = type_number(shape, dtype);
  if (whole.kind == Kind::kNumber) {
    if (shape.empty()) return whole;
    TensorObject* object = heap_.make_tensor(types_[type].bytes);
    store_number(dtype, whole.number, object->data);
    return Datum::of(Kind::kTensor, type, &object->head);
  }
  auto* object = reinterpret_cast<TensorObject*>(whole.object);
  return number_or_view(type, object->data, memory_of(object));
}

/// The arguments stay the caller's. False when they are not what the operator takes.
bool Machine::sized(const Instruction& i, std::span<const Datum> args, Datum& result) {
  // Loops over lengths come here in each iteration: the memory of the last call does again.
  std::vector<int64_t>& sizes = sizes_;
  sizes.clear();
  if (i.sized == SizedOp::kZerosOf) {
    if (!append_sizes(args, 0, sizes)) return false;
    const int64_t bytes = checked_bytes(sizes, i.dtype);
    const uint32_t type = type_number(sizes, i.dtype);
    if (sizes.empty()) {
      result = Datum::of(i.dtype, Number{});
      return true;
    }
    TensorObject* object = heap_.make_tensor(bytes);
    if (bytes > 0) std::memset(object->data, 0, static_cast<size_t>(bytes));
    result = Datum::of(Kind::kTensor, type, &object->head);
    return true;
  }
  const Datum& whole = args[0];
  if (whole.kind != Kind::kTensor && whole.kind != Kind::kNumber) return false;
  const bool is_number = whole.kind == Kind::kNumber;
  const DataType dtype = is_number ? whole.dtype() : types_[whole.tag].dtype;
  static const std::vector<int64_t> of_number;
  // Good until a new type moves the others.
  const std::vector<int64_t>& shape = is_number ? of_number : types_[whole.tag].shape;
  if (!append_sizes(args.subspan(1), i.sized == SizedOp::kMatchShape ? -1 : 0, sizes)) return false;
  switch (i.sized) {
    case SizedOp::kExtent:
      if (i.number >= static_cast<int64_t>(shape.size())) return false;
      result = Datum::of(kInt64, {.integer = shape[static_cast<size_t>(i.number)]});
      return true;
    case SizedOp::kFirstRows: {
      if (shape.empty()) return false;
      if (sizes[0] > shape[0]) fail("{} rows of {}", sizes[0], shape_text(shape));
      sizes.insert(sizes.end(), shape.begin() + 1, shape.end());
      result = view_of(whole, sizes, dtype);
      return true;
    }
    case SizedOp::kReshapeTo: {
      const int64_t have = shape_size(shape), want = checked_bytes(sizes, dtype) / dtype.bytes();
      if (have != want)
        fail("shape {} has {} elements, {} has {}", shape_text(shape), have, shape_text(sizes), want);
      result = view_of(whole, sizes, dtype);
      return true;
    }
    case SizedOp::kMatchShape:
      if (sizes.size() != shape.size()) return false;
      if (const std::string fault = shape_fault(shape, sizes); !fault.empty()) throw Error(fault);
      Heap::retain(whole);
      result = whole;
      return true;
    case SizedOp::kZerosOf:
      break;
  }
  return false;
}

/// The same, with the place in an error.
bool Machine::sized_at_place(const Instruction& i, std::span<const Datum> args, Datum& result) {
  try {
    return sized(i, args, result);
  } catch (const Error& error) {
    const bool is_check = i.sized == SizedOp::kMatchShape;
    throw Error(fmt::format("{}{}{}{}",
                            may_fail(i.sized) ? program_.messages[static_cast<size_t>(i.number)] : "",
                            is_check ? "" : sized_op_name(i.sized), is_check ? "" : ": ", error.what()));
  }
}

void Machine::sized_step(const Instruction& i) {
  plan_args_.clear();
  for (int32_t arg : i.args) plan_args_.push_back(peek(arg));
  Datum result;
  if (!sized_at_place(i, plan_args_, result)) fault(Fault::kSized);
  for (int32_t arg : i.args) done(arg);
  set(i.results[0], result);
}

}  // namespace lathe::runtime
