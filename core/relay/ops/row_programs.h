// Statements that programs over one row are made of.
#pragma once

#include <functional>

#include "core/relay/ops/rule.h"

namespace lathe::relay::ops {

/// Elements of a vector in them.
inline constexpr int64_t kLanes = 16;

/// A number that a program changes.
class Cell {
 public:
  Cell(const char* name, DataType dtype) : buffer_(tir::buffer(name, {Expr(1)}, dtype, tir::Scope::kLocal)) {}
  Expr value() const { return load(buffer_, {Expr(0)}); }
  tir::Stmt set(const Expr& value) const { return tir::store(buffer_, {Expr(0)}, value); }
  const Buffer& buffer() const { return buffer_; }

 private:
  Buffer buffer_;
};

inline bool is_zero(const Expr& e) { return as_int(e) && int_value(e) == 0; }

inline tir::Stmt in_lanes(const std::function<tir::Stmt(const Expr& lane)>& body) {
  const Var lane = lathe::var("lane");
  return tir::for_loop(lane, kLanes, body(lane), tir::Iteration::kVectorized);
}

inline tir::Stmt loop(const char* name, const Expr& extent,
                      const std::function<tir::Stmt(const Expr& i)>& body,
                      tir::Iteration iteration = tir::Iteration::kSerial) {
  const Var i = lathe::var(name);
  return tir::for_loop(i, extent, body(i), iteration);
}

/// `body`, a store, for each element below `extent`.
inline tir::Stmt in_vectors(const Expr& extent, const std::function<tir::Stmt(const Expr& i)>& body) {
  const Expr whole = floordiv(extent, Expr(kLanes)), rest = floormod(extent, Expr(kLanes));
  std::vector<tir::Stmt> parts;
  if (!is_zero(whole))
    parts.push_back(loop("v", whole, [&](const Expr& v) {
      return in_lanes([&](const Expr& lane) { return body(v * kLanes + lane); });
    }));
  if (!is_zero(rest))
    parts.push_back(in_lanes(
        [&](const Expr& lane) { return make<tir::If>(less(lane, rest), body(lane + whole * kLanes)); }));
  return tir::seq(std::move(parts));
}

inline Expr vectors_of(const Expr& elements) { return floordiv(elements + (kLanes - 1), kLanes); }

/// `body`, which stores, for each number below `end`.
inline tir::Stmt for_vectors(const Expr& end, const std::function<tir::Stmt(const Expr& i)>& body) {
  return loop("v", vectors_of(end), [&](const Expr& v) {
    return in_lanes([&](const Expr& lane) {
      const Expr i = v * kLanes + lane;
      return make<tir::If>(less(i, end), body(i));
    });
  });
}

/// `step` so often, or until `goes_on` is false, which then stays so. The language has no loop that ends
/// early: many turns at once are asked whether there is anything left to do.
inline tir::Stmt repeat(const Expr& times, const Expr& goes_on, const tir::Stmt& step) {
  constexpr int64_t kAtOnce = 32;
  return loop("many", ceildiv(times, Expr(kAtOnce)), [&](const Expr&) {
    return make<tir::If>(goes_on,
                         loop("one", kAtOnce, [&](const Expr&) { return make<tir::If>(goes_on, step); }));
  });
}

/// `halve` for lanes and as many behind them, until one is left.
inline tir::Stmt fold_lanes(const std::function<tir::Stmt(const Expr& lane, const Expr& other)>& halve) {
  std::vector<tir::Stmt> steps;
  for (int64_t half = kLanes / 2; half > 0; half /= 2) {
    const Var lane = lathe::var("lane");
    steps.push_back(tir::for_loop(lane, half, halve(lane, Expr(lane) + half),
                                  half > 1 ? tir::Iteration::kVectorized : tir::Iteration::kSerial));
  }
  return tir::seq(std::move(steps));
}

/// `body` for each element of `vectors` vectors, which may be registers.
inline tir::Stmt in_registers(int64_t vectors, const std::function<tir::Stmt(const Expr& i)>& body) {
  return loop(
      "v", vectors,
      [&](const Expr& v) { return in_lanes([&](const Expr& lane) { return body(v * kLanes + lane); }); },
      tir::Iteration::kUnrolled);
}

}  // namespace lathe::relay::ops
