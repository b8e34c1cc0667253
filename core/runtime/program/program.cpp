#include "core/runtime/program/program.h"

#include <nlohmann/json.hpp>

#include "core/runtime/plan_fields.h"
#include "core/runtime/program/opcodes.h"
#include "core/runtime/program/scalar.h"
#include "core/runtime/program/sized.h"
#include "core/support/bounded_json.h"
#include "core/support/text.h"

namespace lathe {
template <>
inline constexpr size_t reflect::kValuesOf<runtime::Opcode> = static_cast<size_t>(runtime::kLastOpcode) + 1;
template <>
inline constexpr size_t reflect::kValuesOf<runtime::SizedOp> = static_cast<size_t>(runtime::kLastSizedOp) + 1;
template <>
inline constexpr size_t reflect::kValuesOf<runtime::ScalarOp> = static_cast<size_t>(runtime::kLastScalarOp) +
                                                                1;
}  // namespace lathe

namespace lathe::runtime {
namespace {

constexpr int kMaxJsonDepth = 16;

std::string registers_text(const std::vector<int32_t>& registers) {
  std::vector<std::string> texts;
  for (int32_t each : registers)
    texts.push_back(fmt::format("%{}{}", each < 0 ? ~each : each, each < 0 ? "!" : ""));
  return join_text(texts, ", ");
}

/// What `number` says, in words.
std::string what_text(const Program& program, const Instruction& i) {
  const auto number = static_cast<size_t>(i.number);
  switch (i.op) {
    case Opcode::kScalar:
      return fmt::format(" {}.{}{}", scalar_op_name(i.scalar), to_string(i.dtype),
                         i.scalar == ScalarOp::kCast ? " to " + to_string(*dtype_of_number(i.number)) : "");
    case Opcode::kSized:
      return " " + std::string(sized_op_name(i.sized)) +
             (i.sized == SizedOp::kExtent ? fmt::format(" {} of", number) : "");
    case Opcode::kConstant: {
      const Value& value = program.constants.at(number);
      return fmt::format(" {}: {} {}", number, to_string(value.dtype), shape_text(value.shape));
    }
    case Opcode::kData:
    case Opcode::kSwitch:
      return " " + program.constructors.at(number).name;
    case Opcode::kClosure:
    case Opcode::kCall:
    case Opcode::kTailCall:
      return " @" + program.functions.at(number).name;
    case Opcode::kPlan:
    case Opcode::kField:
    case Opcode::kCaptured:
      return fmt::format(" {}", number);
    case Opcode::kLibrary: {
      const LibraryCall& call = program.library_calls.at(number);
      return fmt::format(" \"{}\"", program.library_functions.at(static_cast<size_t>(call.function)));
    }
    case Opcode::kFail:
      return fmt::format(" \"{}\"", program.messages.at(number));
    default:
      return "";
  }
}

}  // namespace

std::string program_json(const Program& program) {
  return reflect::write(program, [](const Node*) { return int64_t{0}; }).dump();
}

Program parse_program(std::string_view json) {
  Program program;
  try {
    reflect::read(parse_bounded_json(json, kMaxJsonDepth, "the program"), program,
                  [](int64_t) { return NodeRef(); });
  } catch (const nlohmann::json::exception& error) {
    fail("module: the program is not as it should be: {}", error.what());
  }
  return program;
}

std::string program_text(const Program& program) {
  std::string text;
  for (size_t f = 0; f < program.functions.size(); ++f) {
    const CodeFunction& function = program.functions[f];
    text += fmt::format("@{}: {} parameters, {} captured, {} registers{}\n", function.name, function.params,
                        function.captured, function.registers,
                        static_cast<int64_t>(f) == program.entry ? ", the entry" : "");
    for (size_t at = 0; at < function.code.size(); ++at) {
      const Instruction& i = function.code[at];
      std::string targets;
      for (int32_t target : i.targets)
        targets += fmt::format("{}{}", targets.empty() ? " -> " : ", ", target);
      text += fmt::format("{:>5}  {}{}{}{}{}{}{}\n", at, registers_text(i.results),
                          i.results.empty() ? "" : " = ", row_of(i.op).name, what_text(program, i),
                          i.args.empty() ? "" : " ", registers_text(i.args), targets);
    }
  }
  return text;
}

}  // namespace lathe::runtime
