#include "core/relay/interpret/interpreter.h"

#include <algorithm>
#include <map>

#include "core/relay/interpret/cells.h"
#include "core/relay/interpret/code.h"
#include "core/relay/interpret/dims.h"
#include "core/relay/interpret/operators.h"
#include "core/relay/op.h"
#include "core/relay/passes/infer_type.h"
#include "core/relay/text.h"
#include "core/tir/interpret.h"

namespace lathe::relay {
namespace {

/// So that what does not end does so in seconds and in some hundred megabytes: an activation here takes
/// thirty times as long as one of a machine, of which ten million may nest, and five times its memory.
constexpr size_t kMaxActivations = 500'000;

/// A scope under way: the members before `next` have their values.
struct Point {
  int scope;
  const Expr* result;
  size_t next = 0;
};

/// A call under way. Its scopes lie inside each other: the last one runs, the others wait for the value of
/// their next member.
struct Activation {
  const Code* code;
  std::vector<Value> slots;
  Dims dims;
  std::vector<Point> points;
};

[[noreturn]] void run_error(const Expr& e, const std::string& message) { throw RunError(e->span, message); }

}  // namespace

struct Interpreter::Machine {
  Module module;
  std::unordered_map<const Node*, Code> codes;
  Cells cells;
  std::map<std::string, Library> libraries;
  Operators operators;
  std::vector<Activation> stack;

  Value run(const Value& function, std::vector<Value> args);
  void step(const Expr& e);
  Value operand(const Expr& e);
  void put(const Node* node, Value value);
  void deliver(Value value);
  void enter_scope(const Expr& e, size_t body, const Expr& result);
  void call(const Expr& e, const Value& callee, std::vector<Value> args);
  void activate(const Expr& e, const ClosureValue& closure, std::vector<Value> args);
  bool in_tail_position(const Expr& e) const;
  Value closure(const Ref<Function>& function);
  void call_step(const Ref<Call>& e);
  void match_step(const Ref<Match>& e);
  bool matches(const Pattern& pattern, const Value& value);
  Value new_reference(Value value);
  /// Destination-passing: `run` gets the arguments' tensors, and memory for those of the call's type.
  Value call_foreign(const Ref<Call>& e,
                     FunctionRef<void(std::vector<Tensor>& inputs, std::vector<Tensor>& results)> run);
  Value call_library(const Ref<Call>& e, const std::string& symbol);
  Value call_tensor_program(const Ref<Call>& e, const tir::Func& func);
};

/// A value that is there already: of a leaf, or of a member that was evaluated.
Value Interpreter::Machine::operand(const Expr& e) {
  switch (e->kind()) {
    case ExprKind::kConstant:
      return tensor_value(e.as<Constant>()->value);
    case ExprKind::kGlobalVar:
      return make<ClosureValue>(module->functions.at(e.as<GlobalVarNode>()->name));
    case ExprKind::kConstructor:
      return make<ConstructorValue>(e.cast<ConstructorNode>());
    default:
      break;
  }
  Activation& now = stack.back();
  auto slot = now.code->slots.find(e.get());
  CHECK(slot != now.code->slots.end() && now.slots[slot->second], "{} is used before it has a value",
        e->type().name);
  return now.slots[slot->second];
}

void Interpreter::Machine::put(const Node* node, Value value) {
  Activation& now = stack.back();
  now.slots[now.code->slots.at(node)] = std::move(value);
}

/// The value of the member that the innermost scope waits for.
void Interpreter::Machine::deliver(Value value) {
  Activation& now = stack.back();
  Point& point = now.points.back();
  const Expr& member = now.code->scopes->members[static_cast<size_t>(point.scope)][point.next++];
  put(member.get(), std::move(value));
}

/// Whether the value of `e`, the member under way, is the value of its scope.
bool Interpreter::Machine::in_tail_position(const Expr& e) const {
  return *stack.back().points.back().result == e;
}

/// A branch, a clause or the body of a let. In tail position it takes the place of the scope around it.
void Interpreter::Machine::enter_scope(const Expr& e, size_t body, const Expr& result) {
  Activation& now = stack.back();
  int scope = now.code->scopes->places.at(e.get()).bodies[body];
  if (in_tail_position(e)) now.points.pop_back();
  now.points.push_back({scope, &result});
}

/// A new activation: in place of the running one where nothing is left to do in that.
void Interpreter::Machine::activate(const Expr& e, const ClosureValue& closure, std::vector<Value> args) {
  const Function& function = *closure.function;
  const Code& code = codes.at(closure.function.get());
  Activation next{&code, std::vector<Value>(code.slots.size()), {closure.dims, closure.types}, {}};
  for (size_t i = 0; i < closure.captured.size(); ++i)
    next.slots[i] = code.is_self[i] ? Value(&closure) : closure.captured[i];
  std::vector<Type> types;
  for (const Var& param : function.params) types.push_back(param->annotation);
  const DimsFault fault = bind_dims(args, types, next.dims);
  if (!fault.text.empty()) run_error(e, fmt::format("argument {}: {}", fault.value + 1, fault.text));
  for (size_t i = 0; i < function.params.size(); ++i)
    next.slots[code.slots.at(function.params[i].get())] = std::move(args[i]);
  next.points.push_back({code.body, &function.body});
  if (!stack.empty() && stack.back().points.size() == 1 && in_tail_position(e))
    stack.back() = std::move(next);
  else
    stack.push_back(std::move(next));
  if (stack.size() > kMaxActivations)
    run_error(e, fmt::format("calls nest more than {} deep", kMaxActivations));
}

void Interpreter::Machine::call(const Expr& e, const Value& callee, std::vector<Value> args) {
  if (const ConstructorValue* constructor = callee.as<ConstructorValue>())
    return deliver(make<DataValue>(constructor->constructor, std::move(args)));
  const ClosureValue* closure = callee.as<ClosureValue>();
  CHECK(closure, "{} is called", print(callee));
  activate(e, *closure, std::move(args));
}

Value Interpreter::Machine::closure(const Ref<Function>& function) {
  const Code& code = codes.at(function.get());
  const Activation& now = stack.back();
  std::vector<Value> captured;
  for (size_t i = 0; i < code.captured.size(); ++i)
    captured.push_back(code.is_self[i] ? Value() : now.slots[now.code->slots.at(code.captured[i])]);
  return make<ClosureValue>(function, std::move(captured), now.dims.dims, now.dims.types);
}

Value Interpreter::Machine::new_reference(Value value) {
  if (cells.is_full()) {
    std::vector<Value> roots{value};
    for (const Activation& each : stack) roots.insert(roots.end(), each.slots.begin(), each.slots.end());
    cells.collect(roots);
  }
  return cells.create(std::move(value));
}

Value Interpreter::Machine::call_foreign(
    const Ref<Call>& e, FunctionRef<void(std::vector<Tensor>& inputs, std::vector<Tensor>& results)> run) {
  std::vector<Tensor> inputs, results;
  for (const Expr& arg : e->args) append_tensors(operand(arg), inputs);
  std::function<void(const Type&)> allocate = [&](const Type& type) {
    if (const TupleType* tuple = type.as<TupleType>()) {
      for (const Type& item : tuple->items) allocate(item);
      return;
    }
    const TensorType* tensor = type.as<TensorType>();
    if (!tensor) fail("a call that writes its result gives no {}", print(type));
    std::vector<int64_t> shape;
    for (const lathe::Expr& dim : tensor->shape) {
      lathe::Expr extent = evaluate(dim, stack.back().dims);
      if (!as_int(extent)) fail("{} is no extent of a result", print(extent));
      if (int_value(extent) < 0) fail("a size is {}, must be at least 0", int_value(extent));
      shape.push_back(int_value(extent));
    }
    results.emplace_back(std::move(shape), tensor->dtype);
  };
  const Type result = evaluate(e->out_type, stack.back().dims);
  allocate(result);
  run(inputs, results);
  size_t next = 0;
  return value_of(result, results, next);
}

Value Interpreter::Machine::call_tensor_program(const Ref<Call>& e, const tir::Func& func) {
  return call_foreign(e, [&](std::vector<Tensor>& inputs, std::vector<Tensor>& results) {
    // Tensors share their memory with copies.
    std::vector<Tensor> all = inputs;
    all.insert(all.end(), results.begin(), results.end());
    tir::interpret(func, all);
  });
}

Value Interpreter::Machine::call_library(const Ref<Call>& e, const std::string& symbol) {
  auto library = libraries.find(symbol);
  if (library == libraries.end()) fail("library function `{}` is not given", symbol);
  return call_foreign(e, library->second);
}

void Interpreter::Machine::call_step(const Ref<Call>& e) {
  const ExternFunc* library = e->callee.as<ExternFunc>();
  const PrimFunc* program = e->callee.as<PrimFunc>();
  std::vector<Value> args;
  for (const Expr& arg : e->args) args.push_back(operand(arg));
  if (!library && !program && !e->callee.as<OpNode>()) return call(e, operand(e->callee), std::move(args));
  Value result;
  try {
    result = library   ? call_library(e, library->symbol)
             : program ? call_tensor_program(e, program->func)
                       : operators.run(*e, args);
  } catch (const Error& error) {
    run_error(e, error.what());
  }
  deliver(std::move(result));
}

/// Binds the variables of the pattern on the way.
bool Interpreter::Machine::matches(const Pattern& pattern, const Value& value) {
  const std::vector<Pattern>* patterns = nullptr;
  const std::vector<Value>* parts = nullptr;
  if (const VarPattern* variable = pattern.as<VarPattern>()) put(variable->var.get(), value);
  if (const TuplePattern* tuple = pattern.as<TuplePattern>()) {
    patterns = &tuple->items;
    parts = &value.as<TupleValue>()->items;
  }
  if (const ConstructorPattern* constructor = pattern.as<ConstructorPattern>()) {
    const DataValue& data = *value.as<DataValue>();
    if (data.constructor->name != constructor->constructor->name) return false;
    patterns = &constructor->items;
    parts = &data.fields_of;
  }
  for (size_t i = 0; patterns && i < patterns->size(); ++i)
    if (!matches((*patterns)[i], (*parts)[i])) return false;
  return true;
}

void Interpreter::Machine::match_step(const Ref<Match>& e) {
  Value value = operand(e->value);
  for (size_t i = 0; i < e->clauses.size(); ++i)
    if (matches(e->clauses[i].pattern, value)) return enter_scope(e, i, e->clauses[i].body);
  run_error(e, fmt::format("no clause matches {}", print(value)));
}

/// Evaluates the next member, whose operands have values, or begins to.
void Interpreter::Machine::step(const Expr& e) {
  switch (e->kind()) {
    case ExprKind::kCall:
      return call_step(e.cast<Call>());
    case ExprKind::kMatch:
      return match_step(e.cast<Match>());
    case ExprKind::kLet: {
      const Let& let = *e.as<Let>();
      put(let.var.get(), operand(let.value));
      return enter_scope(e, 0, let.body);
    }
    case ExprKind::kIf: {
      const If& branch = *e.as<If>();
      bool holds = operand(branch.condition).as<TensorValue>()->tensor.integer(0) != 0;
      return enter_scope(e, holds ? 0 : 1, holds ? branch.then_case : branch.else_case);
    }
    case ExprKind::kFunction:
      return deliver(closure(e.cast<Function>()));
    case ExprKind::kTuple: {
      std::vector<Value> items;
      for (const Expr& item : e.as<Tuple>()->items) items.push_back(operand(item));
      return deliver(tuple_value(std::move(items)));
    }
    case ExprKind::kProjection: {
      const Projection& projection = *e.as<Projection>();
      return deliver(
          operand(projection.tuple).as<TupleValue>()->items.at(static_cast<size_t>(projection.index)));
    }
    case ExprKind::kRefCreate:
      return deliver(new_reference(operand(e.as<RefCreate>()->value)));
    case ExprKind::kRefRead:
      return deliver(cells.read(*operand(e.as<RefRead>()->ref).as<RefValue>()));
    case ExprKind::kRefWrite: {
      const RefWrite& write = *e.as<RefWrite>();
      cells.write(*operand(write.ref).as<RefValue>(), operand(write.value));
      return deliver(tuple_value({}));
    }
    case ExprKind::kMatchCast: {
      const MatchCast& cast = *e.as<MatchCast>();
      std::string fault = bind_dims(operand(cast.value), cast.type, stack.back().dims);
      if (!fault.empty()) run_error(e, fault);
      return deliver(operand(cast.value));
    }
    case ExprKind::kDataflow:
      return enter_scope(e, 0, e.as<Dataflow>()->body);
    case ExprKind::kGrad:
      run_error(e, "the interpreter does not take gradients");
    default:
      CHECK(false, "{} is a member of a scope", e->type().name);
  }
}

Value Interpreter::Machine::run(const Value& function, std::vector<Value> args) {
  stack.clear();
  const ClosureValue& entry = *function.as<ClosureValue>();
  activate(entry.function, entry, std::move(args));
  for (;;) {
    Activation& now = stack.back();
    const Point& point = now.points.back();
    const std::vector<Expr>& members = now.code->scopes->members[static_cast<size_t>(point.scope)];
    if (point.next < members.size()) {
      step(members[point.next]);
      continue;
    }
    Value result = operand(*point.result);
    now.points.pop_back();
    if (now.points.empty()) stack.pop_back();
    if (stack.empty()) return result;
    deliver(std::move(result));
  }
}

Interpreter::Interpreter(const Module& module) : machine_(std::make_unique<Machine>()) {
  machine_->module = infer_type(module);
  for (const auto& each : machine_->module->functions) add_code(each.second, machine_->codes);
}

Interpreter::~Interpreter() = default;

const Module& Interpreter::module() const { return machine_->module; }

Value Interpreter::call(const std::string& function, const std::vector<Value>& args) {
  auto found = machine_->module->functions.find(function);
  if (found == machine_->module->functions.end()) fail("there is no function `@{}`", function);
  const std::vector<Var>& params = found->second->params;
  if (params.size() != args.size())
    fail("`@{}` takes {} argument{}, got {}", function, params.size(), params.size() == 1 ? "" : "s",
         args.size());
  for (size_t i = 0; i < params.size(); ++i)
    if (!has_type(args[i], params[i]->annotation, *module()))
      fail("argument {} of `@{}` is {}, a value of type {} is expected", i + 1, function, print(args[i]),
           print(params[i]->annotation));
  Value result = machine_->run(make<ClosureValue>(found->second), args);
  machine_->cells.keep(result);
  return result;
}

Value Interpreter::read(const RefValue& reference) const { return machine_->cells.read(reference); }

size_t Interpreter::cells() const { return machine_->cells.used(); }

void Interpreter::add_library(const std::string& symbol, Library function) {
  machine_->libraries[symbol] = std::move(function);
}

}  // namespace lathe::relay
