#include "core/relay/interpret/code.h"

#include <algorithm>
#include <unordered_set>

#include "core/relay/functor.h"
#include "core/support/stack.h"

namespace lathe::relay {
namespace {

/// Of one function, inner ones first: what these capture is used here.
class Compiler {
 public:
  Compiler(std::shared_ptr<const GraphScopes> scopes, std::unordered_map<const Node*, Code>& codes)
      : scopes_(std::move(scopes)), codes_(codes) {
    for (const std::vector<Expr>& members : scopes_->members)
      for (const Expr& e : members)
        if (const Let* let = e.as<Let>()) let_values_[let->var.get()] = let->value.get();
  }

  void compile(const Ref<Function>& function) {
    with_enough_stack([&] { OneFunction(*this, function).run(); });
  }

 private:
  class OneFunction {
   public:
    OneFunction(Compiler& compiler, const Ref<Function>& function) : all_(compiler) {
      code_.function = function;
      code_.scopes = all_.scopes_;
      code_.body = all_.scopes_->places.at(function.get()).bodies[0];
    }

    void run() {
      for (const Var& param : code_.function->params) define(param.get());
      use(code_.function->body);
      walk_scopes();
      for (const Node* each : used_in_order_)
        if (!defined_.count(each)) code_.captured.push_back(each);
      size_t next = 0;
      for (const Node* each : code_.captured) {
        code_.slots[each] = next++;
        auto let_value = all_.let_values_.find(each);
        code_.is_self.push_back(let_value != all_.let_values_.end() &&
                                let_value->second == code_.function.get());
      }
      for (const Node* each : defined_in_order_) code_.slots[each] = next++;
      all_.codes_[code_.function.get()] = std::move(code_);
    }

   private:
    void define(const Node* node) {
      if (defined_.insert(node).second) defined_in_order_.push_back(node);
    }
    void use(const Node* node) {
      if (used_.insert(node).second) used_in_order_.push_back(node);
    }
    void use(const Expr& e) {
      if (e.as<VarNode>() || !is_leaf(e)) use(e.get());
    }

    void define_pattern(const Pattern& pattern) {
      if (const auto* variable = pattern.as<VarPattern>()) define(variable->var.get());
      pattern->for_each_child([&](const NodeRef& child) {
        if (dynamic_cast<const PatternNode*>(child.get())) define_pattern(child.cast<PatternNode>());
      });
    }

    /// The scopes of this activation: its body, and the branches, clauses and lets in it.
    void walk_scopes() {
      std::vector<int> pending{code_.body};
      while (!pending.empty()) {
        int scope = pending.back();
        pending.pop_back();
        for (const Expr& e : all_.scopes_->members[static_cast<size_t>(scope)]) {
          define(e.get());
          if (e.as<Function>()) {
            all_.compile(e.cast<Function>());
            for (const Node* each : all_.codes_.at(e.get()).captured) use(each);
            continue;
          }
          for_each_operand(e, [&](const Expr& operand, bool) { use(operand); });
          if (const Let* let = e.as<Let>()) define(let->var.get());
          if (const Match* match = e.as<Match>())
            for (const Clause& clause : match->clauses) define_pattern(clause.pattern);
          const std::vector<int>& bodies = all_.scopes_->places.at(e.get()).bodies;
          pending.insert(pending.end(), bodies.begin(), bodies.end());
        }
      }
    }

    Compiler& all_;
    Code code_;
    std::unordered_set<const Node*> defined_, used_;
    std::vector<const Node*> defined_in_order_, used_in_order_;
  };

  std::shared_ptr<const GraphScopes> scopes_;
  std::unordered_map<const Node*, Code>& codes_;
  std::unordered_map<const Node*, const Node*> let_values_;  // by variable
};

}  // namespace

void add_code(const Ref<Function>& global, std::unordered_map<const Node*, Code>& codes) {
  Compiler(std::make_shared<GraphScopes>(graph_scopes(global)), codes).compile(global);
}

}  // namespace lathe::relay
