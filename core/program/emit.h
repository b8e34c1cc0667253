// From outlined functions to the code of the virtual machine.
#pragma once

#include <string>
#include <vector>

#include "core/relay/expr.h"
#include "core/runtime/program/program.h"

namespace lathe::program {

struct Code {
  runtime::Program program;            // without plans, and places of constants
  std::vector<std::string> stretches;  // the function that plan i is to be of
  std::vector<Tensor> constants;
};

/// Closures get the values that they capture, matches become decisions (match_tree.h), calls in tail position
/// tail calls. The entry takes the tensors of main's parameters, tuples taken apart, and gives those of its
/// value in a tuple; where one of them is something else, the entry is main itself. Throws PlacedError for
/// what cannot be compiled. REQUIRES: outline_stretches().
Code emit(const relay::Module& module);

}  // namespace lathe::program
