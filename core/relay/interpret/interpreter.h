// The oracle: runs programs of the whole language, slowly and obviously. Compiled programs are compared with
// it.
#pragma once

#include <functional>
#include <memory>

#include "core/relay/interpret/value.h"
#include "core/support/placed_error.h"

namespace lathe::relay {

/// A program that ran into an error: an incomplete match without a clause, a cast that does not hold, shapes
/// that do not fit. what() begins with the place.
class RunError : public PlacedError {
 public:
  using PlacedError::PlacedError;
};

/// A machine of explicit activations: recursion costs memory and no stack, and a call in tail position costs
/// neither, whichever function it is of. Operators run by their tensor programs (tir::interpret), on exact
/// shapes. Arguments and members of a scope are evaluated once, in the order the text form writes them.
class Interpreter {
 public:
  /// Infers types: throws TypeError.
  explicit Interpreter(const Module& module);
  ~Interpreter();

  /// The value of a global function's call. References in it stay those of this interpreter. Throws RunError;
  /// Error for a function that does not exist and for arguments that are not of its parameters' types, and
  /// for programs whose calls nest more than 500,000 deep.
  Value call(const std::string& function, const std::vector<Value>& args = {});
  /// What a reference holds now.
  Value read(const RefValue& reference) const;
  /// Cells of references that have not been freed: those that values and calls under way reach, those in
  /// values that call() gave, and perhaps as many more.
  size_t cells() const;

  /// A library function: reads the inputs and writes the results, whose shapes are those of the call's type.
  using Library = std::function<void(const std::vector<Tensor>& inputs, std::vector<Tensor>& results)>;
  /// What call_dps_library("symbol", ...) calls from now on. A call of a symbol that has none is a RunError.
  void add_library(const std::string& symbol, Library function);

  /// With types.
  const Module& module() const;

 private:
  struct Machine;
  std::unique_ptr<Machine> machine_;
};

}  // namespace lathe::relay
