#include "core/tir/passes/pad_allocations.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "core/tir/dims.h"
#include "core/tir/machine.h"
#include "core/tir/passes/mutator.h"

namespace lathe::tir {
namespace {

/// One of so many bytes of a buffer may be added to it.
constexpr int64_t kShareAdded = 8;
/// More places than these are no tile, and are not counted out.
constexpr size_t kMostPlaces = 1024;

/// Places of a buffer, each as elements along every dimension from the first of them.
using Places = std::vector<std::vector<int64_t>>;

/// The places of one buffer that each iteration of a serial loop touches, with the unrolled loops inside.
class Touched {
 public:
  Touched(const Buffer& buffer, const Stmt& stmt) : buffer_(buffer), lane_dim_(buffer->shape.size() - 1) {
    visit(stmt);
    end_group();
  }

  /// In a buffer of that shape, the lines that put each other out of the cache, of all iterations together.
  double conflicts(const std::vector<int64_t>& shape, const Target& target) const {
    double sum = 0;
    std::vector<int64_t> addresses;
    for (const Places& group : groups_) {
      addresses.clear();
      for (const std::vector<int64_t>& place : group) {
        int64_t at = 0;
        for (size_t d = 0; d < shape.size(); ++d) at = at * shape[d] + place[d];
        addresses.push_back(at * buffer_->dtype.bytes());
      }
      sum += conflicting_lines(target, addresses);
    }
    return sum;
  }

  /// The outermost dimension that a vector's lanes lie along: what is inside of it has to stay as it is.
  size_t lane_dim() const { return lane_dim_; }

 private:
  void visit(const Stmt& stmt) {
    if (!stmt) return;
    if (const For* loop = stmt.as<For>()) {
      if (loop->iteration == Iteration::kUnrolled || loop->iteration == Iteration::kVectorized)
        return visit_tile(*loop);
      // Another iteration, another group.
      const std::vector<Expr> outer = std::exchange(first_, {});
      Places places = std::exchange(group_, {});
      visit(loop->body);
      end_group();
      first_ = outer;
      group_ = std::move(places);
    } else if (const Store* store = stmt.as<Store>()) {
      if (store->buffer == buffer_) touch(store->indices);
      post_order(store->value, [&](const NodeRef& node) {
        if (const Load* load = node.as<Load>(); load && load->buffer == buffer_) touch(load->indices);
      });
    } else {
      stmt->for_each_child([&](const NodeRef& child) {
        if (dynamic_cast<const StmtNode*>(child.get())) visit(child.cast<StmtNode>());
      });
    }
  }

  void visit_tile(const For& loop) {
    auto& loops = loop.iteration == Iteration::kUnrolled ? unrolled_ : lanes_;
    loops.push_back(&loop);
    visit(loop.body);
    loops.pop_back();
  }

  void touch(std::vector<Expr> indices) {
    VarMap first_lane;
    for (const For* loop : lanes_) first_lane[loop->var.get()] = 0;
    for (size_t d = 0; d < indices.size(); ++d) {
      for (const For* loop : lanes_)
        if (uses_var(indices[d], loop->var.get())) lane_dim_ = std::min(lane_dim_, d);
      indices[d] = simplify(substitute(indices[d], first_lane));
    }
    std::vector<Var> vars;
    for (const For* loop : unrolled_) vars.push_back(loop->var);
    std::vector<LinearForm> forms;
    for (const Expr& index : indices) {
      std::optional<LinearForm> form = linear_form(index, vars);
      if (!form) return;
      forms.push_back(std::move(*form));
    }
    if (first_.empty())
      for (const LinearForm& form : forms) first_.push_back(form.rest);
    Places places(1);
    for (size_t d = 0; d < forms.size(); ++d) {
      const Expr offset = simplify(forms[d].rest - first_[d]);
      if (!as_int(offset)) return;
      places[0].push_back(*as_int(offset));
    }
    for (const For* loop : unrolled_) {
      const int64_t* extent = as_int(loop->extent);
      std::vector<int64_t> step;
      for (const LinearForm& form : forms) {
        const auto found = form.coefficients.find(loop->var.get());
        step.push_back(found == form.coefficients.end() ? 0 : found->second);
      }
      if (std::all_of(step.begin(), step.end(), [](int64_t each) { return each == 0; })) continue;
      if (!extent || static_cast<size_t>(*extent) * places.size() > kMostPlaces) return;
      const size_t before = places.size();
      for (int64_t i = 1; i < *extent; ++i)
        for (size_t p = 0; p < before; ++p) {
          places.push_back(places[p]);
          for (size_t d = 0; d < step.size(); ++d) places.back()[d] += i * step[d];
        }
    }
    group_.insert(group_.end(), places.begin(), places.end());
  }

  void end_group() {
    if (group_.size() > 1 && group_.size() <= kMostPlaces) groups_.push_back(std::move(group_));
    group_.clear();
  }

  const Buffer& buffer_;
  size_t lane_dim_;
  std::vector<const For*> unrolled_, lanes_;  // around what is visited
  std::vector<Expr> first_;                   // of the group
  Places group_;
  std::vector<Places> groups_;
};

/// The shape with the fewest conflicts, of those the smallest; the same where they are no fewer than half.
std::vector<int64_t> padded(const std::vector<int64_t>& shape, const Touched& touched, int64_t element_bytes,
                            const Target& target) {
  const double before = touched.conflicts(shape, target);
  if (before == 0) return shape;
  std::vector<int64_t> best = shape;
  double fewest = before / 2;
  int64_t inner = element_bytes;  // bytes from one index of the dimension to the next
  for (size_t d = shape.size(); d-- > 1; inner *= shape[d]) {
    // Vectors that began at a line go on doing so.
    const int64_t step = inner % kLineBytes == 0 ? 1 : kLineBytes % inner == 0 ? kLineBytes / inner : 0;
    if (step == 0 || d > touched.lane_dim() || (shape[d] == 1 && step == 1)) continue;
    std::vector<int64_t> longer = shape;
    for (longer[d] += step; longer[d] * kShareAdded <= shape[d] * (kShareAdded + 1); longer[d] += step)
      if (const double conflicts = touched.conflicts(longer, target); conflicts < fewest) {
        best = longer;
        fewest = conflicts;
      }
  }
  return best;
}

class PadAllocations final : public StmtMutator {
 public:
  explicit PadAllocations(const Target& target) : target_(target) {}

 protected:
  Stmt visit_alloc(const Ref<Alloc>& alloc) override {
    const Stmt visited = StmtMutator::visit_alloc(alloc);
    if (!visited) return visited;
    const Ref<Alloc> inner = visited.cast<Alloc>();
    const Buffer& buffer = inner->buffer;
    // What lies in the first-level cache as a whole has no conflicts of its own.
    if (!has_constant_shape(*buffer) || buffer->shape.size() < 2 || byte_size(buffer) <= target_.l1_bytes)
      return inner;
    const std::vector<int64_t> shape = constant_shape(buffer),
                               longer = padded(shape, Touched(buffer, inner->body), buffer->dtype.bytes(),
                                               target_);
    if (longer == shape) return inner;
    const Buffer spread =
        tir::buffer(buffer->name, {longer.begin(), longer.end()}, buffer->dtype, buffer->scope);
    return make<Alloc>(spread, substitute(inner->body, {}, {{buffer.get(), spread}}));
  }

 private:
  const Target& target_;
};

}  // namespace

Stmt pad_allocations(const Stmt& body, const Target& target) { return PadAllocations(target).visit(body); }

}  // namespace lathe::tir
