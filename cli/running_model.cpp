#include "cli/running_model.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <exception>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/runtime/plan_dims.h"
#include "core/support/bounded_json.h"
#include "core/support/disk.h"
#include "core/support/error.h"
#include "core/support/text.h"
#include "core/support/working_folder.h"

namespace lathe::cli {
namespace {

struct Summary {
  double least = INFINITY, most = -INFINITY, mean = 0;
  int64_t place = 0;  // of the largest element
};

/// REQUIRES: the tensor is not empty. NaN is neither less nor more than any: it shows in the mean alone.
Summary summary_of(const Tensor& tensor) {
  Summary summary;
  double sum = 0;
  for (int64_t i = 0; i < tensor.size(); ++i) {
    double value = tensor.value(i);
    if (value > summary.most) summary.place = i;
    summary.least = std::min(summary.least, value);
    summary.most = std::max(summary.most, value);
    sum += value;
  }
  summary.mean = sum / static_cast<double>(tensor.size());
  return summary;
}

void print_text(const std::string& name, const Tensor& tensor) {
  fmt::print("{}: {} {}", name, to_string(tensor.dtype()), shape_text(tensor.shape()));
  if (tensor.size() > 0) {
    const Summary summary = summary_of(tensor);
    fmt::print(", min {:.6g}, mean {:.6g}, max {:.6g} at {}", summary.least, summary.mean, summary.most,
               summary.place);
  }
  fmt::print("\n");
}

nlohmann::json output_json(const std::string& name, const Tensor& tensor) {
  nlohmann::json output = {{"name", name}, {"dtype", to_string(tensor.dtype())}, {"shape", tensor.shape()}};
  if (tensor.size() > 0) {
    const Summary summary = summary_of(tensor);
    output.update(
        {{"min", summary.least}, {"mean", summary.mean}, {"max", summary.most}, {"max_at", summary.place}});
  }
  return output;
}

}  // namespace

std::pair<std::string, NpyFile> open_input(const char* flag, const std::string& file) {
  size_t equals = file.find('=');
  if (equals == std::string::npos) fail("{} {}: must be NAME=FILE.npy", flag, file);
  return {file.substr(0, equals), NpyFile(file.substr(equals + 1))};
}

Inputs open_inputs(const std::vector<std::string>& files) {
  Inputs inputs;
  for (const std::string& file : files) {
    auto [name, opened] = open_input("--input", file);
    if (!inputs.emplace(name, opened).second) fail("--input {}: the input is given twice", name);
  }
  return inputs;
}

namespace {

using runtime::Size;

const std::vector<Size>& shape_of_input(const runtime::Plan& plan, size_t i) {
  return plan.values[static_cast<size_t>(plan.inputs[i].value)].shape;
}

/// The shape of input `i` where the dimensions are these.
std::vector<int64_t> shape_at(const runtime::Plan& plan, size_t i, const std::vector<int64_t>& dims) {
  std::vector<int64_t> values(plan.sizes.size()), shape;
  runtime::evaluate_sizes(plan.sizes, dims, values);
  for (const Size size : shape_of_input(plan, i))
    shape.push_back(runtime::is_open(size) ? values[runtime::entry_of(size)] : size);
  return shape;
}

/// A shape that input `i` may have: "1x128".
std::string example_shape(const runtime::Plan& plan, size_t i) {
  std::vector<int64_t> dims;
  for (const runtime::Dimension& dim : plan.dims)
    dims.push_back(std::clamp<int64_t>(dim.axis == 0 ? 1 : 128, dim.min, dim.max));
  std::vector<std::string> extents;
  for (const int64_t extent : shape_at(plan, i, dims)) extents.push_back(std::to_string(extent));
  return join_text(extents, "x");
}

[[noreturn]] void refuse_shape(const runtime::Plan& plan, size_t i, const std::vector<int64_t>& shape) {
  fail("input `{}` has shape {}, must be {}", plan.inputs[i].name, shape_text(shape),
       open_shape_text(plan, shape_of_input(plan, i)));
}

/// Dimensions that stand by themselves in the shape of input `i`.
void read_dims(const runtime::Plan& plan, size_t i, const std::vector<int64_t>& shape,
               std::vector<int64_t>& dims) {
  const std::vector<Size>& wanted = shape_of_input(plan, i);
  if (shape.size() != wanted.size()) refuse_shape(plan, i, shape);
  for (size_t d = 0; d < shape.size(); ++d) {
    if (!runtime::is_open(wanted[d])) {
      if (shape[d] != wanted[d]) refuse_shape(plan, i, shape);
      continue;
    }
    const runtime::SizeEntry& entry = plan.sizes[runtime::entry_of(wanted[d])];
    if (entry.op != runtime::SizeOp::kDim) continue;
    int64_t& dim = dims[static_cast<size_t>(entry.a)];
    if (dim >= 0 && dim != shape[d])
      fail("dimension {} is {} in input `{}`, and {} in another one",
           plan.dims[static_cast<size_t>(entry.a)].name, shape[d], plan.inputs[i].name, dim);
    dim = shape[d];
  }
}

}  // namespace

std::vector<int64_t> dims_from(const runtime::Plan& plan, const Shapes& shapes) {
  std::vector<int64_t> dims(plan.dims.size(), -1);
  for (const auto& [name, shape] : shapes) read_dims(plan, runtime::find_input(plan, name), shape, dims);
  for (size_t i = 0; i < dims.size(); ++i) {
    const runtime::Dimension& dim = plan.dims[i];
    if (is_of_output(dim)) {
      dims[i] = 0;  // the run tells
      continue;
    }
    const std::string& input = plan.inputs[static_cast<size_t>(dim.input)].name;
    // Those that expressions tell stand behind all that they are told by.
    if (const auto given = shapes.find(input); dims[i] < 0 && given != shapes.end())
      dims[i] = told_dimension(plan, i, given->second[static_cast<size_t>(dim.axis)], dims);
    if (dims[i] < 0)
      fail("dimension {} of input `{}` is open: say what it is, as in --shape {}={}", dim.name, input, input,
           example_shape(plan, static_cast<size_t>(dim.input)));
  }
  for (const auto& [name, shape] : shapes)
    if (const size_t i = runtime::find_input(plan, name); shape_at(plan, i, dims) != shape)
      refuse_shape(plan, i, shape);
  return dims;
}

RunningModel start_module(std::shared_ptr<const runtime::Module> module, const Inputs& inputs, uint64_t seed,
                          int threads, const Shapes& shapes) {
  RunningModel running{.pool = std::make_unique<runtime::ThreadPool>(threads)};
  running.executor = std::make_unique<runtime::Executor>(module, running.pool->parallel());
  if (!module->plan().dims.empty()) {
    Shapes known = shapes;
    for (const auto& [name, file] : inputs) known[name] = file.shape();
    running.executor->set_dims(dims_from(module->plan(), known));
  }
  const runtime::Plan& plan = running.executor->plan();
  for (const auto& [name, file] : inputs) {
    const size_t i = runtime::find_input(plan, name);
    running.executor->require_input(i, file.shape(), file.dtype());
    running.executor->set_input(i, file.read());
  }
  for (size_t i = 0; i < plan.inputs.size(); ++i) {
    const runtime::Value& value = plan.values[plan.inputs[i].value];
    // By its place, so that giving one input does not change what the others are.
    if (!inputs.count(plan.inputs[i].name))
      running.executor->set_input(i, random_tensor(value.shape, value.dtype, seed + i));
  }
  return running;
}

OutputFolder::OutputFolder(const std::string& folder) : exceptions_(std::uncaught_exceptions()) {
  if (folder.empty()) return;
  std::error_code unseen;
  std::filesystem::path path = absolute_path(folder);
  for (; path.has_relative_path() && !std::filesystem::exists(path, unseen); path = path.parent_path())
    made_.push_back(path);
  make_folder(folder);
  if (access(folder.c_str(), W_OK | X_OK) != 0)
    fail("cannot write into the folder {}: {}", folder, std::strerror(errno));
}

OutputFolder::~OutputFolder() {
  if (std::uncaught_exceptions() == exceptions_) return;
  for (const std::filesystem::path& path : made_) rmdir(path.c_str());  // only if it is empty
}

void run_and_print(RunningModel& running, const std::string& folder, bool as_json) {
  running.executor->run();
  nlohmann::json outputs = nlohmann::json::array();
  for (size_t i = 0; i < running.executor->plan().outputs.size(); ++i) {
    Tensor output = running.executor->output(i);
    const std::string& name = running.executor->plan().outputs[i].name;
    if (as_json)
      outputs.push_back(output_json(name, output));
    else
      print_text(name, output);
    if (!folder.empty()) save_npy(fmt::format("{}/output_{}.npy", folder, i), output);
  }
  if (as_json) fmt::print("{}\n", json_line(outputs));
}

}  // namespace lathe::cli
