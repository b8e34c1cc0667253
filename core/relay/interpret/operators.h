// Operators on values, by the tensor programs that are their meaning.
#pragma once

#include <map>

#include "core/relay/interpret/value.h"
#include "core/tir/stmt.h"

namespace lathe::relay {

class Operators {
 public:
  /// The result of an operator's call. Its type relation runs again over the arguments' extents, which
  /// decides what inference could not. Throws Error. REQUIRES: the arguments are tensors and tuples of them.
  Value run(const Call& call, const std::vector<Value>& args);

 private:
  struct Program {
    Type result;     // of constant shapes
    tir::Func func;  // null: the result depends on the values of arguments, and is computed by themselves
  };
  Program program(const Call& call, const std::vector<Type>& args);

  // By the operator, its attributes (the node) and the types of its arguments: a loop lowers what it calls
  // once.
  std::map<std::string, Program> programs_;
  std::vector<Attrs> keep_alive_;
};

/// The type of a tensor, or of a tuple of such. Throws Error for other values.
Type type_of(const Value& value);

/// The tensors of a value, tuples flattened.
void append_tensors(const Value& value, std::vector<Tensor>& tensors);

/// The inverse: `tensors` from `next` on as a value of `type`.
Value value_of(const Type& type, const std::vector<Tensor>& tensors, size_t& next);

}  // namespace lathe::relay
