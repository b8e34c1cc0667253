// Convolutions under the default schedule, in float32, bfloat16 and 8 bits (uint8 times int8, requantized),
// against the peak of this machine's multiply-adds of these types. One thread, its CPU time; an operation is
// a multiplication or an addition.
//
//   build/release/bin/lathe-bench-conv-kernel [--benchmark_filter=...]
#include <benchmark/benchmark.h>

#include "core/codegen/compile.h"
#include "core/codegen/host_target.h"
#include "core/runtime/shared_object.h"
#include "core/runtime/thread_pool.h"
#include "core/support/tensor.h"
#include "core/tir/builder.h"
#include "core/tir/lower.h"
#include "schedules/space.h"

namespace lathe {
namespace {
using namespace tir;

struct Convolution {
  int64_t in, out, size, kernel, stride;
  double flops() const {
    double pixels = static_cast<double>(size / stride) * static_cast<double>(size / stride);
    return 2.0 * static_cast<double>(in * out * kernel * kernel) * pixels;
  }
};
// Those of ResNets: 3x3 of each stage, those with a stride, and 1x1.
constexpr Convolution kConvolutions[] = {
    {64, 64, 56, 3, 1},   {64, 128, 56, 3, 2},  {64, 128, 56, 1, 2},  {128, 128, 28, 3, 1},
    {128, 256, 28, 3, 2}, {256, 256, 14, 3, 1}, {256, 512, 14, 3, 2}, {512, 512, 7, 3, 1},
    {64, 256, 56, 1, 1},  {256, 64, 56, 1, 1},  {512, 2048, 7, 1, 1},
};

/// Of data, weights and sums; so many neighbouring input channels are multiplied and summed at once.
struct Types {
  const char* name;
  DataType data, weight, sum;
  int64_t group;
};
constexpr Types kTypes[] = {{"float32", kFloat32, kFloat32, kFloat32, 1},
                            {"bfloat16", kBFloat16, kBFloat16, kFloat32, 2},
                            {"int8", kUInt8, kInt8, kInt32, 4}};

/// Padding, NCHWc convolution with packed weights, groups of input channels innermost, bias, relu, and the
/// data's type again: integers are scaled, rounded and clipped.
Func convolution(const Convolution& c, int64_t lanes, const Types& types) {
  FuncBuilder f;
  int64_t pad = c.kernel / 2, padded = c.size + 2 * pad, out_size = c.size / c.stride;
  // The sum's variables: blocks of channels, rows and columns of the window, groups within a block, the place
  // within a group.
  std::vector<Expr> taps{c.in / lanes, c.kernel, c.kernel, lanes / types.group};
  std::vector<Expr> weights{c.out / lanes, taps[0], taps[1], taps[2], taps[3], lanes};
  if (types.group > 1) taps.emplace_back(types.group), weights.emplace_back(types.group);
  Buffer data = f.input("data", {1, c.in / lanes, c.size, c.size, lanes}, types.data);
  Buffer weight = f.input("weight", weights, types.weight);
  Buffer bias = f.input("bias", {c.out / lanes, lanes}, types.sum);
  Buffer image = data;
  if (pad > 0)
    image = f.compute("pad", {1, c.in / lanes, padded, padded, lanes}, [&](Vars i) {
      Expr h = i[2] - pad, w = i[3] - pad;
      Expr rows = logical_and(less_equal(0, h), less(h, c.size)),
           columns = logical_and(less_equal(0, w), less(w, c.size));
      return select(logical_and(rows, columns), load(data, {i[0], i[1], h, w, i[4]}),
                    constant(types.data, 0));
    });
  Buffer sum = f.reduce("conv", {1, c.out / lanes, out_size, out_size, lanes}, taps, Combiner::kSum,
                        [&](Vars i, Vars r) {
                          Expr h = i[2] * c.stride + r[1], w = i[3] * c.stride + r[2];
                          std::vector<Expr> each{i[1], r[0], r[1], r[2], r[3], i[4]};
                          if (types.group > 1) each.emplace_back(r[4]);
                          Expr channel = types.group > 1 ? r[3] * types.group + r[4] : Expr(r[3]);
                          return cast(types.sum, load(image, {i[0], r[0], h, w, channel})) *
                                 cast(types.sum, load(weight, each));
                        });
  Buffer scale = types.sum.is_int() ? f.input("scale", {c.out / lanes, lanes}, kFloat32) : nullptr;
  Buffer out = f.compute("finish", sum->shape, [&](Vars i) {
    Expr biased = load(sum, {i[0], i[1], i[2], i[3], i[4]}) + load(bias, {i[1], i[4]});
    if (!scale) return cast(types.data, max(biased, Expr(0.0)));
    Expr whole = intrinsic(Intrinsic::kRound, cast(kFloat32, biased) * load(scale, {i[1], i[4]}));
    return cast(types.data, min(max(whole, Expr(0.0)), Expr(255.0)));
  });
  return f.finish("conv", {out});
}

/// sums[i] = sums[i] * x + x, twelve independent chains of whole vectors.
Func multiply_adds(int lanes, int64_t steps) {
  constexpr int kChains = 12;
  Buffer x = buffer("x", {lanes}, kFloat32), y = buffer("y", {kChains * lanes}, kFloat32);
  Buffer sums = buffer("sums", {kChains * lanes}, kFloat32, Scope::kLocal);
  std::vector<Stmt> init, step, out;
  Expr operand = load(x, {ramp(Expr(0), Expr(1), lanes)});
  for (int i = 0; i < kChains; ++i) {
    Expr at = ramp(Expr(i * lanes), Expr(1), lanes);
    init.push_back(store(sums, {at}, broadcast(Expr(1.0 + i), lanes)));
    step.push_back(store(sums, {at}, load(sums, {at}) * operand + operand));
    out.push_back(store(y, {at}, load(sums, {at})));
  }
  Stmt body = seq({seq(init), for_loop(var("k"), steps, seq(step)), seq(out)});
  return make<FuncNode>("peak", std::vector{x, y}, int64_t{1}, make<Alloc>(sums, body));
}

/// sums[i] += products of groups, twelve independent chains of whole vectors.
Func dot_products(int lanes, int64_t steps, const Types& types) {
  constexpr int kChains = 12;
  Buffer x = buffer("x", {types.group}, types.data), w = buffer("w", {types.group * lanes}, types.weight);
  Buffer y = buffer("y", {kChains * lanes}, types.sum);
  Buffer sums = buffer("sums", {kChains * lanes}, types.sum, Scope::kLocal);
  Expr group;
  for (int64_t k = 0; k < types.group; ++k) {
    Expr same = broadcast(cast(types.sum, load(x, {Expr(k)})), lanes);
    Expr each = cast(types.sum.with_lanes(lanes), load(w, {ramp(Expr(k), Expr(types.group), lanes)}));
    group = group ? group + same * each : same * each;
  }
  std::vector<Stmt> init, step, out;
  for (int i = 0; i < kChains; ++i) {
    Expr at = ramp(Expr(i * lanes), Expr(1), lanes);
    init.push_back(store(sums, {at}, broadcast(constant(types.sum, i), lanes)));
    step.push_back(store(sums, {at}, load(sums, {at}) + group));
    out.push_back(store(y, {at}, load(sums, {at})));
  }
  Stmt body = seq({seq(init), for_loop(var("k"), steps, seq(step)), seq(out)});
  return make<FuncNode>("peak", std::vector{x, w, y}, int64_t{1}, make<Alloc>(sums, body));
}

/// A compiled function with random parameters.
class Runnable {
 public:
  Runnable(const Func& lowered, const Target& target)
      : artifact_(codegen::compile(std::span(&lowered, 1), target)),
        object_(artifact_.bytes),
        kernel_(reinterpret_cast<LatheKernel>(object_.find(lowered->name.c_str()))),
        workspace_({artifact_.kernels[0].workspace_bytes}, kUInt8) {
    for (const Buffer& param : lowered->params)
      params_.push_back(random_tensor(constant_shape(param), param->dtype, params_.size(), 0.5));
    for (const Tensor& param : params_) buffers_.push_back(param.data());
  }
  void run() { kernel_(buffers_.data(), workspace_.data(), runtime::serial_parallel(), nullptr); }

 private:
  codegen::Artifact artifact_;
  runtime::SharedObject object_;
  LatheKernel kernel_;
  Tensor workspace_;
  std::vector<Tensor> params_;
  std::vector<void*> buffers_;
};

void report(benchmark::State& state, double flops) {
  state.counters["OP/s"] = benchmark::Counter(flops, benchmark::Counter::kIsIterationInvariantRate);
}

/// What multiply-adds reach with no load in their way: what the convolutions are measured against.
void bench_peak(benchmark::State& state, const Types& types) {
  Target target = codegen::host_target();
  constexpr int64_t kSteps = 100000;
  Runnable kernel(
      types.group > 1 ? dot_products(target.lanes(), kSteps, types) : multiply_adds(target.lanes(), kSteps),
      target);
  for (auto _ : state) kernel.run();
  report(state, 2.0 * static_cast<double>(types.group * 12 * target.lanes() * kSteps));
}

void bench_convolution(benchmark::State& state, const Convolution& c, const Types& types) {
  Target target = codegen::host_target();
  target.cores = 1;
  Func f = convolution(c, target.lanes(), types);
  Runnable kernel(lower(schedule::replay(schedule::default_trace(f, target), f), target), target);
  for (auto _ : state) kernel.run();
  report(state, c.flops());
}
}  // namespace
}  // namespace lathe

int main(int argc, char** argv) {
  using namespace lathe;
  for (const Types& types : kTypes)
    benchmark::RegisterBenchmark(fmt::format("peak/{}", types.name).c_str(), bench_peak, types)
        ->Unit(benchmark::kMicrosecond);
  for (const Types& types : kTypes)
    for (const Convolution& c : kConvolutions)
      benchmark::RegisterBenchmark(
          fmt::format("conv-{}/{}x{}/{}/k{}s{}", types.name, c.in, c.out, c.size, c.kernel, c.stride).c_str(),
          bench_convolution, c, types)
          ->Unit(benchmark::kMicrosecond);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
