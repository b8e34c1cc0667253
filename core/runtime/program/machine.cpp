#include "core/runtime/program/machine.h"

#include <algorithm>
#include <cstring>

#include "core/runtime/pages.h"
#include "core/support/error.h"

namespace lathe::runtime {

Machine::Machine(const LoadedProgram& loaded, const LatheParallel* parallel, RunBy by)
    : program_(loaded.program) {
  link(loaded, parallel);
  if (by == RunBy::kBest && loaded.native) {
    native_code_ = loaded.native;
    link_native();
  }
}

Machine::~Machine() {
  for (const Datum& constant : constants_) heap_.release(constant);
}

void Machine::link(const LoadedProgram& loaded, const LatheParallel* parallel) {
  int64_t arena = 0;
  for (const Plan& plan : program_.plans)
    if (plan.dims.empty()) arena = std::max(arena, plan.arena_bytes);
  size_t inputs = 0, results = 0;
  for (const LoadedPlan& plan : loaded.plans) {
    LinkedPlan& linked = plans_.emplace_back(LinkedPlan{PlanCall(plan, parallel), {}, {}, steps_});
    auto type_of = [&](const Port& port) {
      const Value& value = plan.plan->values[static_cast<size_t>(port.value)];
      return linked.call.is_open() ? kNoType : type_number(value);
    };
    for (const Port& port : plan.plan->inputs) linked.inputs.push_back(type_of(port));
    for (const Port& port : plan.plan->outputs) linked.outputs.push_back(type_of(port));
    steps_ += linked.call.steps();
    inputs = std::max(inputs, linked.inputs.size());
    results = std::max(results, linked.outputs.size());
  }
  make_arena(arena, 0);
  slots_.resize(inputs + results);
  libraries_.resize(program_.library_functions.size());
  plan_inputs_.resize(inputs);
  plan_results_.resize(results);
  for (size_t i = 0; i < program_.constants.size(); ++i)
    constants_.push_back(borrow(program_.constants[i], loaded.constants[i]));
  lasting_types_ = types_.size();
}

void Machine::make_arena(int64_t needed, int64_t wished) {
  // Plans point into the old one until there is a new one.
  arena_ = allocate_roomy(needed, wished, "the tensors of a program");
  for (LinkedPlan& plan : plans_)
    if (plan.call.has_numbers()) plan.call.place(static_cast<char*>(arena_.memory.get()));
}

uint32_t Machine::type_number(const std::vector<int64_t>& shape, DataType dtype) {
  uint64_t hash = std::bit_cast<uint32_t>(dtype);
  for (int64_t dim : shape) hash = (hash ^ static_cast<uint64_t>(dim)) * 0x9e3779b97f4a7c15;
  auto [first, last] = types_by_hash_.equal_range(hash);
  for (auto each = first; each != last; ++each)
    if (const TensorType& type = types_[each->second]; type.dtype == dtype && type.shape == shape)
      return each->second;
  const auto number = static_cast<uint32_t>(types_.size());
  if (number == kNoType) fail("the program has tensors of more than {} types", number);
  types_.push_back({shape, dtype, shape_size(shape) * dtype.bytes()});
  types_by_hash_.emplace(hash, number);
  return number;
}

/// Sizes that never come again would be known forever. REQUIRES: there is no value but constants.
void Machine::forget_types() {
  constexpr size_t kMany = 1 << 16;
  if (types_.size() < lasting_types_ + kMany) return;
  types_.resize(lasting_types_);
  std::erase_if(types_by_hash_, [&](const auto& each) { return each.second >= lasting_types_; });
  for (LinkedPlan& plan : plans_)
    if (plan.call.is_open()) plan.inputs.assign(plan.inputs.size(), kNoType);
}

Datum Machine::number_or_view(uint32_t type, void* data, Object* base) {
  if (types_[type].shape.empty()) return Datum::of(types_[type].dtype, load_number(types_[type].dtype, data));
  return Datum::of(Kind::kTensor, type, &heap_.make_view(data, base)->head);
}

Datum Machine::borrow(const Value& type, void* data) {
  return number_or_view(type_number(type), data, nullptr);
}

Datum Machine::copy(const Tensor& tensor) {
  const uint32_t type = type_number(tensor.shape(), tensor.dtype());
  if (tensor.shape().empty()) return number_or_view(type, tensor.data(), nullptr);
  TensorObject* object = heap_.make_tensor(tensor.bytes());
  if (tensor.bytes() > 0) std::memcpy(object->data, tensor.data(), static_cast<size_t>(tensor.bytes()));
  return Datum::of(Kind::kTensor, type, &object->head);
}

Tensor Machine::tensor(const Datum& datum) const {
  if (datum.kind == Kind::kNumber) {
    Tensor result({}, datum.dtype());
    store_number(datum.dtype(), datum.number, result.data());
    return result;
  }
  CHECK(datum.kind == Kind::kTensor, "a value that is no tensor");
  const TensorType& type = types_[datum.tag];
  Tensor result(type.shape, type.dtype);
  const void* data = reinterpret_cast<const TensorObject*>(datum.object)->data;
  if (type.bytes > 0) std::memcpy(result.data(), data, static_cast<size_t>(type.bytes));
  return result;
}

void Machine::run(std::span<const Value> input_types, std::span<void* const> inputs,
                  std::span<const DataType> outputs, PlaceOutputs place) {
  const int64_t used = heap_.used_bytes();
  args_.clear();
  for (size_t i = 0; i < inputs.size(); ++i) args_.push_back(borrow(input_types[i], inputs[i]));
  const Datum result = start(program_.entry);
  try {
    copy_outputs(result, outputs, place);
  } catch (...) {
    heap_.release(result);
    heap_.free_cycles();
    throw;
  }
  heap_.release(result);
  heap_.free_cycles();
  if (heap_.used_bytes() == used) forget_types();
}

void Machine::copy_outputs(const Datum& result, std::span<const DataType> outputs, PlaceOutputs place) {
  const bool fits = result.kind == Kind::kTuple && result.object && result.object->count == outputs.size();
  if (!fits && !outputs.empty()) fail("module: the program does not give {} outputs", outputs.size());
  std::vector<std::vector<int64_t>> shapes;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Datum& output = result.object->parts()[i];
    const bool is_number = output.is_number(outputs[i]);
    if (!is_number && (output.kind != Kind::kTensor || types_[output.tag].dtype != outputs[i]))
      fail("module: output {} of the program has another type", i);
    shapes.push_back(is_number ? std::vector<int64_t>{} : types_[output.tag].shape);
  }
  const std::vector<void*> places = place(shapes);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Datum& output = result.object->parts()[i];
    if (output.kind == Kind::kNumber)
      store_number(outputs[i], output.number, places[i]);
    else if (const int64_t bytes = types_[output.tag].bytes; bytes > 0)
      std::memcpy(places[i], reinterpret_cast<TensorObject*>(output.object)->data,
                  static_cast<size_t>(bytes));
  }
}

Datum Machine::call(int64_t function, std::span<const Datum> args) {
  args_.assign(args.begin(), args.end());
  return start(function);
}

/// The call of a function on args_.
Datum Machine::start(int64_t function) {
  try {
    if (args_.size() != static_cast<size_t>(program_.functions.at(static_cast<size_t>(function)).params))
      fail("{} arguments for {}", args_.size(), program_.functions[static_cast<size_t>(function)].name);
    if (native_code_) return start_native(function);
    enter(function, nullptr, /*in_place=*/false);
    while (!frames_.empty()) step(*next_++);
  } catch (...) {
    unwind();
    throw;
  }
  return std::exchange(value_, Datum());
}

/// Gives back what a program that failed held.
void Machine::unwind() {
  for (const Datum& arg : args_) heap_.release(arg);
  args_.clear();
  for (const Frame& frame : frames_) {
    const int64_t registers = program_.functions[static_cast<size_t>(frame.function)].registers;
    for (int64_t i = 0; i < registers; ++i) heap_.release(stack_[frame.base + static_cast<size_t>(i)]);
    heap_.release(Datum::of(Kind::kClosure, 0, frame.closure));
  }
  frames_.clear();
  heap_.free_cycles();
}

const CodeFunction& Machine::function() const {
  return program_.functions[static_cast<size_t>(frames_.back().function)];
}

/// Of a program that is not as the compiler makes it: kinds of values are not checked before.
void Machine::fault(Fault what) const {
  fail("module: instruction {} of {}: {}", next_ - code_ - 1, function().name,
       kFaultTexts[static_cast<size_t>(what)]);
}

Datum Machine::take(int32_t arg) {
  const Datum value = peek(arg);
  if (arg < 0)
    registers_[~arg] = kNothing;
  else
    Heap::retain(value);
  return value;
}

/// After a read in place: the last use frees.
void Machine::done(int32_t arg) {
  if (arg < 0) heap_.release(take(arg));
}

void Machine::set(int32_t result, Datum value) {
  const Datum before = registers_[result];
  registers_[result] = value;
  heap_.release(before);
}

void Machine::gather(std::span<const int32_t> args) {
  args_.resize(args.size());
  for (size_t k = 0; k < args.size(); ++k) args_[k] = take(args[k]);
}

void Machine::step(const Instruction& i) {
  switch (i.op) {
    case Opcode::kConstant:
      Heap::retain(constants_[static_cast<size_t>(i.number)]);
      return set(i.results[0], constants_[static_cast<size_t>(i.number)]);
    case Opcode::kCopy:
      return set(i.results[0], take(i.args[0]));
    case Opcode::kPlan:
      return plan(i);
    case Opcode::kLibrary:
      return library(i);
    case Opcode::kScalar:
      return scalar(i);
    case Opcode::kSized:
      return sized_step(i);
    case Opcode::kTuple:
      return aggregate(i, Kind::kTuple);
    case Opcode::kData:
      return aggregate(i, Kind::kData);
    case Opcode::kClosure:
      return aggregate(i, Kind::kClosure);
    case Opcode::kField:
      return field(i);
    case Opcode::kCaptured:
    case Opcode::kSelf:
      return captured(i);
    case Opcode::kNewReference:
    case Opcode::kRead:
    case Opcode::kWrite:
      return reference(i);
    case Opcode::kBranch:
    case Opcode::kSwitch:
      return branch(i);
    case Opcode::kJump:
      return jump(i, 0);
    case Opcode::kCall:
    case Opcode::kTailCall:
      gather(i.args);
      return enter(i.number, nullptr, i.op == Opcode::kTailCall);
    case Opcode::kCallClosure:
    case Opcode::kTailCallClosure:
      return closure_call(i, i.op == Opcode::kTailCallClosure);
    case Opcode::kReturn:
      return leave(i);
    case Opcode::kFail:
      fail("{}", program_.messages[static_cast<size_t>(i.number)]);
  }
}

void Machine::scalar(const Instruction& i) {
  const bool select = i.scalar == ScalarOp::kSelect;
  const size_t first = select ? 1 : 0;
  for (size_t k = first; k < i.args.size(); ++k)
    if (!peek(i.args[k]).is_number(i.dtype)) fault(Fault::kNumberType);
  if (select && !peek(i.args[0]).is_number(kBool)) fault(Fault::kChoiceNoBool);
  // Numbers own nothing: nothing is to be released, but what is used for the last time has no value then.
  if (select) return set(i.results[0], peek(i.args[peek(i.args[0]).number.integer ? 1 : 2]));
  const Number a = peek(i.args[0]).number;
  if (i.scalar == ScalarOp::kCast) {
    const DataType to = *dtype_of_number(i.number);
    return set(i.results[0], Datum::of(to, cast_number(i.dtype, to, a)));
  }
  const Number b = i.args.size() > 1 ? peek(i.args[1]).number : Number{};
  set(i.results[0],
      Datum::of(scalar_result_type(i.scalar, i.dtype), compute_scalar(i.scalar, i.dtype, a, b)));
}

void Machine::aggregate(const Instruction& i, Kind kind) {
  Object* object = i.args.empty() ? nullptr : heap_.make(kind, i.args.size());
  for (size_t k = 0; k < i.args.size(); ++k) object->parts()[k] = take(i.args[k]);
  set(i.results[0], Datum::of(kind, kind == Kind::kTuple ? 0 : static_cast<uint32_t>(i.number), object));
}

void Machine::field(const Instruction& i) {
  const Datum& whole = peek(i.args[0]);
  if ((whole.kind != Kind::kTuple && whole.kind != Kind::kData) || !whole.object ||
      i.number >= whole.object->count)
    fault(Fault::kNoPart);
  const Datum part = whole.object->parts()[i.number];
  Heap::retain(part);
  done(i.args[0]);
  set(i.results[0], part);
}

void Machine::captured(const Instruction& i) {
  const Frame& frame = frames_.back();
  Datum value = Datum::of(Kind::kClosure, static_cast<uint32_t>(frame.function), frame.closure);
  if (i.op == Opcode::kCaptured) {
    if (!frame.closure) fault(Fault::kNoCapture);
    value = frame.closure->parts()[i.number];
  }
  Heap::retain(value);
  set(i.results[0], value);
}

void Machine::reference(const Instruction& i) {
  if (i.op == Opcode::kNewReference) {
    heap_.maybe_free_cycles();
    return set(i.results[0], Datum::of(Kind::kReference, 0, &heap_.make_reference(take(i.args[0]))->head));
  }
  if (peek(i.args[0]).kind != Kind::kReference) fault(Fault::kNoReference);
  auto* cell = reinterpret_cast<ReferenceObject*>(peek(i.args[0]).object);
  Datum result = Datum::of(Kind::kTuple, 0, nullptr);
  if (i.op == Opcode::kRead) {
    result = cell->value;
    Heap::retain(result);
  } else {
    heap_.release(std::exchange(cell->value, take(i.args[1])));
  }
  done(i.args[0]);
  set(i.results[0], result);
}

void Machine::branch(const Instruction& i) {
  const Datum& by = peek(i.args[0]);
  if (i.op == Opcode::kBranch) {
    if (!by.is_number(kBool)) fault(Fault::kBranchNoBool);
    if (!by.number.integer) jump(i, 0);
    return;
  }
  if (by.kind != Kind::kData || by.tag < i.number ||
      by.tag - static_cast<uint64_t>(i.number) >= i.targets.size())
    fault(Fault::kNoSuchData);
  jump(i, by.tag - static_cast<size_t>(i.number));
  done(i.args[0]);
}

/// The arguments are in args_; takes over `closure`.
void Machine::enter(int64_t number, Object* closure, bool in_place) {
  const CodeFunction& callee = program_.functions[static_cast<size_t>(number)];
  size_t base = 0;
  if (!frames_.empty())
    base = frames_.back().base + (in_place ? 0 : static_cast<size_t>(function().registers));
  reserve(base + static_cast<size_t>(callee.registers));
  if (in_place) {
    use_frame();
    const int64_t registers = function().registers;
    for (int64_t k = 0; k < registers; ++k) heap_.release(registers_[k]);
    heap_.release(Datum::of(Kind::kClosure, 0, frames_.back().closure));
    frames_.back() = {number, base, closure, nullptr};
  } else {
    if (frames_.size() >= kMaxCalls) {
      heap_.release(Datum::of(Kind::kClosure, 0, closure));
      fail("calls nest more than {} deep", kMaxCalls);
    }
    if (!frames_.empty()) frames_.back().next = next_;
    frames_.push_back({number, base, closure, nullptr});
  }
  use_frame();
  next_ = code_;
  const size_t args = args_.size(), registers = static_cast<size_t>(callee.registers);
  for (size_t k = 0; k < args; ++k) registers_[k] = args_[k];
  for (size_t k = args; k < registers; ++k) registers_[k] = kNothing;
  args_.clear();
}

void Machine::closure_call(const Instruction& i, bool in_place) {
  if (peek(i.args[0]).kind != Kind::kClosure) fault(Fault::kNoFunction);
  const CodeFunction& callee = program_.functions[peek(i.args[0]).tag];
  if (static_cast<size_t>(callee.params) != i.args.size() - 1) fault(Fault::kArgumentCount);
  // The arguments first: one of them may be the function itself, moved.
  gather(std::span(i.args).subspan(1));
  const Datum closure = take(i.args[0]);
  enter(closure.tag, closure.object, in_place);
}

void Machine::leave(const Instruction& i) {
  const Datum value = take(i.args[0]);
  const int64_t registers = function().registers;
  for (int64_t k = 0; k < registers; ++k) heap_.release(registers_[k]);
  heap_.release(Datum::of(Kind::kClosure, 0, frames_.back().closure));
  frames_.pop_back();
  if (frames_.empty()) {
    value_ = value;
    return;
  }
  use_frame();
  next_ = frames_.back().next;
  set(next_[-1].results[0], value);
}

/// Room for so many registers of all frames.
void Machine::reserve(size_t registers) {
  if (registers <= stack_size_) return;
  const size_t size = std::max(registers, 2 * stack_size_ + 64);
  auto larger = std::make_unique<Datum[]>(size);
  std::copy_n(stack_.get(), stack_size_, larger.get());
  stack_ = std::move(larger);
  stack_size_ = size;
}

void Machine::use_frame() {
  registers_ = stack_.get() + frames_.back().base;
  code_ = function().code.data();
}

}  // namespace lathe::runtime
