#include "tuner/open_points.h"

#include <algorithm>
#include <set>

#include "core/arith/simplify.h"
#include "core/relay/analysis/told_dims.h"
#include "core/relay/passes/infer_type.h"
#include "core/support/error.h"
#include "core/support/text.h"
#include "core/tir/dims.h"
#include "core/tir/text.h"
#include "schedules/family.h"
#include "tuner/plan_sizes.h"
#include "tuner/tasks.h"

namespace lathe::tuner {
namespace {

/// Each point is a search of its own for each kernel.
constexpr size_t kMostPicked = 8, kMostGiven = 64;
constexpr int kMostIntervals = 4;
/// Stands in for any value of a dimension without an upper bound: what is made of it and of others like it is
/// a number still.
constexpr int64_t kMostUnbounded = 1 << 20;
/// Of one kernel: some hundredths of a second, of which a measurement takes some tens, and the unscheduled
/// program a hundred times as long.
constexpr double kMostFlops = 2e9, kMostBytes = 256e6;

size_t combinations(const std::vector<std::vector<WeightedValue>>& values) {
  size_t count = 1;
  for (const auto& of_dim : values) count = std::min(count * of_dim.size(), size_t{1} << 32);
  return count;
}

/// The values of each dimension. Those that were picked are thinned out, of two the larger one stays, until
/// few combinations are left; rows and columns of images, `image`, are typical ones.
std::vector<std::vector<WeightedValue>> values_of(const std::vector<Var>& dims, const OpenDims& open,
                                                  const std::set<const VarNode*>& image) {
  std::vector<std::vector<WeightedValue>> values;
  std::vector<bool> given;
  for (const Var& dim : dims) {
    const DimRange range = open.range(dim->name);
    given.push_back(!range.values.empty());
    if (!given.back() && image.count(dim.get()))
      values.push_back({{std::clamp(kTypicalImage, std::max<int64_t>(range.min, 1), range.max)}});
    else
      values.push_back(representative_values(range, kMostIntervals));
  }
  while (combinations(values) > kMostPicked) {
    size_t most = dims.size();
    for (size_t i = 0; i < dims.size(); ++i)
      if (!given[i] && values[i].size() > 1 &&
          (most == dims.size() || values[i].size() > values[most].size()))
        most = i;
    if (most == dims.size()) break;
    if (values[most].size() == 2)
      values[most].erase(values[most].begin());
    else
      values[most] =
          representative_values(open.range(dims[most]->name), static_cast<int>(values[most].size()) - 2);
  }
  if (const size_t count = combinations(values); count > kMostGiven)
    fail("--open: {} combinations of values to tune for, at most {} make sense; give fewer", count,
         kMostGiven);
  return values;
}

std::vector<OpenPoint> product_of(const std::vector<std::vector<WeightedValue>>& values) {
  std::vector<OpenPoint> points = {{}};
  for (const auto& of_dim : values) {
    std::vector<OpenPoint> longer;
    for (const OpenPoint& point : points)
      for (const WeightedValue& each : of_dim) {
        longer.push_back(point);
        longer.back().values.push_back(each.value);
        longer.back().weight *= each.weight;
      }
    points = std::move(longer);
  }
  return points;
}

/// A call of the model, of several of one function the first, and what it runs.
struct LoweredCall {
  KernelCall call;
  tir::Func workload;
};

std::vector<LoweredCall> open_calls(const relay::Module& fused) {
  std::set<std::pair<const Node*, int64_t>> seen;
  std::vector<LoweredCall> calls;
  for (KernelCall& call : kernel_calls(fused)) {
    // A function's sizes are its own; a tensor program has those of its calls.
    if (call.callee.as<relay::Function>() && !seen.insert({call.callee.get(), call.constants}).second)
      continue;
    tir::Func workload = workload_of(call);
    if (!tir::dims_of(*workload).empty()) calls.push_back({std::move(call), std::move(workload)});
  }
  return calls;
}

/// The model's dimensions that are rows or columns of images.
std::set<const VarNode*> image_dims_of(std::span<const LoweredCall> calls) {
  std::set<const VarNode*> found;
  for (const LoweredCall& each : calls) {
    const std::vector<bool> image = schedule::image_dims(each.workload);
    const std::vector<Expr> dims = dims_of_call(each.call, each.workload);
    for (size_t i = 0; i < dims.size(); ++i)
      if (image[i])
        post_order(dims[i], [&](const NodeRef& node) {
          if (const auto* dim = node.as<VarNode>()) found.insert(dim);
        });
  }
  return found;
}

/// No kernel of the model takes longer there than can be measured many times.
bool is_light(const OpenPoints& points, size_t point, std::span<const LoweredCall> calls) {
  return std::all_of(calls.begin(), calls.end(), [&](const LoweredCall& each) {
    const auto values = values_at(points, points.points[point].values, each.call, each.workload);
    if (!values) return true;
    const tir::Func program = schedule::program_at(each.workload, *values);
    return count_flops(program) <= kMostFlops && parameter_bytes(program) <= kMostBytes;
  });
}

/// To values that another call of the program has.
void widen(OpenProgram& program, const std::vector<int64_t>& least, const std::vector<int64_t>& most) {
  if (program.least.empty()) {
    program.least = least;
    program.most = most;
  }
  for (size_t i = 0; i < least.size(); ++i) {
    program.least[i] = std::min(program.least[i], least[i]);
    program.most[i] = std::max(program.most[i], most[i]);
  }
}
}  // namespace

std::string OpenPoints::name(size_t point) const {
  std::vector<std::string> parts;
  for (size_t i = 0; i < dims.size(); ++i)
    parts.push_back(fmt::format("{}={}", dims[i]->name, points.at(point).values[i]));
  return join_text(parts, ", ");
}

OpenPoints open_points(const relay::Module& fused, const OpenDims& open) {
  const auto main = fused->functions.find("main");
  OpenPoints result;
  // In the order of the plan's (PlanSizes::define_inputs).
  if (main != fused->functions.end())
    for (const relay::ToldDim& told : relay::told_dims(*main->second)) result.dims.push_back(told.dim);
  std::vector<std::string> names;
  for (const Var& dim : result.dims) names.push_back(dim->name);
  require_known(open, names);
  if (result.dims.empty()) return result;
  const std::vector<LoweredCall> calls = open_calls(fused);
  result.points = product_of(values_of(result.dims, open, image_dims_of(calls)));
  result.given = true;
  for (const Var& dim : result.dims) {
    const DimRange range = open.range(dim->name);
    result.given &= !range.values.empty();
    result.least.push_back(range.min);
    result.most.push_back(std::min(range.max, kMostUnbounded));
  }
  if (!result.given) {
    std::vector<OpenPoint> light;
    for (size_t i = 0; i < result.points.size(); ++i)
      // The first one is the least: something has to be measured.
      if (i == 0 || is_light(result, i, calls)) light.push_back(result.points[i]);
    result.points = std::move(light);
  }
  double sum = 0;
  for (const OpenPoint& point : result.points) sum += point.weight;
  for (OpenPoint& point : result.points) point.weight /= sum;
  return result;
}

std::optional<std::vector<int64_t>> values_at(const OpenPoints& points, std::span<const int64_t> given,
                                              const KernelCall& call, const tir::Func& workload) {
  VarMap numbers;
  for (size_t i = 0; i < points.dims.size(); ++i) numbers[points.dims[i].get()] = Expr(given[i]);
  std::vector<relay::DimCheck> checks;
  if (const auto* function = call.callee.as<relay::Function>())
    checks = relay::undecided_dims(relay::make_module(Ref<relay::Function>(function)));
  auto fit = [&](const relay::DimCheck& check) {
    return prove_equal(substitute(check.a, numbers), substitute(check.b, numbers));
  };
  if (!std::all_of(checks.begin(), checks.end(), fit)) return std::nullopt;
  std::vector<int64_t> values;
  for (const Expr& dim : dims_of_call(call, workload)) {
    const Expr bound = simplify(substitute(dim, numbers));
    const int64_t* value = as_int(bound);
    if (!value || *value < 0) return std::nullopt;
    values.push_back(*value);
  }
  return values;
}

OpenPrograms open_programs(const relay::Module& fused, const OpenPoints& points) {
  OpenPrograms programs;
  if (points.none()) return programs;
  for (const auto& [call, workload] : open_calls(fused)) {
    const std::string digest = tir::workload_digest(workload);
    for (const OpenPoint& point : points.points) {
      const auto values = values_at(points, point.values, call, workload);
      if (!values) continue;
      OpenProgram& program = programs[digest];
      program.program = workload;
      program.given = points.given;
      program.weights[*values] += point.weight;
    }
    if (auto found = programs.find(digest); found != programs.end() && !points.most.empty()) {
      // Sizes grow with the dimensions that they are made of, so the ends of these are theirs.
      const auto least = values_at(points, points.least, call, workload),
                 most = values_at(points, points.most, call, workload);
      if (least && most) widen(found->second, *least, *most);
    }
  }
  return programs;
}

schedule::KnownDims known_dims(const OpenProgram& program) {
  schedule::KnownDims known{.least = program.least, .most = program.most, .weights = {}};
  if (program.given) known.weights = program.weights;
  return known;
}

std::vector<schedule::Member> family_of_known(const OpenPrograms& programs, const tir::Func& workload) {
  const auto found = programs.find(tir::workload_digest(workload));
  return schedule::family_within(workload,
                                 found == programs.end() ? schedule::KnownDims() : known_dims(found->second));
}

}  // namespace lathe::tuner
