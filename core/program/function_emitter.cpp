#include "core/program/function_emitter.h"

#include <optional>

#include "core/program/bindings.h"
#include "core/program/extents.h"
#include "core/program/ports.h"
#include "core/program/stretches.h"
#include "core/relay/functor.h"
#include "core/relay/ops/attrs_require.h"
#include "core/relay/ops/attrs_tensor.h"
#include "core/runtime/program/scalar.h"
#include "core/runtime/program/sized.h"
#include "core/support/placed_error.h"
#include "core/support/stack.h"

namespace lathe::program {
namespace {

using namespace relay;
// Of two languages.
using relay::Expr, relay::ExprKind, relay::Var, relay::VarNode;

[[noreturn]] void refuse(const Expr& e, const std::string& what) {
  throw PlacedError(e->span, what + " cannot be compiled");
}

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
        if (e.as<Call>()->callee.as<ExternFunc>()) return library(*e.as<Call>(), to);
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

  void plan(const Let& let) {
    const Call& call = *let.value.as<Call>();
    const std::string& name = call.callee.as<GlobalVarNode>()->name;
    Instruction i{.op = Opcode::kPlan, .number = all_.plan_of(name)};
    for (const Expr& arg : call.args) take_apart(code_, operand(arg), type_of(arg), i.args);
    const size_t results = type_of(let.value).as<TupleType>()->items.size();
    for (size_t k = 0; k < results; ++k) i.results.push_back(code_.fresh_register());
    plan_results_[let.var.get()] = i.results;
    code_.add(std::move(i));
  }

  /// Behind the arguments stand the dimensions of the results that are no constants (extents.h).
  void library(const Call& call, Destination to) {
    std::vector<Ref<TensorType>> results;
    append_tensor_types(call.checked_type, results);
    runtime::LibraryCall called{.place = PlacedError(call.span, "").what()};
    size_t sizes = 0;
    for (const Ref<TensorType>& result : results) {
      runtime::LibraryResult& written =
          called.results.emplace_back(runtime::LibraryResult{result->dtype, {}});
      for (const lathe::Expr& dim : result->shape) {
        const int64_t* known = as_int(dim);
        written.shape.push_back(known ? *known : -1);
        sizes += known ? 0 : 1;
      }
    }
    Instruction i{.op = Opcode::kLibrary, .args = operands(call.args)};
    called.inputs = static_cast<int64_t>(i.args.size() - sizes);
    i.number = all_.library_call(call.callee.as<ExternFunc>()->symbol, std::move(called));
    const bool in_place = !to.is_tail() && call.checked_type.as<TensorType>();
    for (size_t k = 0; k < results.size(); ++k)
      i.results.push_back(in_place ? to.value : code_.fresh_register());
    int32_t next = i.results.empty() ? 0 : i.results.front();
    code_.add(std::move(i));
    if (in_place) return;
    const int32_t value = put_together(code_, call.checked_type, next);
    if (to.is_tail())
      code_.add({.op = Opcode::kReturn, .args = {value}});
    else
      code_.add({.op = Opcode::kCopy, .results = {to.value}, .args = {value}});
  }

  /// Both sides write the same register, or both return: nothing joins them.
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
      if (!variables[i]) continue;  // those before it take all, so its label is never placed
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

}  // namespace

runtime::CodeFunction emit_function(ProgramEmitter& all, const Ref<Function>& function, std::string name) {
  return FunctionEmitter(all, function, std::move(name)).run();
}

}  // namespace lathe::program
