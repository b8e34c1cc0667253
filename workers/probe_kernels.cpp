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
    // One element for all lanes: a broadcast, as the inner loops of products have it.
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
  // Data of all steps stays in the first-level cache over the passes.
  Stmt loops = for_loop(pass, shape.passes, for_loop(step, shape.steps, add));
  ProbeKernel probe{.func = make<tir::FuncNode>(std::move(name), std::vector{weight, data, out}, int64_t{1},
                                                make<tir::Alloc>(sums, tir::seq({init, loops, finish})))};
  probe.instructions = static_cast<double>(shape.passes * shape.steps * shape.rows * shape.columns);
  return probe;
}

/// What is added up, and how often.
struct Reading {
  int lanes;
  int64_t bytes;
  int64_t streams = 1, passes = 1;
  Iteration iteration = Iteration::kSerial;
};

ProbeKernel additions_probe(std::string name, const Reading& reading) {
  // Independent of each other, or the latency of an addition would be measured.
  constexpr int kSums = 8;
  const auto& [lanes, bytes, streams, passes, iteration] = reading;
  const int64_t of_each = streams == 1 ? kSums : 1;
  int64_t groups = bytes / (streams * of_each * lanes * 4);
  if (streams > 1 && groups % 2 == 0) --groups;  // they should not meet in one set of a cache
  Buffer data = tir::buffer("data", {streams, groups, of_each, lanes}, kInt32),
         out = tir::buffer("out", {kSums, lanes}, kInt32),
         sums = tir::buffer("sums", {kSums, lanes}, kInt32, tir::Scope::kLocal);
  const Expr vector = ramp(Expr(0), Expr(1), lanes);
  auto each = [](int64_t count, auto value) {
    std::vector<Stmt> stmts;
    for (int64_t i = 0; i < count; ++i) stmts.push_back(value(i));
    return tir::seq(stmts);
  };
  const int64_t of_a_group = streams * of_each;
  auto add = [&](const Expr& group) {
    return each(of_a_group, [&](int64_t i) {
      const Expr read = load(data, {i / of_each, group, i % of_each, vector});
      return store(sums, {i % kSums, vector}, load(sums, {i % kSums, vector}) + read);
    });
  };
  Stmt init = each(kSums, [&](int64_t i) { return store(sums, {i, vector}, load(out, {i, vector})); });
  Stmt finish = each(kSums, [&](int64_t i) { return store(out, {i, vector}, load(sums, {i, vector})); });
  Var pass = var("pass"), group = var("group");
  Stmt once = iteration == Iteration::kUnrolled ? each(groups, [&](int64_t g) { return add(g); })
                                                : for_loop(group, groups, add(group));
  Stmt body = make<tir::Alloc>(sums, tir::seq({init, for_loop(pass, passes, once), finish}));
  ProbeKernel probe{.func = make<tir::FuncNode>(std::move(name), std::vector{data, out}, int64_t{1}, body)};
  probe.instructions = static_cast<double>(passes * groups * streams * of_each);
  probe.bytes_read = probe.instructions * lanes * 4;
  return probe;
}
}  // namespace

/// 24 sums in 32 registers, or 12 in 16: more than two units have in flight, and the rest
/// hold data and weights.
ProbeKernel products_probe(std::string name, const ProductKind& kind, int bits, int registers) {
  // Data is loaded once for each row and step: half as many loads as products, or a third.
  const Shape shape = registers >= 32 ? Shape{8, 3, kSteps, kPasses} : Shape{6, 2, kSteps, kPasses};
  return sums_probe(std::move(name), kind, bits / 32, shape);
}

/// One sum: each product waits for the one before it.
ProbeKernel latency_probe(std::string name, int bits) {
  return sums_probe(std::move(name), kProductKinds[0], bits / 32, {1, 1, 8 * kSteps, kPasses});
}

ProbeKernel reading_probe(std::string name, int bits, int64_t bytes) {
  return additions_probe(std::move(name), {bits / 32, bytes});
}

ProbeKernel streams_probe(std::string name, int bits, int64_t bytes, int streams) {
  return additions_probe(std::move(name), {bits / 32, bytes, streams});
}

/// Unrolled, and so little data that all of it stays in the first-level cache: loads are what this waits for.
ProbeKernel loads_probe(std::string name, int bits) {
  return additions_probe(std::move(name), {bits / 32, 2048, 1, 128, Iteration::kUnrolled});
}

}  // namespace lathe::worker
