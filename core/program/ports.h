// The tensors that main takes and gives: its parameters and its value, tuples taken apart.
#pragma once

#include <string>
#include <vector>

#include "core/program/assembler.h"
#include "core/relay/expr.h"

namespace lathe::program {

/// A tensor of the interface: an input, or an output.
struct TensorPort {
  std::string name;
  Ref<relay::TensorType> type;
};

/// Appends the types of a type's tensors, tuples taken apart. False for other values.
bool append_tensor_types(const relay::Type& type, std::vector<Ref<relay::TensorType>>& tensors);

/// Whether main takes and gives tensors, and tuples of them.
bool has_ports(const relay::Function& main);
/// The tensors of main's parameters and of its value, as the entry takes and gives them. Throws Error where
/// main has another type.
std::vector<TensorPort> input_ports(const relay::Function& main);
std::vector<TensorPort> output_ports(const relay::Function& main);

/// By its annotation, or as inferred.
relay::Type result_of(const relay::Function& function);

/// Appends the registers of the tensors of a value, with the code that takes its tuples apart.
void take_apart(Assembler& code, int32_t value, const relay::Type& type, std::vector<int32_t>& tensors);
/// The register of a value of the type, with the code that makes it of the tensors in registers `next` and
/// those that follow. Moves `next` past them.
int32_t put_together(Assembler& code, const relay::Type& type, int32_t& next);

}  // namespace lathe::program
