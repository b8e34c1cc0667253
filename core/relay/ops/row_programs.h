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

/// `body` for each element of `vectors` vectors, which may be registers.
inline tir::Stmt in_registers(int64_t vectors, const std::function<tir::Stmt(const Expr& i)>& body) {
  return loop(
      "v", vectors,
      [&](const Expr& v) { return in_lanes([&](const Expr& lane) { return body(v * kLanes + lane); }); },
      tir::Iteration::kUnrolled);
}

}  // namespace lathe::relay::ops
