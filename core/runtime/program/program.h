// A program as a module file holds it: functions of registers and instructions, and the plans they run. What
// is a graph within it, a straight stretch of operators, is a plan (plan.h); all else is here.
#pragma once

#include "core/runtime/plan.h"

namespace lathe::runtime {

enum class Opcode : uint8_t {
  kConstant,         // results[0] = constants[number]
  kCopy,             // results[0] = args[0]
  kPlan,             // results = plans[number](args)
  kLibrary,          // results = library_calls[number](args)
  kScalar,           // results[0] = scalar(args), numbers of `dtype`
  kSized,            // results[0] = sized(args)
  kTuple,            // results[0] = (args)
  kField,            // results[0] = part `number` of args[0], a tuple or data
  kData,             // results[0] = constructors[number](args)
  kClosure,          // results[0] = functions[number], which captures args
  kCaptured,         // results[0] = what this closure captured, `number`
  kSelf,             // results[0] = this closure
  kNewReference,     // results[0] = a cell that holds args[0]
  kRead,             // results[0] = what the cell args[0] holds
  kWrite,            // the cell args[0] holds args[1]; results[0] = ()
  kBranch,           // if args[0] goes on, else at targets[0]
  kSwitch,           // args[0] is data of constructors[number + i]: goes on at targets[i]
  kJump,             // goes on at targets[0]
  kCall,             // results[0] = functions[number](args), which captures nothing
  kCallClosure,      // results[0] = args[0](args[1...])
  kTailCall,         // the same two in place of this function
  kTailCallClosure,  //
  kReturn,           // args[0] is the value of this function
  kFail,             // ends the program with messages[number]
};
inline constexpr Opcode kLastOpcode = Opcode::kFail;

/// Functions of numbers, named as Relay's operators: of rank 0 these are its instructions.
enum class ScalarOp : uint8_t {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kMod,
  kFloorDivide,
  kFloorMod,
  kMinimum,
  kMaximum,
  kNegative,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kAnd,
  kOr,
  kXor,
  kNot,
  kSelect,
  kCast,  // to results of the dtype whose number is `number` (scalar.h)
};
inline constexpr ScalarOp kLastScalarOp = ScalarOp::kCast;

/// What is between tensors and numbers, named as Relay's operators. Sizes are integers of any type.
enum class SizedOp : uint8_t {
  kExtent,      // dimension `number` of args[0], as int64
  kFirstRows,   // the first args[1] rows of args[0], in its memory
  kReshapeTo,   // args[0] under the shape args[1...], in its memory
  kZerosOf,     // zeros of `dtype` of the shape args
  kMatchShape,  // args[0], whose shape must be args[1...], -1 being anything; else messages[number], and why
};
inline constexpr SizedOp kLastSizedOp = SizedOp::kMatchShape;

/// Registers are numbered from 0, parameters first. An argument ~r (below 0) is register r, used here for the
/// last time: its value moves. Targets are numbers of later instructions of the function: within an
/// activation the code only goes forward, and all loops are tail calls.
struct Instruction {
  Opcode op = Opcode::kJump;
  ScalarOp scalar = ScalarOp::kAdd;
  DataType dtype = kInt64;
  int64_t number = 0;
  SizedOp sized = SizedOp::kExtent;
  std::vector<int32_t> results, args, targets;
  static constexpr auto fields =
      std::tuple{field("op", &Instruction::op),       field("scalar", &Instruction::scalar),
                 field("dtype", &Instruction::dtype), field("number", &Instruction::number),
                 field("sized", &Instruction::sized), field("results", &Instruction::results),
                 field("args", &Instruction::args),   field("targets", &Instruction::targets)};
};

struct CodeFunction {
  std::string name;
  int64_t params = 0, captured = 0, registers = 0;
  std::vector<Instruction> code;
  static constexpr auto fields =
      std::tuple{field("name", &CodeFunction::name), field("params", &CodeFunction::params),
                 field("captured", &CodeFunction::captured), field("registers", &CodeFunction::registers),
                 field("code", &CodeFunction::code)};
};

/// Of a data type. Those of one type stand together, in its order.
struct DataConstructor {
  std::string name;
  int64_t items = 0;
  static constexpr auto fields =
      std::tuple{field("name", &DataConstructor::name), field("items", &DataConstructor::items)};
};

/// A tensor that a library function writes.
struct LibraryResult {
  DataType dtype;
  std::vector<int64_t> shape;  // -1: the next of the arguments behind the inputs, an integer
  static constexpr auto fields =
      std::tuple{field("dtype", &LibraryResult::dtype), field("shape", &LibraryResult::shape)};
};

/// A place that calls a function which the module does not have: its host gives it, by name (library.h).
struct LibraryCall {
  int64_t function = 0;  // among library_functions
  int64_t inputs = 0;    // how many of the arguments are these, tuples included; dimensions of results follow
  std::vector<LibraryResult> results;
  std::string place;  // how errors begin
  static constexpr auto fields =
      std::tuple{field("function", &LibraryCall::function), field("inputs", &LibraryCall::inputs),
                 field("results", &LibraryCall::results), field("place", &LibraryCall::place)};
};

struct Program {
  std::vector<CodeFunction> functions;
  int64_t main = 0;   // as it was written
  int64_t entry = 0;  // takes the module's inputs and gives a tuple of its outputs
  std::vector<DataConstructor> constructors;
  std::vector<Value> constants;  // among the module's constants
  std::vector<Plan> plans;       // with offsets of the module's constants; `model`: how errors begin
  std::vector<std::string> messages;
  std::vector<std::string> library_functions;  // by name, each once
  std::vector<LibraryCall> library_calls;
  static constexpr auto fields = std::tuple{field("functions", &Program::functions),
                                            field("main", &Program::main),
                                            field("entry", &Program::entry),
                                            field("constructors", &Program::constructors),
                                            field("constants", &Program::constants),
                                            field("plans", &Program::plans),
                                            field("messages", &Program::messages),
                                            field("library_functions", &Program::library_functions),
                                            field("library_calls", &Program::library_calls)};
};

/// Of a module with this plan, which was checked: throws Error when an index, a count or a target is out of
/// range, when a register is read that has no value on some way there, when a plan of the program is none
/// (check_plan) or reads beyond the constants, when an output is not the program's to write: so that running
/// it stays inside its memory. What kind of value a register has is seen when it runs.
void check_program(const Program& program, const Plan& module);

/// JSON, and back. parse_program throws Error on malformed text; it does not check the program.
std::string program_json(const Program& program);
Program parse_program(std::string_view json);

/// For people: one line an instruction.
std::string program_text(const Program& program);

}  // namespace lathe::runtime
