#include "cli/model_flags.h"

#include <filesystem>
#include <typeinfo>

#include "cli/messages.h"
#include "cli/shapes.h"
#include "cli/target.h"
#include "core/runtime/plan_dims.h"
#include "core/support/error.h"
#include "core/support/most_threads.h"
#include "core/support/placed_error.h"
#include "core/support/printable.h"
#include "db/store.h"
#include "tuner/load_model.h"
#include "tuner/optimize.h"
#include "tuner/precision.h"

namespace lathe::cli {
namespace {

/// Those of --shape and of the files given.
tuner::InputShapes shapes_of(const ModelFlags& flags, const Inputs& inputs) {
  tuner::InputShapes shapes = parse_shapes(flags.shapes);
  for (const auto& [name, file] : inputs) {
    auto [known, fresh] = shapes.try_emplace(name, file.shape());
    if (!fresh && known->second != file.shape())
      fail("input `{}`: --shape says {}, the tensor of --input has {}", name, shape_text(known->second),
           shape_text(file.shape()));
  }
  return shapes;
}

/// Refuses what is settled in a module file.
void require_plain(const ModelFlags& flags, const runtime::Plan& plan) {
  if (!flags.shapes.empty() && !has_open_inputs(plan))
    fail("--shape: the shapes in {} are settled", flags.model);
  if (!flags.open.empty()) fail("--open: what is open in {} is settled", flags.model);
  if (tuner::parse_precision(flags.precision) != tuner::Precision::kGiven)
    fail("--precision {}: the precision in {} is settled", flags.precision, flags.model);
}

}  // namespace

void ModelFlags::add_to(Flags& flags) {
  flags.add("--model MODEL", model, "a zoo model, or a .onnx, .relay or .lathe file", Flags::Need::kRequired);
  add_build_to(flags);
  flags.add("--db FILE", database, "tuning database whose best schedules to use");
  flags.add("--untuned", untuned, "use the default schedules");
  flags.exclude("--db", "--untuned");
}

void ModelFlags::add_build_to(Flags& flags) {
  add_shape_flag(flags, shapes);
  add_open_flag(flags, open);
  flags.add("--target TARGET", target, "what to compile for");
  flags.add("--precision given|bf16|int8|float64", precision,
            "bf16 and int8 where they are faster; int8 is calibrated on random inputs, float64 is slow");
  flags.add("--threads", threads, 1, kMostThreads, "threads to run on");
  flags.add_share("--max-relative-error", max_relative_error,
                  "results may be off by this at most, of the largest value");
}

std::string module_name(const std::string& model) {
  const std::string name = std::filesystem::path(model).stem().string();
  // Databases, reports and modules have it, and no service and no import takes such a name.
  if (has_control_characters(name))
    fail("the name of the model {} has characters that cannot be shown; rename its file", printable(model));
  return name;
}

relay::Module at_precision(const relay::Module& model, const std::string& precision, const Target& target) {
  const tuner::Precision parsed = tuner::parse_precision(precision);
  relay::Module result = tuner::at_precision(model, parsed, relay::NarrowCosts(target));
  if (parsed != tuner::Precision::kBFloat16 && parsed != tuner::Precision::kInt8) return result;
  if (const auto [all, kept] = tuner::count_products(result); kept > 0)
    say("{}: {} of {} products stay in float32, which is as fast there or loses less", precision, kept, all);
  return result;
}

void name_model(const std::string& model, const Error& error) {
  // The importer and places in a text have said it. What is the machine's or the service's is no model's.
  const std::string_view said = error.what();
  if (said.starts_with(model + ":")) return;
  if (typeid(error) == typeid(Error) || typeid(error) == typeid(PlacedError)) fail("{}: {}", model, said);
}

BestBuild compile(const ModelFlags& flags, const Inputs& inputs) {
  std::string database = flags.database;
  // The usual one where it is: a model can be compiled before anything was tuned.
  if (database.empty() && !flags.untuned && std::filesystem::exists(db::default_database_path()))
    database = db::default_database_path();
  Target target = target_of(flags.target, database);
  const tuner::OpenDims open = tuner::parse_open_dims(flags.open);
  const BuildSource source{records_of(database), static_cast<int>(flags.threads), flags.max_relative_error,
                           open};
  const relay::Module model = tuner::load_model(flags.model, shapes_of(flags, inputs), open);
  BestBuild build = naming(flags.model, [&] {
    return best_build(tuner::optimize(at_precision(model, flags.precision, target), target), target, source);
  });
  build.image.plan.model = module_name(flags.model);
  tuner::set_ranges(build.image.plan, open);
  return build;
}

RunningModel start_model(const ModelFlags& flags, const Inputs& inputs, uint64_t seed) {
  std::shared_ptr<const runtime::Module> module;
  if (flags.model.ends_with(".lathe")) {
    module = runtime::Module::open(flags.model);
    require_plain(flags, module->plan());
  } else if (flags.open.empty()) {
    module = runtime::Module::from_image(compile(flags, inputs).image);
  } else {
    // The shapes are those of the run.
    ModelFlags open = flags;
    open.shapes.clear();
    module = runtime::Module::from_image(compile(open, {}).image);
  }
  const tuner::InputShapes shapes =
      has_open_inputs(module->plan()) ? parse_shapes(flags.shapes) : tuner::InputShapes();
  return start_module(module, inputs, seed, static_cast<int>(flags.threads), shapes);
}

}  // namespace lathe::cli
