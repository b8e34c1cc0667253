// The builders that zoo.cpp lists.
#pragma once

#include "core/models/zoo.h"

namespace lathe::models {

relay::Module resnet18(const Model& model, uint64_t seed);
relay::Module resnet34(const Model& model, uint64_t seed);
relay::Module resnet50(const Model& model, uint64_t seed);
relay::Module resnet101(const Model& model, uint64_t seed);
relay::Module mobilenet_v1(const Model& model, uint64_t seed);
relay::Module mobilenet_v2(const Model& model, uint64_t seed);
relay::Module vgg16(const Model& model, uint64_t seed);
relay::Module inception_v3(const Model& model, uint64_t seed);
relay::Module dqn(const Model& model, uint64_t seed);

}  // namespace lathe::models
