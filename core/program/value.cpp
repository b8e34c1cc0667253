#include "core/program/value.h"

#include <unordered_map>

namespace lathe::program {
namespace {

using runtime::Datum;
using runtime::Kind;

bool has_parts(const Datum& datum) {
  return (datum.kind == Kind::kTuple || datum.kind == Kind::kData) && datum.object;
}

class Converter {
 public:
  Converter(const runtime::Machine& machine, const runtime::Program& program)
      : machine_(machine), program_(program) {}

  /// With a stack of its own: lists are long.
  relay::Value run(const Datum& root) {
    std::vector<Datum> stack{root};
    while (!stack.empty()) {
      const Datum datum = stack.back();
      if (!has_parts(datum) || done_.count(datum.object)) {
        stack.pop_back();
        continue;
      }
      const size_t before = stack.size();
      for (uint32_t i = 0; i < datum.object->count; ++i) {
        const Datum& part = datum.object->parts()[i];
        if (has_parts(part) && !done_.count(part.object)) stack.push_back(part);
      }
      if (stack.size() > before) continue;
      done_[datum.object] = composed(datum);
      stack.pop_back();
    }
    return value(root);
  }

 private:
  relay::Value value(const Datum& datum) const {
    switch (datum.kind) {
      case Kind::kNumber:
      case Kind::kTensor:
        return relay::tensor_value(machine_.tensor(datum));
      case Kind::kTuple:
      case Kind::kData:
        return datum.object ? done_.at(datum.object) : composed(datum);
      case Kind::kClosure: {
        const runtime::CodeFunction& function = program_.functions[datum.tag];
        for (const runtime::DataConstructor& each : program_.constructors)
          if (each.name == function.name)
            return make<relay::ConstructorValue>(make<relay::ConstructorNode>(each.name));
        return make<relay::ClosureValue>();
      }
      case Kind::kReference:
        return make<relay::RefValue>();
      case Kind::kNone:
        break;
    }
    CHECK(false, "a register without a value");
  }

  /// REQUIRES: its parts are done.
  relay::Value composed(const Datum& datum) const {
    std::vector<relay::Value> parts;
    for (uint32_t i = 0; datum.object && i < datum.object->count; ++i)
      parts.push_back(value(datum.object->parts()[i]));
    if (datum.kind == Kind::kTuple) return relay::tuple_value(std::move(parts));
    auto constructor = make<relay::ConstructorNode>(program_.constructors[datum.tag].name);
    return make<relay::DataValue>(constructor, std::move(parts));
  }

  const runtime::Machine& machine_;
  const runtime::Program& program_;
  std::unordered_map<const runtime::Object*, relay::Value> done_;
};

}  // namespace

relay::Value value_of(const Datum& datum, const runtime::Machine& machine, const runtime::Program& program) {
  return Converter(machine, program).run(datum);
}

}  // namespace lathe::program
