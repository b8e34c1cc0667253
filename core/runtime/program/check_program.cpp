// What a program from a file must be before it runs.
#include <algorithm>
#include <map>

#include "core/runtime/most_bytes.h"
#include "core/runtime/plan_dims.h"
#include "core/runtime/program/opcodes.h"
#include "core/runtime/program/scalar.h"
#include "core/runtime/program/sized.h"
#include "core/support/error.h"

namespace lathe::runtime {
namespace {

constexpr int64_t kMaxRegisters = 1 << 20;
/// Of the sets of registers that have values, one for each target ahead: what checking takes.
constexpr int64_t kMaxSetBits = int64_t{1} << 33;

/// In place of a dimension of a library function's result: an argument says it.
constexpr int64_t kArgument = -1;

class FunctionChecker {
 public:
  FunctionChecker(const Program& program, const CodeFunction& function)
      : program_(program), function_(function) {}

  void run() {
    const CodeFunction& f = function_;
    if (f.params < 0 || f.captured < 0 || f.registers < f.params || f.registers > kMaxRegisters ||
        f.captured > kMaxRegisters)
      fail("module: {} has {} parameters, {} captured values, {} registers", f.name, f.params, f.captured,
           f.registers);
    int64_t targets = 1;
    for (const Instruction& i : f.code) targets += static_cast<int64_t>(i.targets.size());
    if (f.registers * targets > kMaxSetBits) fail("module: {} is too large", f.name);
    has_value_.assign(static_cast<size_t>(f.registers), false);
    for (int64_t i = 0; i < f.params; ++i) has_value_[static_cast<size_t>(i)] = true;
    for (at_ = 0; at_ < static_cast<int64_t>(f.code.size()); ++at_) {
      arrive();
      require(reached_, "code that nothing leads to");
      check(f.code[static_cast<size_t>(at_)]);
    }
    if (reached_) refuse("the code does not end");
  }

 private:
  using Set = std::vector<bool>;

  [[noreturn]] void refuse(const char* what) const {
    fail("module: instruction {} of {}: {}", at_, function_.name, what);
  }
  void require(bool holds, const char* what) const {
    if (!holds) refuse(what);
  }

  /// Registers have a value here when they have one on all ways that lead here.
  void arrive() {
    auto found = at_target_.find(at_);
    if (found == at_target_.end()) return;
    if (reached_) {
      for (size_t i = 0; i < has_value_.size(); ++i) has_value_[i] = has_value_[i] && found->second[i];
    } else {
      has_value_ = std::move(found->second);
    }
    reached_ = true;
    at_target_.erase(found);
  }

  void leave_to(int32_t target) {
    require(target > at_ && target < static_cast<int64_t>(function_.code.size()),
            "a target that is not ahead");
    auto [found, fresh] = at_target_.try_emplace(target, has_value_);
    if (fresh) return;
    for (size_t i = 0; i < has_value_.size(); ++i) found->second[i] = found->second[i] && has_value_[i];
  }

  void check(const Instruction& i) {
    const OpcodeRow& row = row_of(i.op);
    auto is = [](int wanted, size_t found) { return wanted == kAny || static_cast<size_t>(wanted) == found; };
    require(
        is(row.results, i.results.size()) && is(row.args, i.args.size()) && is(row.targets, i.targets.size()),
        "another number of results, arguments or targets");
    check_number(i);
    // A value that moves is gone for the arguments behind it, too.
    for (int32_t arg : i.args) {
      const int32_t at = arg < 0 ? ~arg : arg;
      require(at < function_.registers && has_value_[static_cast<size_t>(at)], "a register without a value");
    }
    for (int32_t arg : i.args)
      if (arg < 0) has_value_[static_cast<size_t>(~arg)] = false;
    for (int32_t result : i.results) {
      require(result >= 0 && result < function_.registers, "a register that there is not");
      has_value_[static_cast<size_t>(result)] = true;
    }
    for (int32_t target : i.targets) leave_to(target);
    if (row.ends) reached_ = false;
  }

  template <typename T>
  const T& item(const std::vector<T>& of, int64_t number) const {
    require(number >= 0 && number < static_cast<int64_t>(of.size()), "a number out of range");
    return of[static_cast<size_t>(number)];
  }

  void check_number(const Instruction& i) const {
    switch (i.op) {
      case Opcode::kConstant:
        item(program_.constants, i.number);
        return;
      case Opcode::kPlan: {
        const Plan& plan = item(program_.plans, i.number);
        require(i.args.size() == plan.inputs.size() && i.results.size() == plan.outputs.size(),
                "another number of arguments or results than the plan has");
        return;
      }
      case Opcode::kLibrary:
        return check_library(i);
      case Opcode::kScalar:
        return check_scalar(i);
      case Opcode::kSized:
        return check_sized(i);
      case Opcode::kField:
        return require(i.number >= 0, "a number out of range");
      case Opcode::kData:
        return require(item(program_.constructors, i.number).items == static_cast<int64_t>(i.args.size()),
                       "another number of items than the constructor has");
      case Opcode::kClosure:
        return require(item(program_.functions, i.number).captured == static_cast<int64_t>(i.args.size()),
                       "another number of captured values than the function has");
      case Opcode::kCaptured:
        return require(i.number >= 0 && i.number < function_.captured, "a number out of range");
      case Opcode::kSwitch:
        item(program_.constructors, i.number);
        return require(!i.targets.empty() &&
                           i.targets.size() <= program_.constructors.size() - static_cast<size_t>(i.number),
                       "a choice of more constructors than there are");
      case Opcode::kCall:
      case Opcode::kTailCall: {
        const CodeFunction& callee = item(program_.functions, i.number);
        return require(callee.captured == 0 && callee.params == static_cast<int64_t>(i.args.size()),
                       "a call with another number of arguments");
      }
      case Opcode::kCallClosure:
      case Opcode::kTailCallClosure:
        return require(!i.args.empty(), "a call of nothing");
      case Opcode::kFail:
        item(program_.messages, i.number);
        return;
      default:
        return;
    }
  }

  void check_library(const Instruction& i) const {
    const LibraryCall& call = item(program_.library_calls, i.number);
    int64_t args = call.inputs;
    for (const LibraryResult& result : call.results)
      args += std::count(result.shape.begin(), result.shape.end(), kArgument);
    require(static_cast<int64_t>(i.args.size()) == args && i.results.size() == call.results.size(),
            "another number of arguments or results than the library call has");
  }

  void check_scalar(const Instruction& i) const {
    require(i.args.size() == static_cast<size_t>(scalar_op_args(i.scalar)) &&
                find_scalar_op(scalar_op_name(i.scalar), i.dtype) == i.scalar,
            "an operator that there is not on such numbers");
    if (i.scalar == ScalarOp::kCast) require(dtype_of_number(i.number).has_value(), "a cast to no type");
  }

  void check_sized(const Instruction& i) const {
    require(takes_sizes(i.sized, i.args.size()), "an operator of sizes with another number of arguments");
    require(i.number >= 0, "a number out of range");
    if (may_fail(i.sized)) item(program_.messages, i.number);
    if (i.sized == SizedOp::kZerosOf) require(is_number_type(i.dtype), "zeros of no type");
  }

  const Program& program_;
  const CodeFunction& function_;
  int64_t at_ = 0;
  bool reached_ = true;
  Set has_value_;
  std::map<int64_t, Set> at_target_;
};

void check_library_call(const Program& program, const LibraryCall& call) {
  if (call.function < 0 || call.function >= static_cast<int64_t>(program.library_functions.size()) ||
      call.inputs < 0 || call.inputs > kMaxRegisters)
    fail("module: a library call of function {} with {} inputs", call.function, call.inputs);
  for (const LibraryResult& result : call.results)
    if (!is_number_type(result.dtype) ||
        std::any_of(result.shape.begin(), result.shape.end(), [](int64_t dim) { return dim < kArgument; }))
      fail("module: a library call whose result is no tensor");
}

}  // namespace

void check_program(const Program& program, const Plan& module) {
  const int64_t constant_bytes = module.constant_bytes;
  // Where the program's results are copied to, while a graph's may be constants and inputs as they are.
  for (const Port& port : module.outputs)
    if (module.values[static_cast<size_t>(port.value)].place != Place::kArena)
      fail("module: the program writes output `{}` over an input or a constant", port.name);
  // Constants are values of a plan that does nothing.
  Plan constants;
  constants.values = program.constants;
  constants.constant_bytes = constant_bytes;
  for (const Value& value : program.constants)
    if (value.place != Place::kConstant) fail("module: a constant that is none");
  check_plan(constants);
  for (const Plan& plan : program.plans) {
    check_plan(plan);
    for (size_t i = 0; i < plan.dims.size(); ++i)
      if (is_of_output(plan.dims[i]) || !stands_alone(plan, i))
        fail("module: a plan of a program has a dimension that no input is");
    if (plan.constant_bytes > constant_bytes)
      fail("module: a plan of {} bytes of constants, there are {}", plan.constant_bytes, constant_bytes);
  }
  for (const DataConstructor& constructor : program.constructors)
    if (constructor.items < 0) fail("module: {} has {} items", constructor.name, constructor.items);
  for (const LibraryCall& call : program.library_calls) check_library_call(program, call);
  for (const CodeFunction& function : program.functions) FunctionChecker(program, function).run();
  for (int64_t each : {program.main, program.entry})
    if (each < 0 || each >= static_cast<int64_t>(program.functions.size()) ||
        program.functions[static_cast<size_t>(each)].captured != 0)
      fail("module: the program has no entry");
}

}  // namespace lathe::runtime
