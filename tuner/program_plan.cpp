#include "tuner/program_plan.h"

#include <map>
#include <string_view>
#include <unordered_map>

#include "core/program/emit.h"
#include "core/program/ports.h"
#include "core/support/placed_error.h"
#include "schedules/family.h"
#include "tuner/plan_sizes.h"

namespace lathe::tuner {
namespace {

/// The constants of a module with many plans.
class Constants {
 public:
  explicit Constants(runtime::ModuleImage& image) : image_(image) {}

  /// Its place; that of an equal one, where there is one.
  int64_t place(const Tensor& data) {
    if (data.bytes() == 0) return 0;
    const std::string_view bytes(static_cast<const char*>(data.data()), static_cast<size_t>(data.bytes()));
    const int64_t at = image_.plan.constant_bytes;
    auto [known, fresh] = places_.emplace(bytes, at);
    if (!fresh) return known->second;
    image_.constants.push_back({at, data});
    image_.plan.constant_bytes = runtime::align_up(at + data.bytes());
    return at;
  }

 private:
  runtime::ModuleImage& image_;
  std::unordered_map<std::string_view, int64_t> places_;  // by contents, which the image holds
};

/// The plan with the places of its constants in the module.
runtime::Plan moved(runtime::ModuleImage stretch, Constants& constants) {
  std::map<std::pair<int64_t, int64_t>, int64_t> places;  // by the former place and bytes
  for (const runtime::ModuleImage::Constant& each : stretch.constants)
    places[{each.at, each.data.bytes()}] = constants.place(each.data);
  for (runtime::Value& value : stretch.plan.values)
    if (value.place == runtime::Place::kConstant)
      value.at = value.bytes() > 0 ? places.at({value.at, value.bytes()}) : 0;
  return std::move(stretch.plan);
}

/// The inputs and outputs of a module with a program: the plan of no steps.
class Ports {
 public:
  runtime::Plan plan(const relay::Function& main) {
    sizes_.define_inputs(main);
    for (const program::TensorPort& port : program::input_ports(main))
      builder_.input(port.name, {shape_of(*port.type, std::nullopt), port.type->dtype});
    const std::vector<program::TensorPort> outputs = program::output_ports(main);
    for (size_t i = 0; i < outputs.size(); ++i) {
      const relay::TensorType& type = *outputs[i].type;
      builder_.output(outputs[i].name, builder_.result({shape_of(type, i), type.dtype}));
    }
    return builder_.finish().plan;
  }

 private:
  /// What a type does not say in terms of the inputs, the output says when it is there.
  std::vector<runtime::Size> shape_of(const relay::TensorType& type, std::optional<size_t> output) {
    std::vector<runtime::Size> shape;
    for (size_t axis = 0; axis < type.shape.size(); ++axis) {
      if (!output || sizes_.knows(type.shape[axis])) {
        shape.push_back(sizes_.of(type.shape[axis]));
        continue;
      }
      shape.push_back(builder_.dimension({.name = fmt::format("output_{}.{}", *output, axis),
                                          .input = runtime::of_output(static_cast<int64_t>(*output)),
                                          .axis = static_cast<int64_t>(axis)},
                                         kTypicalDim));
    }
    return shape;
  }

  runtime::PlanBuilder builder_;
  PlanSizes sizes_{builder_};
};

}  // namespace

runtime::ModuleImage plan_program(const relay::Module& fused,
                                  FunctionRef<runtime::ModuleImage(const std::string& stretch)> plan) {
  program::Code code = program::emit(fused);
  runtime::ModuleImage image;
  Constants constants(image);
  for (const std::string& stretch : code.stretches) {
    code.program.plans.push_back(moved(plan(stretch), constants));
    code.program.plans.back().model = PlacedError(fused->functions.at(stretch)->span, "").what();
  }
  for (const Tensor& constant : code.constants)
    code.program.constants.push_back(
        {constant.shape(), constant.dtype(), runtime::Place::kConstant, constants.place(constant)});
  for (runtime::Plan& each : code.program.plans) each.constant_bytes = image.plan.constant_bytes;
  const relay::Function& main = *fused->functions.at("main");
  if (program::has_ports(main)) {
    const int64_t constant_bytes = image.plan.constant_bytes;
    image.plan = Ports().plan(main);
    image.plan.constant_bytes = constant_bytes;
  }
  image.program = std::move(code.program);
  return image;
}

}  // namespace lathe::tuner
