// Values of the virtual machine as those of the interpreter.
#pragma once

#include "core/relay/interpret/value.h"
#include "core/runtime/program/machine.h"

namespace lathe::program {

/// Tensors are copied. Functions and references become ones that print alike and do no more.
relay::Value value_of(const runtime::Datum& datum, const runtime::Machine& machine,
                      const runtime::Program& program);

}  // namespace lathe::program
