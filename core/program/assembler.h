// Writes one function of a program: any number of registers and labels while it is written, few of them
// after.
#pragma once

#include <string>
#include <vector>

#include "core/runtime/program/program.h"

namespace lathe::program {

using runtime::Instruction;
using runtime::Opcode;

class Assembler {
 public:
  /// The parameters are registers 0, 1, ...
  explicit Assembler(int32_t params) : registers_(params), params_(params) {}

  int32_t fresh_register() { return registers_++; }
  int32_t fresh_label() {
    labels_.push_back(-1);
    return static_cast<int32_t>(labels_.size()) - 1;
  }
  /// The label is here. Once each: after all jumps to it.
  void place(int32_t label) { labels_[static_cast<size_t>(label)] = static_cast<int32_t>(code_.size()); }
  /// Targets are labels; arguments plain registers.
  void add(Instruction instruction) { code_.push_back(std::move(instruction)); }

  /// The code as the runtime takes it: what is never reached or never used is left out, the last use of each
  /// register says so, and registers are as few as are in use at once.
  runtime::CodeFunction finish(std::string name, int64_t captured);

 private:
  void remove(const std::vector<bool>& kept);
  void remove_unreached();
  void mark_last_uses();
  void number_registers();

  std::vector<Instruction> code_;
  std::vector<int32_t> labels_;
  int32_t registers_, params_;
};

}  // namespace lathe::program
