#include "core/codegen/registers.h"

#include "core/codegen/address.h"

namespace lathe::codegen {
namespace {
class Planner {
 public:
  RegisterPlan run(const tir::Stmt& body) {
    visit(body);
    RegisterPlan plan;
    for (auto& [buffer, places] : places_)
      if (!refused_.count(buffer) && disjoint(places)) plan.emplace(buffer, std::move(places));
    return plan;
  }

 private:
  void visit(const NodeRef& node) {
    if (const tir::Alloc* alloc = node.as<tir::Alloc>()) {
      if (alloc->buffer->scope == tir::Scope::kLocal) {
        places_[alloc->buffer.get()];
        depth_of_[alloc->buffer.get()] = parallel_depth_;
      }
      return visit(alloc->body);
    }
    const tir::For* loop = node.as<tir::For>();
    bool parallel = loop && loop->iteration == tir::Iteration::kParallel;
    parallel_depth_ += parallel;
    if (const tir::Load* load = node.as<tir::Load>()) access(load->buffer, load->indices);
    if (const tir::Store* store = node.as<tir::Store>()) access(store->buffer, store->indices);
    node->for_each_child([&](const NodeRef& child) {
      if (!child.as<tir::BufferNode>()) visit(child);
    });
    parallel_depth_ -= parallel;
  }

  void access(const tir::Buffer& buffer, const std::vector<Expr>& indices) {
    auto found = places_.find(buffer.get());
    if (found == places_.end()) return;
    FlatAccess at = flatten(buffer, indices);
    if (!at.is_constant() || !at.is_dense() || depth_of_[buffer.get()] != parallel_depth_)
      refused_.insert(buffer.get());
    else
      found->second.emplace(at.constant, at.lanes);
  }

  static bool disjoint(const std::set<std::pair<int64_t, int>>& places) {
    int64_t end = 0;
    for (const auto& [first, lanes] : places) {
      if (first < end) return false;
      end = first + lanes;
    }
    return true;
  }

  RegisterPlan places_;
  std::map<const tir::BufferNode*, int> depth_of_;
  std::set<const tir::BufferNode*> refused_;
  int parallel_depth_ = 0;
};
}  // namespace

RegisterPlan plan_registers(const tir::Stmt& body) { return Planner().run(body); }

}  // namespace lathe::codegen
