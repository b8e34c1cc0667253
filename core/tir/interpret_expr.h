// Expressions compiled to trees of small objects, for the interpreter. Internal to core/tir.
#pragma once

#include <memory>
#include <unordered_map>

#include "core/support/tensor.h"
#include "core/tir/stmt.h"

namespace lathe::tir {

/// The memory behind a buffer while it lives.
struct Memory {
  const BufferNode* buffer = nullptr;
  std::vector<int64_t> shape;
  Tensor tensor;
  bool tracked = false;          // outputs and intermediates: reads before writes are errors
  std::vector<uint8_t> written;  // of tracked memory, one flag an element
};

/// Values of variables and memory of buffers, by slot.
struct State {
  std::vector<int64_t> vars;
  std::vector<Memory> buffers;
  std::vector<uint8_t> mask;  // the lanes that vector stores write; empty: all
};

/// A compiled expression. Vectors are evaluated lane by lane; scalars ignore `lane`.
struct IntCode {
  virtual ~IntCode() = default;
  virtual int64_t run(State& state, int lane) const = 0;
};
struct FloatCode {
  virtual ~FloatCode() = default;
  virtual double run(State& state, int lane) const = 0;
};
using IntPtr = std::unique_ptr<IntCode>;
using FloatPtr = std::unique_ptr<FloatCode>;

/// Where an element is: the flat offset of indices, each checked against its dimension.
class Address {
 public:
  Address(int buffer, std::vector<IntPtr> indices) : buffer_(buffer), indices_(std::move(indices)) {}
  Memory& memory(State& state) const { return state.buffers[buffer_]; }
  int64_t offset(State& state, int lane) const;

 private:
  int buffer_;
  std::vector<IntPtr> indices_;
};

class ExprCompiler {
 public:
  int slot_of(const VarNode* v);
  int slot_of(const BufferNode* b);
  /// Integers and bools. Values are kept sign- or zero-extended from their type.
  IntPtr compile_int(const Expr& e);
  /// Floats. Values are kept rounded to their type.
  FloatPtr compile_float(const Expr& e);
  Address compile_address(const Buffer& buffer, const std::vector<Expr>& indices);
  size_t var_count() const { return vars_.size(); }
  size_t buffer_count() const { return buffers_.size(); }

 private:
  IntPtr compile_compare(const Binary& e);
  std::unordered_map<const VarNode*, int> vars_;
  std::unordered_map<const BufferNode*, int> buffers_;
};

/// A value as a number of type `type`: integers wrap, floats round to nearest even.
int64_t wrap_to(DataType type, int64_t value);
double round_to(DataType type, double value);

}  // namespace lathe::tir
