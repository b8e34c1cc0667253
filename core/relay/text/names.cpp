#include "core/relay/text/names.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/relay/text.h"
#include "core/relay/text/attrs_text.h"
#include "core/relay/text/lexer.h"
#include "core/support/stack.h"

namespace lathe::relay {
namespace {

constexpr int64_t kLargestLiteral = 16;  // elements

constexpr const char* kKindNames[] = {"Type", "Shape", "BaseType", "Constraint", "AdtHandle"};

/// Types whose elements can be told by a number and a suffix.
bool has_literal(DataType type) {
  return type.lanes == 1 && (type.is_float() || type.is_bool() || (type.is_int() && type.bits >= 8));
}

/// What a literal of the type ends in: 1 is int32, 1f float32, 1i64 int64.
std::string suffix(DataType type) {
  if (type == kFloat32) return "f";
  if (type == kInt32 || type.is_bool()) return "";
  const char* code = type.code == TypeCode::kInt     ? "i"
                     : type.code == TypeCode::kUInt  ? "u"
                     : type.code == TypeCode::kFloat ? "f"
                                                     : "bf";
  return fmt::format("{}{}", code, type.bits);
}

std::string item_text(const Tensor& tensor, int64_t i) {
  DataType type = tensor.dtype();
  if (type.is_bool()) return tensor.integer(i) ? "True" : "False";
  if (!type.is_float()) {
    int64_t value = tensor.integer(i);
    return (type == kUInt64 ? fmt::format("{}", static_cast<uint64_t>(value)) : fmt::format("{}", value)) +
           suffix(type);
  }
  double value = tensor.value(i);
  if (!std::isfinite(value))
    return (std::signbit(value) ? "-" : "") + std::string(std::isinf(value) ? "inf" : "nan") + suffix(type);
  if (type.bits == 64) return fmt::format("{}{}", value, suffix(type));
  // The reader goes through double, which may round the shortest text to the other side.
  float narrow = static_cast<float>(value);
  std::string text = fmt::format("{}", narrow);
  if (static_cast<float>(std::stod(text)) != narrow) text = fmt::format("{:.9g}", narrow);
  return text + suffix(type);
}

/// Of which a literal would make the usual one.
bool has_other_nans(const Tensor& tensor) {
  if (!tensor.dtype().is_float() || tensor.size() > kLargestLiteral) return false;
  Tensor usual({1}, tensor.dtype());
  const int64_t bytes = usual.bytes();
  for (int64_t i = 0; i < tensor.size(); ++i) {
    const double value = tensor.value(i);
    if (!std::isnan(value)) continue;
    usual.set(0, std::copysign(std::numeric_limits<double>::quiet_NaN(), value));
    if (std::memcmp(usual.data(), static_cast<const char*>(tensor.data()) + i * bytes,
                    static_cast<size_t>(bytes)) != 0)
      return true;
  }
  return false;
}

/// [[1, 2], [3, 4]]. `next` counts elements in row-major order.
std::string nested_text(const Tensor& tensor, size_t axis, int64_t& next) {
  if (axis == tensor.shape().size()) return item_text(tensor, next++);
  std::string text = "[";
  for (int64_t i = 0; i < tensor.shape()[axis]; ++i)
    text += (i ? ", " : "") + nested_text(tensor, axis + 1, next);
  return text + "]";
}

/// Operators on dimensions that are written as functions; null for those between operands.
const char* dim_function(BinaryOp op) {
  switch (op) {
    case BinaryOp::kFloorDiv:
      return "floordiv";
    case BinaryOp::kFloorMod:
      return "floormod";
    case BinaryOp::kMin:
      return "min";
    case BinaryOp::kMax:
      return "max";
    default:
      return nullptr;
  }
}

}  // namespace

const char* kind_name(Kind kind) { return kKindNames[static_cast<int>(kind)]; }

std::string print_value(const Tensor& value) {
  if (!has_literal(value.dtype()) || value.size() == 0 || value.size() > kLargestLiteral) return "";
  if (value.shape().size() > 8) return "";
  int64_t next = 0;
  return nested_text(value, 0, next);
}

std::string print_literal(const Tensor& value) { return has_other_nans(value) ? "" : print_value(value); }

std::string UniqueNames::add(std::string wanted, bool is_variable) {
  // %0 is a graph binding, so no variable's name begins with a digit.
  if (wanted.empty() || std::isdigit(static_cast<unsigned char>(wanted[0]))) wanted = "v" + wanted;
  if (!is_variable)
    for (char& c : wanted)
      if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  // Each round replaces the first character that ends the name too early, so the lexer reads it back as one.
  for (size_t length; (length = variable_name_length(wanted)) < wanted.size();) wanted[length] = '_';
  std::string name = wanted;
  // Remembered for each name: a thousand %x would else try a thousand suffixes each.
  int& suffix = next_suffix_[wanted];
  while (has(name)) name = fmt::format("{}_{}", wanted, ++suffix);
  used_.insert(name);
  return name;
}

std::string TypeNames::type_var(const TypeVarNode* variable) {
  auto [found, is_new] = named_.try_emplace(variable);
  if (is_new) {
    // These words mean something where a type is expected.
    for (const char* keyword : {"Tensor", "Shape", "fn", "ref", "_"}) type_names_.reserve(keyword);
    // A variable named float32 would be read as the type.
    bool is_dtype = parse_dtype(variable->name).has_value();
    found->second = type_names_.add((is_dtype ? "T" : "") + variable->name, false);
  }
  return found->second;
}

std::string TypeNames::type_params(const std::vector<TypeVar>& params) {
  if (params.empty()) return "";
  std::string text;
  for (const TypeVar& each : params) {
    text += (text.empty() ? "[" : ", ") + type_var(each.get());
    if (each->of != Kind::kType) text += fmt::format(": {}", kind_name(each->of));
  }
  return text + "]";
}

std::string TypeNames::dim(const lathe::Expr& e, bool nested) {
  if (const int64_t* value = as_int(e)) return fmt::format("{}", *value);
  if (e.as<Any>()) return "?";
  if (const lathe::VarNode* variable = e.as<lathe::VarNode>()) {
    auto [found, is_new] = named_.try_emplace(variable);
    if (is_new) found->second = dim_names_.add(variable->name, false);
    return found->second;
  }
  const Binary* b = e.as<Binary>();
  CHECK(b, "a dimension is a {}", e->type().name);
  if (const char* function = dim_function(b->op))
    return fmt::format("{}({}, {})", function, dim(b->a), dim(b->b));
  // Parentheses around every nested sum: what is read back nests the same.
  std::string text = fmt::format("{} {} {}", dim(b->a, true), spelling(b->op), dim(b->b, true));
  return nested ? "(" + text + ")" : text;
}

std::string TypeNames::type(const Type& type) {
  std::string text;
  append(text, type);
  return text;
}

std::string TypeNames::constraints(const std::vector<Type>& constraints) {
  if (constraints.empty()) return "";
  std::string text = " where (";
  append_list(text, constraints);
  return text + ")";
}

void TypeNames::append_list(std::string& text, const std::vector<Type>& types) {
  for (size_t i = 0; i < types.size(); ++i) {
    if (i) text += ", ";
    append(text, types[i]);
  }
}

void TypeNames::append_dims(std::string& text, const std::vector<lathe::Expr>& dims) {
  text += "(";
  for (size_t i = 0; i < dims.size(); ++i) text += (i ? ", " : "") + dim(dims[i]);
  text += ")";
}

/// To the end of one text, since types nest as deep as a program makes them.
void TypeNames::append(std::string& text, const Type& type) {
  with_enough_stack([&] { append_once(text, type); });
}

void TypeNames::append_once(std::string& text, const Type& type) {
  if (!type) {
    text += "_";
    return;
  }
  switch (type->kind()) {
    case TypeKind::kTensor: {
      const TensorType& tensor = *type.as<TensorType>();
      if (tensor.shape.empty()) {
        text += to_string(tensor.dtype);
        return;
      }
      text += "Tensor[";
      append_dims(text, tensor.shape);
      text += ", " + to_string(tensor.dtype) + "]";
      return;
    }
    case TypeKind::kShape:
      text += "Shape";
      return append_dims(text, type.as<ShapeType>()->dims);
    case TypeKind::kGenericTensor: {
      const GenericTensorType& tensor = *type.as<GenericTensorType>();
      text += "Tensor[";
      if (const ShapeType* shape = tensor.shape.as<ShapeType>())
        append_dims(text, shape->dims);
      else
        append(text, tensor.shape);
      text += ", ";
      append(text, tensor.base);
      text += "]";
      return;
    }
    case TypeKind::kTuple: {
      const TupleType& tuple = *type.as<TupleType>();
      text += "(";
      append_list(text, tuple.items);
      text += tuple.items.size() == 1 ? ",)" : ")";
      return;
    }
    case TypeKind::kFunction: {
      const FuncType& func = *type.as<FuncType>();
      text += "fn " + type_params(func.type_params) + "(";
      append_list(text, func.params);
      text += ") -> ";
      append(text, func.result);
      text += constraints(func.constraints);
      return;
    }
    case TypeKind::kVariable:
      text += type_var(type.as<TypeVarNode>());
      return;
    case TypeKind::kHole:
      text += "_";
      return;
    case TypeKind::kReference:
      text += "ref(";
      append(text, type.as<RefType>()->value);
      text += ")";
      return;
    case TypeKind::kGlobal:
      text += type.as<GlobalTypeVarNode>()->name;
      return;
    case TypeKind::kCall: {
      const TypeCall& call = *type.as<TypeCall>();
      text += call.callee->name;
      if (call.args.empty()) return;
      text += "[";
      append_list(text, call.args);
      text += "]";
      return;
    }
    case TypeKind::kRelation: {
      const RelationType& relation = *type.as<RelationType>();
      text += relation.op + "(";
      append_list(text, relation.args);
      const std::string attrs = print_attrs(relation.attrs);
      text += (relation.args.empty() || attrs.empty() ? "" : ", ") + attrs + ") -> ";
      return append(text, relation.result);
    }
  }
  CHECK(false, "type of kind {}", type->kind_id());
}

std::string print(const Type& type) { return TypeNames().type(type); }
std::string print(const lathe::Expr& dim) { return TypeNames().dim(dim); }

}  // namespace lathe::relay
