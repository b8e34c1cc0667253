#include "core/program/emit.h"

#include <deque>
#include <map>
#include <unordered_map>

#include "core/program/bindings.h"
#include "core/program/extents.h"
#include "core/program/match_tree.h"
#include "core/program/stretches.h"
#include "core/relay/analysis/graph_scopes.h"
#include "core/relay/functor.h"
#include "core/relay/interpret/code.h"
#include "core/relay/ops/attrs_require.h"
#include "core/relay/ops/attrs_tensor.h"
#include "core/relay/text.h"
#include "core/runtime/program/scalar.h"
#include "core/runtime/program/sized.h"
#include "core/support/placed_error.h"
#include "core/support/stack.h"

namespace lathe::program {
namespace {

using namespace relay;
// Of two languages.
using relay::Expr, relay::ExprKind, relay::Var, relay::VarNode;

Type result_of(const Function& function) {
  return function.result_type ? function.result_type : type_of(function.body);
}

[[noreturn]] void refuse(const Expr& e, const std::string& what) {
  throw PlacedError(e->span, what + " cannot be compiled");
}

/// Appends the tensors of a type. False for other values.
bool append_ports(const std::string& name, const Type& type, std::vector<TensorPort>& ports) {
  if (const TupleType* tuple = type.as<TupleType>()) {
    bool all = true;
    with_enough_stack([&] {
      for (const Type& item : tuple->items) all = all && append_ports(name, item, ports);
    });
    return all;
  }
  const TensorType* tensor = type.as<TensorType>();
  if (!tensor) return false;
  ports.push_back({name, type.cast<TensorType>()});
  return true;
}

/// As graph_plan.h names them.
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

/// The functions of a program, each with a number when it is first named.
class ProgramEmitter {
 public:
  explicit ProgramEmitter(const Module& module) : module_(module), constructors_(module) {
    code_.program.constructors = constructors_.all();
  }

  Code run() {
    const Ref<Function>& main = module_->functions.at("main");
    code_.program.main = number_of_global("main");
    emit_pending();
    code_.program.entry = add_entry(*main);
    return std::move(code_);
  }

  int64_t number_of_global(const std::string& name);
  int64_t number_of_local(const Ref<Function>& function, const std::string& name);
  int64_t number_of_constructor(const ConstructorNode& constructor);
  int64_t plan_of(const std::string& stretch);
  int64_t constant(const Tensor& value);
  int64_t message(const std::string& text);
  const relay::Code& captures(const Ref<Function>& function) const { return codes_.at(function.get()); }
  const Module& module() const { return module_; }
  const Constructors& constructors() const { return constructors_; }

 private:
  int64_t add_function() {
    code_.program.functions.emplace_back();
    return static_cast<int64_t>(code_.program.functions.size()) - 1;
  }
  void emit_pending();
  int64_t add_entry(const Function& main);

  struct Pending {
    int64_t number;
    Ref<Function> function;
    std::string name;
  };
  Module module_;
  Constructors constructors_;
  Code code_;
  std::deque<Pending> pending_;
  std::unordered_map<const Node*, relay::Code> codes_;
  std::map<std::string, int64_t> globals_, wrappers_, plans_, messages_;
  std::map<std::pair<const void*, std::vector<int64_t>>, int64_t> constants_;
};

/// Where the value of an expression is to go: a register, or it is the function's.
struct Destination {
  int32_t value = -1;
  bool is_tail() const { return value < 0; }
};

class FunctionEmitter {
 public:
  FunctionEmitter(ProgramEmitter& all, const Ref<Function>& function, std::string name)
      : all_(all),
        function_(function),
        name_(std::move(name)),
        code_(static_cast<int32_t>(function->params.size())) {}

  runtime::CodeFunction run() {
    for (size_t i = 0; i < function_->params.size(); ++i)
      values_[function_->params[i].get()] = static_cast<int32_t>(i);
    const relay::Code& outer = all_.captures(function_);
    int64_t captured = 0;
    for (size_t i = 0; i < outer.captured.size(); ++i) {
      const int32_t value = code_.fresh_register();
      values_[outer.captured[i]] = value;
      if (outer.is_self[i])
        code_.add({.op = Opcode::kSelf, .results = {value}});
      else
        code_.add({.op = Opcode::kCaptured, .number = captured++, .results = {value}});
    }
    body(function_->body, {});
    return code_.finish(name_, captured);
  }

 private:
  /// The value of a leaf.
  int32_t operand(const Expr& e) {
    if (const VarNode* variable = e.as<VarNode>()) {
      auto found = values_.find(variable);
      CHECK(found != values_.end(), "%{} is used in {} before it has a value", variable->name, name_);
      return found->second;
    }
    const int32_t value = code_.fresh_register();
    if (const Constant* constant = e.as<Constant>())
      code_.add({.op = Opcode::kConstant, .number = all_.constant(constant->value), .results = {value}});
    else if (const GlobalVarNode* global = e.as<GlobalVarNode>())
      code_.add({.op = Opcode::kClosure, .number = all_.number_of_global(global->name), .results = {value}});
    else if (const ConstructorNode* constructor = e.as<ConstructorNode>())
      code_.add(
          {.op = Opcode::kClosure, .number = all_.number_of_constructor(*constructor), .results = {value}});
    else
      refuse(e, fmt::format("{} as a value", e->type().name));
    return value;
  }

  std::vector<int32_t> operands(const std::vector<Expr>& exprs) {
    std::vector<int32_t> values;
    for (const Expr& e : exprs) values.push_back(operand(e));
    return values;
  }

  void body(const Expr& e, Destination to) {
    with_enough_stack([&] { body_of(e, to); });
  }

  /// A chain of lets, then a value.
  void body_of(Expr e, Destination to) {
    for (; e.as<Let>(); e = e.as<Let>()->body) {
      const Let& let = *e.as<Let>();
      if (is_plan_call(let.value)) {
        plan(let);
        continue;
      }
      // A result of a plan is in its register.
      const Projection* projection = let.value.as<Projection>();
      auto results = projection ? plan_results_.find(projection->tuple.get()) : plan_results_.end();
      if (results != plan_results_.end()) {
        values_[let.var.get()] = results->second.at(static_cast<size_t>(projection->index));
        continue;
      }
      const int32_t value = code_.fresh_register();
      let_name_ = let.var->name;
      values_[let.var.get()] = value;
      compute(let.value, {value});
    }
    compute(e, to);
  }

  void compute(const Expr& e, Destination to) {
    switch (e->kind()) {
      case ExprKind::kIf:
        return branch(*e.as<If>(), to);
      case ExprKind::kMatch:
        return match(e.cast<Match>(), to);
      case ExprKind::kLet:
        return body(e, to);
      case ExprKind::kCall:
        if (is_plain_call(*e.as<Call>())) return call(*e.as<Call>(), to);
        if (is_requirement(e)) return requirement(*e.as<Call>(), to);
        break;
      default:
        break;
    }
    if (to.is_tail() && is_leaf(e)) return code_.add({.op = Opcode::kReturn, .args = {operand(e)}});
    const int32_t value = to.is_tail() ? code_.fresh_register() : to.value;
    code_.add(instruction(e, value));
    if (to.is_tail()) code_.add({.op = Opcode::kReturn, .args = {value}});
  }

  /// Of what is one instruction.
  Instruction instruction(const Expr& e, int32_t value) {
    switch (e->kind()) {
      case ExprKind::kCall:
        return data_or_scalar(e, value);
      case ExprKind::kFunction:
        return closure(e.cast<Function>(), value);
      case ExprKind::kTuple:
        return {.op = Opcode::kTuple, .results = {value}, .args = operands(e.as<Tuple>()->items)};
      case ExprKind::kProjection: {
        const Projection& projection = *e.as<Projection>();
        return {.op = Opcode::kField,
                .number = projection.index,
                .results = {value},
                .args = {operand(projection.tuple)}};
      }
      case ExprKind::kRefCreate:
        return {.op = Opcode::kNewReference, .results = {value}, .args = {operand(e.as<RefCreate>()->value)}};
      case ExprKind::kRefRead:
        return {.op = Opcode::kRead, .results = {value}, .args = {operand(e.as<RefRead>()->ref)}};
      case ExprKind::kRefWrite: {
        const RefWrite& write = *e.as<RefWrite>();
        return {.op = Opcode::kWrite, .results = {value}, .args = {operand(write.ref), operand(write.value)}};
      }
      case ExprKind::kGrad:
        refuse(e, "a gradient");
      default:
        return {.op = Opcode::kCopy, .results = {value}, .args = {operand(e)}};
    }
  }

  Instruction data_or_scalar(const Expr& e, int32_t value) {
    const Call& call = *e.as<Call>();
    if (const ConstructorNode* constructor = call.callee.as<ConstructorNode>())
      return {.op = Opcode::kData,
              .number = all_.constructors().number(*constructor),
              .results = {value},
              .args = operands(call.args)};
    if (is_sized_call(e)) return sized(call, value);
    CHECK(is_scalar_call(e), "a call of {} outside a stretch", call.callee->type().name);
    const DataType dtype = type_of(call.args.back()).as<TensorType>()->dtype;
    Instruction i{.op = Opcode::kScalar,
                  .scalar = *runtime::find_scalar_op(call.callee.as<OpNode>()->name, dtype),
                  .dtype = dtype,
                  .results = {value},
                  .args = operands(call.args)};
    if (i.scalar == runtime::ScalarOp::kCast)
      i.number = runtime::dtype_number(e->checked_type.as<TensorType>()->dtype);
    return i;
  }

  Instruction sized(const Call& call, int32_t value) {
    Instruction i{.op = Opcode::kSized,
                  .sized = *runtime::find_sized_op(call.callee.as<OpNode>()->name),
                  .results = {value},
                  .args = operands(call.args)};
    if (const ZerosOfAttrs* zeros = call.attrs.as<ZerosOfAttrs>()) i.dtype = zeros->dtype;
    if (i.sized == runtime::SizedOp::kExtent) {
      const ExtentAttrs* attrs = call.attrs.as<ExtentAttrs>();
      const int64_t axis = attrs ? attrs->axis : 0;
      const size_t rank = type_of(call.args[0]).as<TensorType>()->shape.size();
      i.number = axis < 0 ? axis + static_cast<int64_t>(rank) : axis;
    } else {
      i.number = all_.message(PlacedError(call.span, "").what());
    }
    return i;
  }

  Instruction closure(const Ref<Function>& function, int32_t value) {
    const relay::Code& inner = all_.captures(function);
    Instruction i{.op = Opcode::kClosure,
                  .number = all_.number_of_local(function, name_ + "." + let_name_),
                  .results = {value}};
    for (size_t k = 0; k < inner.captured.size(); ++k)
      if (!inner.is_self[k]) i.args.push_back(values_.at(inner.captured[k]));
    return i;
  }

  /// Of a function, not of an operator or a constructor.
  static bool is_plain_call(const Call& call) {
    if (call.callee.as<ExternFunc>()) refuse(Expr(&call), "a library function");
    return !call.callee.as<OpNode>() && !call.callee.as<ConstructorNode>();
  }

  void call(const Call& call, Destination to) {
    Instruction i{.op = to.is_tail() ? Opcode::kTailCall : Opcode::kCall};
    if (const GlobalVarNode* global = call.callee.as<GlobalVarNode>()) {
      i.number = all_.number_of_global(global->name);
      i.args = operands(call.args);
    } else {
      i.op = to.is_tail() ? Opcode::kTailCallClosure : Opcode::kCallClosure;
      i.args = operands(call.args);
      i.args.insert(i.args.begin(), operand(call.callee));
    }
    if (!to.is_tail()) i.results = {to.value};
    code_.add(std::move(i));
  }

  bool is_plan_call(const Expr& e) const {
    const Call* call = e.as<Call>();
    const GlobalVarNode* global = call ? call->callee.as<GlobalVarNode>() : nullptr;
    return global && is_stretch(*all_.module()->functions.at(global->name));
  }

  /// Appends the registers of the tensors of a value, tuples taken apart.
  void append_tensors(int32_t value, const Type& type, std::vector<int32_t>& tensors) {
    const TupleType* tuple = type.as<TupleType>();
    if (!tuple) return tensors.push_back(value);
    for (size_t i = 0; i < tuple->items.size(); ++i) {
      const int32_t item = code_.fresh_register();
      code_.add(
          {.op = Opcode::kField, .number = static_cast<int64_t>(i), .results = {item}, .args = {value}});
      append_tensors(item, tuple->items[i], tensors);
    }
  }

  void plan(const Let& let) {
    const Call& call = *let.value.as<Call>();
    const std::string& name = call.callee.as<GlobalVarNode>()->name;
    Instruction i{.op = Opcode::kPlan, .number = all_.plan_of(name)};
    for (const Expr& arg : call.args) append_tensors(operand(arg), type_of(arg), i.args);
    const size_t results = type_of(let.value).as<TupleType>()->items.size();
    for (size_t k = 0; k < results; ++k) i.results.push_back(code_.fresh_register());
    plan_results_[let.var.get()] = i.results;
    code_.add(std::move(i));
  }

  void branch(const If& e, Destination to) {
    const int32_t otherwise = code_.fresh_label(), end = code_.fresh_label();
    code_.add({.op = Opcode::kBranch, .args = {operand(e.condition)}, .targets = {otherwise}});
    body(e.then_case, to);
    if (!to.is_tail()) code_.add({.op = Opcode::kJump, .targets = {end}});
    code_.place(otherwise);
    body(e.else_case, to);
    code_.place(end);
  }

  /// The first argument, where the second holds.
  void requirement(const Call& e, Destination to) {
    const int32_t otherwise = code_.fresh_label(), end = code_.fresh_label();
    code_.add({.op = Opcode::kBranch, .args = {operand(e.args[1])}, .targets = {otherwise}});
    body(e.args[0], to);
    if (!to.is_tail()) code_.add({.op = Opcode::kJump, .targets = {end}});
    code_.place(otherwise);
    const RequireAttrs* attrs = e.attrs.as<RequireAttrs>();
    const std::string message = PlacedError(e.span, attrs ? attrs->message : RequireAttrs().message).what();
    code_.add({.op = Opcode::kFail, .number = all_.message(message)});
    code_.place(end);
  }

  void match(const Ref<Match>& e, Destination to) {
    std::vector<int32_t> labels;
    for (size_t i = 0; i < e->clauses.size(); ++i) labels.push_back(code_.fresh_label());
    const int32_t otherwise = code_.fresh_label(), end = code_.fresh_label();
    std::vector<std::optional<std::vector<PatternVariable>>> variables;
    try {
      variables = add_match(code_, all_.constructors(), e->clauses, operand(e->value), labels, otherwise);
    } catch (const Error& error) {
      throw PlacedError(e->span, error.what());
    }
    for (size_t i = 0; i < e->clauses.size(); ++i) {
      if (!variables[i]) continue;  // those before it take all
      for (const PatternVariable& each : *variables[i]) values_[each.var.get()] = each.value;
      code_.place(labels[i]);
      body(e->clauses[i].body, to);
      if (!to.is_tail()) code_.add({.op = Opcode::kJump, .targets = {end}});
    }
    code_.place(otherwise);
    const std::string message = PlacedError(e->span, "no clause matches").what();
    code_.add({.op = Opcode::kFail, .number = all_.message(message)});
    code_.place(end);
  }

  ProgramEmitter& all_;
  Ref<Function> function_;
  std::string name_, let_name_ = "fn";
  Assembler code_;
  std::unordered_map<const Node*, int32_t> values_;                     // by variable
  std::unordered_map<const Node*, std::vector<int32_t>> plan_results_;  // the same
};

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

void ProgramEmitter::emit_pending() {
  for (; !pending_.empty(); pending_.pop_front()) {
    const Pending next = pending_.front();
    runtime::CodeFunction function = FunctionEmitter(*this, next.function, next.name).run();
    code_.program.functions[static_cast<size_t>(next.number)] = std::move(function);
  }
}

/// The value of main's parameter from its tensors, from register `next` on.
int32_t joined(Assembler& code, const Type& type, int32_t& next) {
  const TupleType* tuple = type.as<TupleType>();
  if (!tuple) return next++;
  Instruction i{.op = Opcode::kTuple};
  with_enough_stack([&] {
    for (const Type& item : tuple->items) i.args.push_back(joined(code, item, next));
  });
  i.results = {code.fresh_register()};
  code.add(i);
  return i.results[0];
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

int64_t ProgramEmitter::add_entry(const Function& main) {
  const int64_t main_number = globals_.at("main");
  if (!has_ports(main)) return main_number;
  const Type result = result_of(main);
  const std::vector<TensorPort> ports = input_ports(main);
  Assembler code(static_cast<int32_t>(ports.size()));
  int32_t next = 0;
  Instruction call{.op = Opcode::kCall, .number = main_number};
  for (const Var& param : main.params) call.args.push_back(joined(code, type_of(param), next));
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

}  // namespace

Code emit(const Module& module) { return ProgramEmitter(module).run(); }

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

}  // namespace lathe::program
