#include "core/program/emit.h"

#include "core/program/bindings.h"
#include "core/program/function_emitter.h"
#include "core/program/ports.h"
#include "core/support/error.h"

namespace lathe::program {

using namespace relay;
// Of two languages.
using relay::Var;

Code ProgramEmitter::run() {
  const Ref<Function>& main = module_->functions.at("main");
  code_.program.main = number_of_global("main");
  emit_pending();
  code_.program.entry = add_entry(*main);
  return std::move(code_);
}

int64_t ProgramEmitter::number_of_global(const std::string& name) {
  auto [found, fresh] = globals_.try_emplace(name, 0);
  if (!fresh) return found->second;
  const Ref<Function>& function = module_->functions.at(name);
  add_code(function, codes_);
  found->second = add_function();
  pending_.push_back({found->second, function, name});
  return found->second;
}

int64_t ProgramEmitter::number_of_local(const Ref<Function>& function, const std::string& name) {
  const int64_t number = add_function();
  pending_.push_back({number, function, name});
  return number;
}

int64_t ProgramEmitter::number_of_constructor(const ConstructorNode& constructor) {
  auto [found, fresh] = wrappers_.try_emplace(constructor.belongs_to->name + "." + constructor.name, 0);
  if (!fresh) return found->second;
  found->second = add_function();
  const auto items = static_cast<int32_t>(constructor.inputs.size());
  Assembler code(items);
  Instruction data{
      .op = Opcode::kData, .number = constructors_.number(constructor), .results = {code.fresh_register()}};
  for (int32_t i = 0; i < items; ++i) data.args.push_back(i);
  code.add(data);
  code.add({.op = Opcode::kReturn, .args = data.results});
  code_.program.functions[static_cast<size_t>(found->second)] = code.finish(constructor.name, 0);
  return found->second;
}

int64_t ProgramEmitter::plan_of(const std::string& stretch) {
  auto [found, fresh] = plans_.try_emplace(stretch, static_cast<int64_t>(code_.stretches.size()));
  if (fresh) code_.stretches.push_back(stretch);
  return found->second;
}

int64_t ProgramEmitter::constant(const Tensor& value) {
  auto [found, fresh] =
      constants_.try_emplace({value.data(), value.shape()}, static_cast<int64_t>(code_.constants.size()));
  if (fresh) code_.constants.push_back(value);
  return found->second;
}

int64_t ProgramEmitter::message(const std::string& text) {
  auto [found, fresh] = messages_.try_emplace(text, static_cast<int64_t>(code_.program.messages.size()));
  if (fresh) code_.program.messages.push_back(text);
  return found->second;
}

int64_t ProgramEmitter::library_call(const std::string& symbol, runtime::LibraryCall call) {
  runtime::Program& program = code_.program;
  auto [found, fresh] =
      libraries_.try_emplace(symbol, static_cast<int64_t>(program.library_functions.size()));
  if (fresh) program.library_functions.push_back(symbol);
  call.function = found->second;
  program.library_calls.push_back(std::move(call));
  return static_cast<int64_t>(program.library_calls.size()) - 1;
}

void ProgramEmitter::emit_pending() {
  for (; !pending_.empty(); pending_.pop_front()) {
    const Pending next = pending_.front();
    runtime::CodeFunction function = emit_function(*this, next.function, next.name);
    code_.program.functions[static_cast<size_t>(next.number)] = std::move(function);
  }
}

int64_t ProgramEmitter::add_entry(const Function& main) {
  const int64_t main_number = globals_.at("main");
  if (!has_ports(main)) return main_number;
  const Type result = result_of(main);
  const std::vector<TensorPort> ports = input_ports(main);
  Assembler code(static_cast<int32_t>(ports.size()));
  int32_t next = 0;
  Instruction call{.op = Opcode::kCall, .number = main_number};
  for (const Var& param : main.params) call.args.push_back(put_together(code, type_of(param), next));
  call.results = {code.fresh_register()};
  code.add(call);
  Instruction outputs{.op = Opcode::kTuple, .results = {code.fresh_register()}};
  take_apart(code, call.results[0], result, outputs.args);
  code.add(outputs);
  code.add({.op = Opcode::kReturn, .args = outputs.results});
  const int64_t number = add_function();
  code_.program.functions[static_cast<size_t>(number)] = code.finish("entry", 0);
  return number;
}

Code emit(const Module& module) { return ProgramEmitter(module).run(); }

}  // namespace lathe::program
