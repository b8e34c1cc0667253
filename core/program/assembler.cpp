#include "core/program/assembler.h"

#include <algorithm>
#include <boost/dynamic_bitset.hpp>
#include <queue>
#include <unordered_map>

#include "core/runtime/program/sized.h"

namespace lathe::program {
namespace {

/// Whether control may reach the instruction behind it.
bool goes_on(Opcode op) {
  switch (op) {
    case Opcode::kSwitch:
    case Opcode::kJump:
    case Opcode::kTailCall:
    case Opcode::kTailCallClosure:
    case Opcode::kReturn:
    case Opcode::kFail:
      return false;
    default:
      return true;
  }
}

/// Whether nothing but its results tells that it ran.
bool is_pure(const Instruction& i) {
  switch (i.op) {
    case Opcode::kSized:
      return !runtime::may_fail(i.sized);
    case Opcode::kConstant:
    case Opcode::kCopy:
    case Opcode::kScalar:
    case Opcode::kTuple:
    case Opcode::kField:
    case Opcode::kData:
    case Opcode::kClosure:
    case Opcode::kCaptured:
    case Opcode::kSelf:
      return true;
    default:
      return false;
  }
}

/// A function's own value is moved after the arguments (machine.cpp): what is used last stands first here.
std::vector<size_t> last_used_first(const Instruction& i) {
  std::vector<size_t> order;
  const bool closure = i.op == Opcode::kCallClosure || i.op == Opcode::kTailCallClosure;
  if (closure) order.push_back(0);
  for (size_t k = i.args.size(); k-- > (closure ? 1 : 0);) order.push_back(k);
  return order;
}

}  // namespace

/// Targets are places in the code by now.
void Assembler::remove(const std::vector<bool>& kept) {
  std::vector<int32_t> place(code_.size() + 1);
  int32_t next = 0;
  for (size_t i = 0; i < code_.size(); ++i) {
    place[i] = next;
    next += kept[i] ? 1 : 0;
  }
  std::vector<Instruction> code;
  for (size_t i = 0; i < code_.size(); ++i) {
    if (!kept[i]) continue;
    for (int32_t& target : code_[i].targets) target = place[static_cast<size_t>(target)];
    code.push_back(std::move(code_[i]));
  }
  code_ = std::move(code);
}

/// And jumps to what follows anyway.
void Assembler::remove_unreached() {
  std::vector<bool> reached(code_.size() + 1);
  reached[0] = true;
  for (size_t i = 0; i < code_.size(); ++i) {
    if (!reached[i]) continue;
    for (int32_t target : code_[i].targets) reached[static_cast<size_t>(target)] = true;
    if (goes_on(code_[i].op)) reached[i + 1] = true;
  }
  reached.pop_back();
  remove(reached);
  std::vector<bool> kept(code_.size(), true);
  for (size_t i = 0; i < code_.size(); ++i)
    if (code_[i].op == Opcode::kJump && code_[i].targets[0] == static_cast<int32_t>(i) + 1) kept[i] = false;
  remove(kept);
}

/// From the end: the code only goes forward, so one way back over it knows all that is used later. What is
/// pure and of no later use is left out. What is used after a target is kept until its first jump, which is
/// the last one met on the way back: as many sets at once as branches nest, not as there are branches.
void Assembler::mark_last_uses() {
  using Registers = boost::dynamic_bitset<>;
  std::unordered_map<size_t, size_t> first_jump;  // by target
  for (size_t at = 0; at < code_.size(); ++at)
    for (int32_t target : code_[at].targets) first_jump.emplace(static_cast<size_t>(target), at);
  std::unordered_map<size_t, Registers> used_after;  // by target
  Registers used(static_cast<size_t>(registers_));
  std::vector<bool> kept(code_.size(), true);
  for (size_t at = code_.size(); at-- > 0;) {
    Instruction& i = code_[at];
    if (!goes_on(i.op)) used.reset();
    for (int32_t target : i.targets) used |= used_after.at(static_cast<size_t>(target));
    for (int32_t target : i.targets)
      if (first_jump.at(static_cast<size_t>(target)) == at) used_after.erase(static_cast<size_t>(target));
    const bool wanted = !is_pure(i) || used[static_cast<size_t>(i.results[0])];
    kept[at] = wanted;
    if (wanted) {
      for (int32_t result : i.results) used[static_cast<size_t>(result)] = false;
      for (size_t k : last_used_first(i)) {
        const auto r = static_cast<size_t>(i.args[k]);
        if (!used[r]) i.args[k] = ~i.args[k];
        used[r] = true;
      }
    }
    if (first_jump.count(at)) used_after[at] = used;
  }
  remove(kept);
}

/// Linear scan (Poletto and Sarkar 1999). The code goes forward, so all places where a register has a value
/// that is wanted lie between its first result and its last use.
void Assembler::number_registers() {
  std::vector<size_t> first(static_cast<size_t>(registers_), SIZE_MAX), last(first.size(), 0);
  for (size_t at = 0; at < code_.size(); ++at) {
    for (int32_t arg : code_[at].args) last[static_cast<size_t>(arg < 0 ? ~arg : arg)] = at;
    for (int32_t result : code_[at].results) {
      const auto r = static_cast<size_t>(result);
      first[r] = std::min(first[r], at);
      last[r] = std::max(last[r], at);
    }
  }
  std::vector<int32_t> number(first.size(), -1);
  std::priority_queue<int32_t, std::vector<int32_t>, std::greater<>> free;
  std::vector<std::vector<int32_t>> freed(code_.size() + 1);  // the new numbers, by when they are free
  for (int32_t p = 0; p < params_; ++p) {
    number[static_cast<size_t>(p)] = p;
    freed[last[static_cast<size_t>(p)]].push_back(p);
  }
  int32_t count = params_;
  for (size_t at = 0; at < code_.size(); ++at) {
    // An instruction is done with its arguments when it sets its results.
    for (int32_t each : freed[at]) free.push(each);
    std::vector<int32_t> results = code_[at].results;
    for (int32_t result : results) {
      const auto r = static_cast<size_t>(result);
      if (number[r] >= 0) continue;
      if (free.empty()) {
        number[r] = count++;
      } else {
        number[r] = free.top();
        free.pop();
      }
      // Not before the next: two results are two registers.
      freed[std::max(last[r], at + 1)].push_back(number[r]);
    }
  }
  for (Instruction& i : code_) {
    for (int32_t& arg : i.args)
      arg = arg < 0 ? ~number[static_cast<size_t>(~arg)] : number[static_cast<size_t>(arg)];
    for (int32_t& result : i.results) result = number[static_cast<size_t>(result)];
  }
  registers_ = count;
}

runtime::CodeFunction Assembler::finish(std::string name, int64_t captured) {
  for (Instruction& i : code_)
    for (int32_t& target : i.targets) target = labels_[static_cast<size_t>(target)];
  remove_unreached();
  mark_last_uses();
  // Pure code that is gone may leave a jump to what follows.
  remove_unreached();
  number_registers();
  return {std::move(name), params_, captured, registers_, std::move(code_)};
}

}  // namespace lathe::program
