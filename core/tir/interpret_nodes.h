// The pieces that integer and float code share. Internal to the interpreter.
#pragma once

#include "core/tir/interpret_expr.h"

namespace lathe::tir {

inline bool is_unsigned_64(DataType t) { return t.code == TypeCode::kUInt && t.bits == 64; }

/// Throws Error: the element at `offset` was never written.
[[noreturn, gnu::cold]] void fail_read_before_write(const Memory& memory, int64_t offset);

template <typename Code, typename Value>
struct SelectCode final : Code {
  using Pointer = std::unique_ptr<Code>;
  SelectCode(IntPtr c, Pointer x, Pointer y) : condition(std::move(c)), a(std::move(x)), b(std::move(y)) {}
  Value run(State& state, int lane) const override {
    return (condition->run(state, lane) ? a : b)->run(state, lane);
  }
  IntPtr condition;
  Pointer a, b;
};

template <typename Code, typename Value>
struct BroadcastCode final : Code {
  explicit BroadcastCode(std::unique_ptr<Code> v) : value(std::move(v)) {}
  Value run(State& state, int) const override { return value->run(state, 0); }
  std::unique_ptr<Code> value;
};

/// `T` is what the element is stored as.
template <typename T>
struct LoadInt final : IntCode {
  explicit LoadInt(Address a) : address(std::move(a)) {}
  int64_t run(State& state, int lane) const override {
    int64_t at = address.offset(state, lane);
    const Memory& memory = address.memory(state);
    if (memory.tracked && !memory.written[at]) fail_read_before_write(memory, at);
    return static_cast<int64_t>(static_cast<const T*>(memory.tensor.data())[at]);
  }
  Address address;
};
template <typename T>
struct LoadFloat final : FloatCode {
  LoadFloat(Address a, DataType t) : address(std::move(a)), type(t) {}
  double run(State& state, int lane) const override {
    int64_t at = address.offset(state, lane);
    const Memory& memory = address.memory(state);
    if (memory.tracked && !memory.written[at]) fail_read_before_write(memory, at);
    T value = static_cast<const T*>(memory.tensor.data())[at];
    if constexpr (sizeof(T) == 2)
      return type.code == TypeCode::kBFloat ? bfloat_to_float(value) : half_to_float(value);
    return value;
  }
  Address address;
  DataType type;
};

template <typename F>
struct FloatToInt final : IntCode {
  FloatToInt(FloatPtr v, F f) : value(std::move(v)), function(f) {}
  int64_t run(State& state, int lane) const override { return function(value->run(state, lane)); }
  FloatPtr value;
  F function;
};
template <typename F>
struct IntToInt final : IntCode {
  IntToInt(IntPtr v, F f) : value(std::move(v)), function(f) {}
  int64_t run(State& state, int lane) const override { return function(value->run(state, lane)); }
  IntPtr value;
  F function;
};
template <typename F>
struct FloatToFloat final : FloatCode {
  FloatToFloat(FloatPtr v, F f) : value(std::move(v)), function(f) {}
  double run(State& state, int lane) const override { return function(value->run(state, lane)); }
  FloatPtr value;
  F function;
};
template <typename F>
struct IntToFloat final : FloatCode {
  IntToFloat(IntPtr v, F f) : value(std::move(v)), function(f) {}
  double run(State& state, int lane) const override { return function(value->run(state, lane)); }
  IntPtr value;
  F function;
};
template <template <typename> class Code, typename Pointer, typename F>
auto mapped(Pointer value, F f) {
  return std::make_unique<Code<F>>(std::move(value), f);
}

}  // namespace lathe::tir
