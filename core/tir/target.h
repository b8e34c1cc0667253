// What a tensor program is compiled for: enough of the machine for schedules and code generation to decide.
#pragma once

#include <memory>
#include <string>

namespace lathe {

struct MachineModel;  // core/tir/machine.h

/// One line of text ("cpu:mcpu=sapphirerapids,vector=512,...") stands for it in the database and on the wire.
/// core/codegen/host_target.h fills one in from "cpu" by looking at this machine.
struct Target {
  std::string kind = "cpu";
  std::string triple;     // LLVM's, e.g. x86_64-unknown-linux-gnu
  std::string cpu;        // LLVM's -mcpu name
  std::string features;   // LLVM's -mattr list, "+avx512f,+fma"; may be empty
  int vector_bits = 128;  // width of the widest vector registers worth using
  int vector_registers = 16;
  int cores = 1;
  int64_t l1_bytes = 32 << 10, l2_bytes = 1 << 20,
          l3_bytes = 8 << 20;  // data caches: L1, L2 per core; L3 in all

  /// Lanes of a vector of float32.
  int lanes() const { return vector_bits / 32; }
  /// Lanes that an instruction costs by: a vector takes as long as one of the next multiple of it. All of
  /// them, or half where 512 bits go through units of 256.
  int lanes_at_once() const;
  /// Vectors of floats of 16 bits are widened by an instruction: AVX2 comes with F16C, AArch64 has it always.
  bool converts_half() const;
  /// A multiply-add broadcasts an element of memory itself, or multiplies by a lane of another vector. Where
  /// neither is there, a broadcast is an instruction of its own, and takes a register.
  bool broadcasts_operands() const;
  /// Of equal text.
  bool operator==(const Target& other) const;

  /// What was measured of this machine, when it is the one at hand; null: its row of the table counts
  /// (machine_of). No part of the text: it decides which schedules are tried, not what they are schedules of.
  std::shared_ptr<const MachineModel> measured;
};

/// Canonical text: equal targets give equal text. parse_target_text is its inverse and throws Error.
std::string to_text(const Target& target);
Target parse_target_text(const std::string& text);

}  // namespace lathe
