#include "core/program/ports.h"

#include "core/program/bindings.h"
#include "core/relay/text.h"
#include "core/support/stack.h"

namespace lathe::program {

using namespace relay;
// Of two languages.
using relay::Var;

bool append_tensor_types(const Type& type, std::vector<Ref<TensorType>>& tensors) {
  if (const TupleType* tuple = type.as<TupleType>()) {
    bool all = true;
    with_enough_stack([&] {
      for (const Type& item : tuple->items) all = all && append_tensor_types(item, tensors);
    });
    return all;
  }
  if (!type.as<TensorType>()) return false;
  tensors.push_back(type.cast<TensorType>());
  return true;
}

namespace {

/// Appends the tensors of a type. False for other values.
bool append_ports(const std::string& name, const Type& type, std::vector<TensorPort>& ports) {
  std::vector<Ref<TensorType>> tensors;
  const bool all = append_tensor_types(type, tensors);
  for (const Ref<TensorType>& tensor : tensors) ports.push_back({name, tensor});
  return all;
}

/// Names as graph_plan.h gives them.
std::vector<TensorPort> numbered_ports(const std::string& name, const Type& type, const char* what) {
  std::vector<TensorPort> ports;
  if (!append_ports(name, type, ports))
    fail(
        "{} of @main is {}; a module takes and gives tensors and tuples of them. `tune eval --compiled` runs "
        "a main of any type",
        what, print(type));
  if (type.as<TupleType>())
    for (size_t i = 0; i < ports.size(); ++i) ports[i].name = fmt::format("{}.{}", name, i);
  return ports;
}

}  // namespace

Type result_of(const Function& function) {
  return function.result_type ? function.result_type : type_of(function.body);
}

bool has_ports(const Function& main) {
  std::vector<TensorPort> ports;
  bool flat = append_ports("", result_of(main), ports);
  for (const Var& param : main.params) flat = flat && append_ports("", type_of(param), ports);
  return flat;
}

std::vector<TensorPort> input_ports(const Function& main) {
  std::vector<TensorPort> all;
  for (const Var& param : main.params) {
    const auto ports = numbered_ports(param->name, type_of(param), "an input");
    all.insert(all.end(), ports.begin(), ports.end());
  }
  return all;
}

std::vector<TensorPort> output_ports(const Function& main) {
  std::vector<TensorPort> ports = numbered_ports("output", result_of(main), "the value");
  for (size_t i = 0; i < ports.size(); ++i) ports[i].name = fmt::format("output_{}", i);
  return ports;
}

void take_apart(Assembler& code, int32_t value, const Type& type, std::vector<int32_t>& tensors) {
  const TupleType* tuple = type.as<TupleType>();
  if (!tuple) return tensors.push_back(value);
  for (size_t i = 0; i < tuple->items.size(); ++i) {
    const int32_t item = code.fresh_register();
    code.add({.op = Opcode::kField, .number = static_cast<int64_t>(i), .results = {item}, .args = {value}});
    with_enough_stack([&] { take_apart(code, item, tuple->items[i], tensors); });
  }
}

int32_t put_together(Assembler& code, const Type& type, int32_t& next) {
  const TupleType* tuple = type.as<TupleType>();
  if (!tuple) return next++;
  Instruction i{.op = Opcode::kTuple};
  with_enough_stack([&] {
    for (const Type& item : tuple->items) i.args.push_back(put_together(code, item, next));
  });
  i.results = {code.fresh_register()};
  code.add(i);
  return i.results[0];
}

}  // namespace lathe::program
