#include "tuner/program_plan.h"

#include <cstring>
#include <map>

#include "core/program/emit.h"

namespace lathe::tuner {
namespace {

/// The constants of a module with many plans.
class Constants {
 public:
  explicit Constants(runtime::ModuleImage& image) : image_(image) {}

  /// Its place; that of an equal one, where there is one.
  int64_t place(const Tensor& data) {
    if (data.bytes() == 0) return 0;
    auto [first, last] = of_size_.equal_range(data.bytes());
    for (auto each = first; each != last; ++each) {
      const runtime::ModuleImage::Constant& known = image_.constants[each->second];
      if (std::memcmp(known.data.data(), data.data(), static_cast<size_t>(data.bytes())) == 0)
        return known.at;
    }
    of_size_.emplace(data.bytes(), image_.constants.size());
    const int64_t at = image_.plan.constant_bytes;
    image_.constants.push_back({at, data});
    image_.plan.constant_bytes = runtime::align_up(at + data.bytes());
    return at;
  }

 private:
  runtime::ModuleImage& image_;
  std::multimap<int64_t, size_t> of_size_;  // in bytes; places in image_.constants
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

/// Inputs where the caller has them, outputs in the arena, one after another.
void add_ports(const relay::Function& main, runtime::Plan& plan) {
  auto add = [&](const program::TensorPort& port, runtime::Place place, int64_t at) {
    plan.values.push_back({port.shape, port.dtype, place, at});
    return runtime::Port{port.name, static_cast<int64_t>(plan.values.size()) - 1};
  };
  for (const program::TensorPort& port : program::input_ports(main))
    plan.inputs.push_back(add(port, runtime::Place::kInput, static_cast<int64_t>(plan.inputs.size())));
  for (const program::TensorPort& port : program::output_ports(main)) {
    plan.outputs.push_back(add(port, runtime::Place::kArena, plan.arena_bytes));
    plan.arena_bytes = runtime::align_up(plan.arena_bytes + plan.values.back().bytes());
  }
  plan.arena_lower_bound = plan.arena_bytes;
}

}  // namespace

runtime::ModuleImage plan_program(const relay::Module& fused,
                                  FunctionRef<runtime::ModuleImage(const std::string& stretch)> plan) {
  program::Code code = program::emit(fused);
  runtime::ModuleImage image;
  Constants constants(image);
  for (const std::string& stretch : code.stretches)
    code.program.plans.push_back(moved(plan(stretch), constants));
  for (const Tensor& constant : code.constants)
    code.program.constants.push_back(
        {constant.shape(), constant.dtype(), runtime::Place::kConstant, constants.place(constant)});
  for (runtime::Plan& each : code.program.plans) each.constant_bytes = image.plan.constant_bytes;
  const relay::Function& main = *fused->functions.at("main");
  if (program::has_ports(main)) add_ports(main, image.plan);
  image.program = std::move(code.program);
  return image;
}

}  // namespace lathe::tuner
