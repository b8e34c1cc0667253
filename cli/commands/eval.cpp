#include <fmt/core.h>

#include <algorithm>
#include <span>

#include "cli/command.h"
#include "cli/commands/commands.h"
#include "cli/libraries.h"
#include "cli/running_model.h"
#include "core/codegen/host_target.h"
#include "core/program/library.h"
#include "core/program/value.h"
#include "core/relay/interpret/interpreter.h"
#include "core/relay/text.h"
#include "core/support/error.h"
#include "core/support/file.h"
#include "tuner/bind_shapes.h"
#include "tuner/compile.h"

namespace lathe::cli {
namespace {

/// The program with `expression` as the body of another function. Metadata stands last in a text.
std::string with_expression(const std::string& text, const std::string& expression) {
  size_t end = std::min(text.find("#[metadata]"), text.size());
  return fmt::format("{}\ndef @it() {{ {} }}\n{}", text.substr(0, end), expression, text.substr(end));
}

/// Arguments of @main by the names of its parameters.
std::vector<relay::Value> arguments(const relay::Function& function, const Inputs& inputs) {
  std::vector<relay::Value> values;
  std::vector<std::string> names;
  for (const relay::Var& param : function.params) {
    names.push_back(param->name);
    auto found = inputs.find(param->name);
    if (found == inputs.end()) fail("tune eval: give input `{0}`, as in --input {0}=FILE.npy", param->name);
    values.push_back(relay::tensor_value(found->second.read()));
  }
  for (const auto& [name, file] : inputs)
    if (std::find(names.begin(), names.end(), name) == names.end())
      fail("tune eval: @main has no parameter `{}`{}", name, did_you_mean(name, names));
  return values;
}

/// The program whose main is the function named, for this machine, with default schedules. What its
/// parameters leave open, the arguments of each call tell.
std::shared_ptr<const runtime::Module> compiled_program(const relay::Module& module,
                                                        const std::string& name) {
  auto renamed = mutate(*module);
  renamed->functions["main"] = module->functions.at(name);
  const relay::Module open = tuner::bind_shapes(seal(std::move(renamed)), {}, {.all = true});
  return runtime::Module::from_image(tuner::compile_program(open, codegen::host_target()));
}

/// The value of main for the arguments, by its native code.
relay::Value run_compiled(const std::shared_ptr<const runtime::Module>& compiled,
                          const std::vector<relay::Value>& args, const LibraryFunctions& functions) {
  const runtime::LoadedProgram& program = *compiled->program();
  runtime::Machine machine(program, runtime::serial_parallel());
  const std::span<const std::string> called = compiled->library_functions();
  for (size_t i = 0; i < called.size(); ++i) machine.set_library(i, function_of(functions, called[i]));
  std::vector<runtime::Datum> data;
  for (const relay::Value& arg : args) data.push_back(machine.copy(arg.as<relay::TensorValue>()->tensor));
  return program::value_of(machine.call(program.program.main, data), machine, program.program);
}

}  // namespace

int eval_command(Flags& flags) {
  std::string file, expression;
  std::vector<std::string> inputs, libraries;
  bool compiled = false, code = false;
  flags.add("FILE", file, "Relay text; /dev/stdin for the standard input", Flags::Need::kRequired);
  flags.add("--expr EXPR", expression, "what to evaluate over the definitions of FILE, instead of its @main");
  flags.add("--input NAME=FILE", inputs, "a .npy file, once for each parameter of @main");
  add_library_flag(flags, libraries);
  flags.add("--compiled", compiled, "compile it and run it, in place of the interpreter");
  flags.add("--code", code, "print the instructions that it is compiled to, and run nothing");
  flags.exclude("--expr", "--input");
  flags.exclude("--code", "--compiled");
  flags.exclude("--code", "--input");
  flags.exclude("--code", "--library");
  if (!flags.parse()) return kSuccess;
  const LibraryFunctions functions = load_libraries(libraries);
  std::string text = read_file(file);
  if (!expression.empty()) text = with_expression(text, expression);
  try {
    relay::Interpreter interpreter(relay::parse_module(text, file));
    for (const auto& [called, given] : functions)
      interpreter.add_library(called, program::interpreted(called, given));
    std::string name = expression.empty() ? "main" : "it";
    auto function = interpreter.module()->functions.find(name);
    if (function == interpreter.module()->functions.end())
      fail("tune eval: {} has no @main; say what to evaluate by --expr", file);
    if (code) {
      fmt::print("{}",
                 runtime::program_text(compiled_program(interpreter.module(), name)->program()->program));
      return kSuccess;
    }
    std::vector<relay::Value> args = arguments(*function->second, open_inputs(inputs));
    relay::Value value = compiled
                             ? run_compiled(compiled_program(interpreter.module(), name), args, functions)
                             : interpreter.call(name, args);
    fmt::print("{}\n", relay::print(value));
  } catch (const PlacedError& e) {
    // A place in the prelude has no line in this text.
    throw Error(e.span().source == file ? caret_message(e.span(), text, e.message()) : e.what());
  }
  return kSuccess;
}

}  // namespace lathe::cli
