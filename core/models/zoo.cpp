#include "core/models/zoo.h"

#include "core/models/architectures.h"
#include "core/support/error.h"
#include "core/support/text.h"

namespace lathe::models {

std::span<const Model> zoo() {
  static const Model kModels[] = {
      {"dqn", "Deep Q-network for Atari (Mnih et al. 2015), 6 actions", {1, 4, 84, 84}, dqn},
      {"inception_v3", "Szegedy et al. 2015", {1, 3, 299, 299}, inception_v3},
      {"mobilenet_v1", "Howard et al. 2017, width 1", {1, 3, 224, 224}, mobilenet_v1},
      {"mobilenet_v2", "Sandler et al. 2018, width 1", {1, 3, 224, 224}, mobilenet_v2},
      {"resnet18", "He et al. 2015", {1, 3, 224, 224}, resnet18},
      {"resnet34", "He et al. 2015", {1, 3, 224, 224}, resnet34},
      {"resnet50", "He et al. 2015, stride in the 3x3 convolution", {1, 3, 224, 224}, resnet50},
      {"resnet101", "He et al. 2015, stride in the 3x3 convolution", {1, 3, 224, 224}, resnet101},
      {"vgg16", "Simonyan and Zisserman 2014, configuration D", {1, 3, 224, 224}, vgg16},
  };
  return kModels;
}

const Model& find_model(std::string_view name) {
  std::vector<std::string> names;
  for (const Model& model : zoo()) {
    if (model.name == name) return model;
    names.push_back(model.name);
  }
  const std::string hint = did_you_mean(name, names);
  fail("unknown model `{}`{}", name,
       hint.empty()
           ? fmt::format("; it is neither of the zoo ({}) nor a .onnx or .relay file", join_text(names, ", "))
           : hint);
}

relay::Module build_model(std::string_view name, uint64_t seed) {
  const Model& model = find_model(name);
  return model.build(model, seed);
}

}  // namespace lathe::models
