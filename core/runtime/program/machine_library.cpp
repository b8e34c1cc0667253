// How the machine calls library functions: tensors in, and memory for the results.
#include <chrono>

#include "core/runtime/program/machine.h"
#include "core/runtime/program/sized.h"
#include "core/support/error.h"

namespace lathe::runtime {

void Machine::set_library(size_t number, LibraryFunction function) { libraries_.at(number) = function; }

/// Their tensors and numbers, in order. Without recursion: how deep tuples nest a program may compute.
void Machine::flatten_inputs(std::span<const Datum> args) {
  flat_inputs_.clear();
  pending_.assign(args.rbegin(), args.rend());
  while (!pending_.empty()) {
    const Datum datum = pending_.back();
    pending_.pop_back();
    if (datum.kind == Kind::kNumber || datum.kind == Kind::kTensor)
      flat_inputs_.push_back(datum);
    else if (datum.kind != Kind::kTuple)
      fail("an argument is neither a tensor nor a tuple of tensors");
    else if (datum.object)
      for (size_t k = datum.object->count; k-- > 0;) pending_.push_back(datum.object->parts()[k]);
  }
}

/// Numbers go to slots, behind which there is room for as many results.
void Machine::place_library_inputs(size_t results) {
  static const std::vector<int64_t> kScalar;
  if (slots_.size() < flat_inputs_.size() + results) slots_.resize(flat_inputs_.size() + results);
  library_inputs_.clear();
  for (size_t k = 0; k < flat_inputs_.size(); ++k) {
    const Datum& datum = flat_inputs_[k];
    if (datum.kind == Kind::kNumber) {
      store_number(datum.dtype(), datum.number, slots_[k].bytes);
      library_inputs_.push_back(c_tensor(kScalar, datum.dtype(), slots_[k].bytes));
    } else {
      const TensorType& type = types_[datum.tag];
      library_inputs_.push_back(
          c_tensor(type.shape, type.dtype, reinterpret_cast<TensorObject*>(datum.object)->data));
    }
  }
}

/// The numbers of the results' types: `sizes` are their dimensions that the call does not say. False when
/// these are no sizes.
bool Machine::library_types(const LibraryCall& call, std::span<const Datum> sizes) {
  library_types_.clear();
  std::vector<int64_t>& shape = library_shape_;
  for (const LibraryResult& result : call.results) {
    shape.clear();
    for (int64_t dim : result.shape) {
      if (dim < 0) {
        if (!append_sizes(sizes.first(1), 0, shape)) return false;
        sizes = sizes.subspan(1);
      } else {
        shape.push_back(dim);
      }
    }
    checked_bytes(shape, result.dtype);
    library_types_.push_back(type_number(shape, result.dtype));
  }
  return true;
}

/// The results are in args_, where unwind() finds them. False when a dimension of one is no integer.
bool Machine::run_library(const Instruction& i, std::span<const Datum> args) {
  const LibraryCall& call = program_.library_calls[static_cast<size_t>(i.number)];
  const auto inputs = static_cast<size_t>(call.inputs);
  try {
    // Types first: a new one moves the others, whose shapes inputs point at.
    if (!library_types(call, args.subspan(inputs))) return false;
    flatten_inputs(args.first(inputs));
    place_library_inputs(call.results.size());
    library_outputs_.clear();
    args_.assign(call.results.size(), Datum());
    for (size_t k = 0; k < args_.size(); ++k) {
      const TensorType& type = types_[library_types_[k]];
      void* data = slots_[flat_inputs_.size() + k].bytes;
      if (!type.shape.empty()) {
        TensorObject* object = heap_.make_tensor(type.bytes);
        args_[k] = Datum::of(Kind::kTensor, library_types_[k], &object->head);
        data = object->data;
      }
      library_outputs_.push_back(c_tensor(type.shape, type.dtype, data));
    }
    timed_library_call(static_cast<size_t>(call.function));
  } catch (const Error& error) {
    throw Error(call.place + error.what());
  }
  for (size_t k = 0; k < args_.size(); ++k)
    if (args_[k].kind == Kind::kNone)
      args_[k] = number_or_view(library_types_[k], library_outputs_[k].data, nullptr);
  return true;
}

void Machine::timed_library_call(size_t function) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point before = spent_.empty() ? Clock::time_point() : Clock::now();
  call_library(program_.library_functions[function], libraries_[function], library_inputs_, library_outputs_);
  const size_t clock = steps_ + function;
  if (!spent_.empty())
    spent_[clock] += std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - before).count();
  if (!calls_.empty()) ++calls_[clock];
}

void Machine::library(const Instruction& i) {
  plan_args_.clear();
  for (int32_t arg : i.args) plan_args_.push_back(peek(arg));
  if (!run_library(i, plan_args_)) fault(Fault::kLibrary);
  for (int32_t arg : i.args) done(arg);
  for (size_t k = 0; k < i.results.size(); ++k) set(i.results[k], args_[k]);
  args_.clear();
}

}  // namespace lathe::runtime
