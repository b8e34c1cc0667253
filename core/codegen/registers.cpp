#include "core/codegen/registers.h"

#include <algorithm>

#include "core/codegen/address.h"

namespace lathe::codegen {
namespace {
/// Registers have no addresses: every access must be at a place known now, and two accesses must mean the
/// same register or different ones. One access that does not fit puts the whole buffer on the stack.
class Planner {
  using Places = std::set<std::pair<int64_t, int>>;

 public:
  RegisterPlan run(const tir::Stmt& body) {
    visit(body);
    for (auto& [buffer, planned] : buffers_) add_loads(planned.places, loads_[buffer]);
    std::erase_if(buffers_, [&](const auto& each) {
      // Overlaps show only when all places are known.
      return refused_.count(each.first) || !disjoint(each.second.places) || !is_matrix(each.second);
    });
    return std::move(buffers_);
  }

 private:
  void visit(const NodeRef& node) {
    if (const tir::Alloc* alloc = node.as<tir::Alloc>()) {
      if (alloc->buffer->scope == tir::Scope::kLocal) {
        buffers_[alloc->buffer.get()];
        depth_of_[alloc->buffer.get()] = {parallel_depth_, loop_depth_};
      }
      return visit(alloc->body);
    }
    const tir::For* loop = node.as<tir::For>();
    // Its body is a function of its own, which has other registers.
    bool parallel = loop && loop->iteration == tir::Iteration::kParallel;
    parallel_depth_ += parallel;
    loop_depth_ += loop != nullptr;
    if (const tir::Load* load = node.as<tir::Load>()) access(load->buffer, load->indices, true);
    if (const tir::Store* store = node.as<tir::Store>()) access(store->buffer, store->indices, false);
    node->for_each_child([&](const NodeRef& child) {
      if (!child.as<tir::BufferNode>()) visit(child);
    });
    parallel_depth_ -= parallel;
    loop_depth_ -= loop != nullptr;
  }

  void access(const tir::Buffer& buffer, const std::vector<Expr>& indices, bool loads) {
    auto found = buffers_.find(buffer.get());
    if (found == buffers_.end()) return;
    FlatAccess at = flatten(buffer, indices);
    RegisterBuffer& place = found->second;
    Depth depth = depth_of_[buffer.get()];
    // Elements a row apart, read in no loop inside the allocation: there the emitter transposes
    // (emit_transpose.cpp).
    bool column =
        loads && at.vector_terms.empty() && at.lane_stride > 1 && at.constant >= 0 &&
        at.constant < at.lane_stride && depth.loops == loop_depth_ &&
        (!place.column_lanes || (place.row_elements == at.lane_stride && place.column_lanes == at.lanes));
    if (!at.is_constant() || !(at.is_dense() || column) || depth.parallel != parallel_depth_)
      refused_.insert(buffer.get());
    else if (at.is_dense())
      (loads ? loads_[buffer.get()] : place.places).emplace(at.constant, at.lanes);
    else
      place.row_elements = at.lane_stride, place.column_lanes = at.lanes;
  }

  /// What is loaded is a place, too, if it is not several of those that are stored, of equal lengths.
  static void add_loads(Places& places, const Places& loads) {
    for (const auto& [first, lanes] : loads) {
      int64_t end = first;
      const auto begin = places.lower_bound({first, 0});
      for (auto at = begin; at != places.end() && at->first == end && end < first + lanes; ++at)
        end += at->second == begin->second ? at->second : lanes + 1;
      if (end != first + lanes) places.emplace(first, lanes);
    }
  }

  /// Where it is read by columns: places are whole rows, in one register each, and columns no longer than
  /// there are rows.
  static bool is_matrix(const RegisterBuffer& buffer) {
    constexpr int64_t kMost = 32;
    if (!buffer.column_lanes) return true;
    if (std::max<int64_t>(buffer.column_lanes, buffer.row_elements) > kMost) return false;
    return std::all_of(buffer.places.begin(), buffer.places.end(), [&](const auto& place) {
      return place.second == buffer.row_elements && place.first % buffer.row_elements == 0;
    });
  }

  /// In rising order of their first elements, as a set holds them: each begins where the last one ends or
  /// later.
  static bool disjoint(const std::set<std::pair<int64_t, int>>& places) {
    int64_t end = 0;
    for (const auto& [first, lanes] : places) {
      if (first < end) return false;
      end = first + lanes;
    }
    return true;
  }

  /// Loops around an allocation, all and parallel ones.
  struct Depth {
    int parallel = 0, loops = 0;
  };
  RegisterPlan buffers_;
  std::map<const tir::BufferNode*, Places> loads_;
  std::map<const tir::BufferNode*, Depth> depth_of_;
  std::set<const tir::BufferNode*> refused_;
  int parallel_depth_ = 0, loop_depth_ = 0;
};
}  // namespace

RegisterPlan plan_registers(const tir::Stmt& body) { return Planner().run(body); }

}  // namespace lathe::codegen
