#include "tuner/load_model.h"

#include <algorithm>
#include <set>
#include <string>

#include "core/frontends/onnx.h"
#include "core/models/zoo.h"
#include "core/relay/passes/settle_dims.h"
#include "core/relay/text.h"
#include "core/support/error.h"
#include "core/support/file.h"
#include "core/support/unfit.h"

namespace lathe::tuner {

namespace {

using Names = std::set<std::string>;

/// The dimensions that main's parameters leave open.
Names open_dims_of(const relay::Module& module) {
  Names names;
  for (const relay::Var& param : module->functions.at("main")->params)
    post_order(param->annotation, [&](const NodeRef& node) {
      if (const auto* dim = node.as<VarNode>()) names.insert(dim->name);
    });
  return names;
}

/// `module`, whose inputs left `stated` open: no flag is for one that its operators have made a number.
relay::Module without_settled(const relay::Module& module, const Names& stated, const OpenDims& open,
                              const std::string& model) {
  const Names left = open_dims_of(module);
  for (const auto& [name, range] : open.named)
    if (stated.count(name) && !left.count(name))
      fail("{}: --open {}: the model's operators take one size of this dimension alone; leave the flag out",
           model, name);
  return module;
}

relay::Module loaded(const std::string& model, const InputShapes& shapes, const OpenDims& open) {
  if (model.ends_with(".lathe")) fail("{} is a compiled module; name the model it was made of", model);
  if (model.ends_with(".onnx")) {
    onnx::ImportOptions options{.shapes = shapes};
    Names dims;  // that the inputs leave open
    if (!open.none()) {
      options.keeps_open = [&](const std::string& dim) {
        dims.insert(dim);
        return open.keeps(dim);
      };
      options.least_size = [&](const std::string& dim) { return open.range(dim).min; };
    }
    relay::Module module;
    try {
      module = onnx::import_file(model, options).module;
    } catch (const Error&) {
      // A misspelt name leaves its dimension open, and the message would be about that.
      if (!dims.empty()) require_known(open, {dims.begin(), dims.end()});
      throw;
    }
    return without_settled(module, dims, open, model);
  }
  const bool file = model.ends_with(".relay");
  const relay::Module module =
      file ? relay::parse_module(read_file(model), model) : models::build_model(model);
  relay::Module bound, settled;
  try {
    bound = bind_shapes(module, shapes, open);
    settled = open.none() ? bound : relay::settle_dims(bound);
  } catch (const Unfit&) {  // whatever the file is
    throw;
  } catch (const Error& error) {  // which knows no file, as the importer does
    if (!file) throw;
    fail("{}: {}", model, error.what());
  }
  return open.none() ? settled : without_settled(settled, open_dims_of(bound), open, model);
}

/// Whether all dimensions that main's parameters leave open are among those that stay so.
bool are_kept(const relay::Module& module, const OpenDims& open) {
  return std::ranges::all_of(open_dims_of(module), [&](const std::string& dim) { return open.keeps(dim); });
}

}  // namespace

relay::Module load_model(const std::string& model, const InputShapes& shapes, const OpenDims& open) try {
  return loaded(model, shapes, open);
} catch (const Error&) {
  if (open.none() || open.all) throw;
  // What the operators settle, as the channels of a convolution, nobody has to say.
  OpenDims all = open;
  all.all = true;
  relay::Module module;
  try {
    module = loaded(model, shapes, all);
  } catch (const Error&) {
  }
  if (!module || !are_kept(module, open)) throw;
  return module;
}

}  // namespace lathe::tuner
