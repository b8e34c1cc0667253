#include "workers/probe_kernels.h"

namespace lathe::worker {
namespace {
using tir::Buffer, tir::Iteration, tir::Stmt, tir::for_loop, tir::load, tir::store;

constexpr int64_t kSteps = 32, kPasses = 16;  // over the data: half of a small first-level cache

struct Shape {
  int rows, columns;  // of sums
  int64_t steps, passes;
};

/// `kind.terms` products of neighbours, in the form that code generation knows as a dot product.
Expr product(const ProductKind& kind, const Buffer& weight, int column, const Buffer& data, const Expr& step,
             int row, int lanes) {
  const DataType wide = kind.sum.with_lanes(lanes);
  Expr sum;
  for (int term = 0; term < kind.terms; ++term) {
    Expr same = load(weight, {column, term});
    Expr each = load(data, {step, row, ramp(Expr(term), Expr(kind.terms), lanes)});
    if (kind.terms > 1) same = cast(kind.sum, same), each = cast(wide, each);
    Expr next = broadcast(same, lanes) * each;
    sum = sum ? sum + next : next;
  }
  return sum;
}

ProbeKernel sums_probe(std::string name, const ProductKind& kind, int lanes, const Shape& shape) {
  Buffer weight = tir::buffer("weight", {shape.columns, kind.terms}, kind.weight),
         data = tir::buffer("data", {shape.steps, shape.rows, int64_t{lanes} * kind.terms}, kind.data),
         out = tir::buffer("out", {shape.rows, shape.columns, lanes}, kind.sum),
         sums = tir::buffer("sums", {shape.rows, shape.columns, lanes}, kind.sum, tir::Scope::kLocal);
  const Expr vector = ramp(Expr(0), Expr(1), lanes);
  auto each_sum = [&](auto value) {
    std::vector<Stmt> stmts;
    for (int row = 0; row < shape.rows; ++row)
      for (int column = 0; column < shape.columns; ++column) stmts.push_back(value(row, column));
    return tir::seq(stmts);
  };
  Var pass = var("pass"), step = var("step");
  Stmt init = each_sum([&](int row, int column) {
    return store(sums, {row, column, vector}, load(out, {row, column, vector}));
  });
  Stmt add = each_sum([&](int row, int column) {
    return store(sums, {row, column, vector},
                 load(sums, {row, column, vector}) + product(kind, weight, column, data, step, row, lanes));
  });
  Stmt finish = each_sum([&](int row, int column) {
    return store(out, {row, column, vector}, load(sums, {row, column, vector}));
  });
  Stmt loops = for_loop(pass, shape.passes, for_loop(step, shape.steps, add));
  ProbeKernel probe{.func = make<tir::FuncNode>(std::move(name), std::vector{weight, data, out}, int64_t{1},
                                                make<tir::Alloc>(sums, tir::seq({init, loops, finish})))};
  probe.instructions = static_cast<double>(shape.passes * shape.steps * shape.rows * shape.columns);
  return probe;
}

ProbeKernel additions_probe(std::string name, int lanes, int64_t bytes, int64_t passes, Iteration iteration) {
  constexpr int kSums = 8;
  const int64_t groups = bytes / (int64_t{kSums} * lanes * 4);
  Buffer data = tir::buffer("data", {groups, kSums, lanes}, kInt32),
         out = tir::buffer("out", {kSums, lanes}, kInt32),
         sums = tir::buffer("sums", {kSums, lanes}, kInt32, tir::Scope::kLocal);
  const Expr vector = ramp(Expr(0), Expr(1), lanes);
  auto each_sum = [](auto value) {
    std::vector<Stmt> stmts;
    for (int i = 0; i < kSums; ++i) stmts.push_back(value(i));
    return tir::seq(stmts);
  };
  auto add = [&](const Expr& group) {
    return each_sum([&](int i) {
      return store(sums, {i, vector}, load(sums, {i, vector}) + load(data, {group, i, vector}));
    });
  };
  Stmt init = each_sum([&](int i) { return store(sums, {i, vector}, load(out, {i, vector})); });
  Stmt finish = each_sum([&](int i) { return store(out, {i, vector}, load(sums, {i, vector})); });
  Var pass = var("pass"), group = var("group");
  std::vector<Stmt> unrolled;
  if (iteration == Iteration::kUnrolled)
    for (int64_t g = 0; g < groups; ++g) unrolled.push_back(add(g));
  Stmt once = unrolled.empty() ? for_loop(group, groups, add(group)) : tir::seq(unrolled);
  Stmt body = make<tir::Alloc>(sums, tir::seq({init, for_loop(pass, passes, once), finish}));
  ProbeKernel probe{.func = make<tir::FuncNode>(std::move(name), std::vector{data, out}, int64_t{1}, body)};
  probe.instructions = static_cast<double>(passes * groups * kSums);
  probe.bytes_read = static_cast<double>(passes * groups * kSums * lanes * 4);
  return probe;
}
}  // namespace

ProbeKernel products_probe(std::string name, const ProductKind& kind, int bits, int registers) {
  // Data is loaded once for each row and step: half as many loads as products, or a third.
  const Shape shape = registers >= 32 ? Shape{8, 3, kSteps, kPasses} : Shape{6, 2, kSteps, kPasses};
  return sums_probe(std::move(name), kind, bits / 32, shape);
}

ProbeKernel latency_probe(std::string name, int bits) {
  return sums_probe(std::move(name), kProductKinds[0], bits / 32, {1, 1, 8 * kSteps, kPasses});
}

ProbeKernel reading_probe(std::string name, int bits, int64_t bytes) {
  return additions_probe(std::move(name), bits / 32, bytes, 1, Iteration::kSerial);
}

ProbeKernel loads_probe(std::string name, int bits) {
  return additions_probe(std::move(name), bits / 32, 2048, 128, Iteration::kUnrolled);
}

}  // namespace lathe::worker
