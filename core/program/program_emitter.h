// The state that the code of all functions of a program shares: numbers of functions, plans, constants.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/program/emit.h"
#include "core/program/match_tree.h"
#include "core/relay/interpret/code.h"

namespace lathe::program {

/// The functions of a program, each with a number when it is first named. A function that has a number but no
/// code yet is pending: so recursion ends, and nesting costs no stack.
class ProgramEmitter {
 public:
  explicit ProgramEmitter(const relay::Module& module) : module_(module), constructors_(module) {
    code_.program.constructors = constructors_.all();
  }

  Code run();

  int64_t number_of_global(const std::string& name);
  int64_t number_of_local(const Ref<relay::Function>& function, const std::string& name);
  int64_t number_of_constructor(const relay::ConstructorNode& constructor);
  int64_t plan_of(const std::string& stretch);
  int64_t constant(const Tensor& value);
  int64_t message(const std::string& text);
  /// The number of the call, of the library function of that name.
  int64_t library_call(const std::string& symbol, runtime::LibraryCall call);
  const relay::Code& captures(const Ref<relay::Function>& function) const {
    return codes_.at(function.get());
  }
  const relay::Module& module() const { return module_; }
  const Constructors& constructors() const { return constructors_; }

 private:
  int64_t add_function() {
    code_.program.functions.emplace_back();
    return static_cast<int64_t>(code_.program.functions.size()) - 1;
  }
  void emit_pending();
  int64_t add_entry(const relay::Function& main);

  struct Pending {
    int64_t number;
    Ref<relay::Function> function;
    std::string name;
  };
  relay::Module module_;
  Constructors constructors_;
  Code code_;
  std::deque<Pending> pending_;
  std::unordered_map<const Node*, relay::Code> codes_;
  std::map<std::string, int64_t> globals_, wrappers_, plans_, messages_, libraries_;
  std::map<std::pair<const void*, std::vector<int64_t>>, int64_t> constants_;
};

}  // namespace lathe::program
