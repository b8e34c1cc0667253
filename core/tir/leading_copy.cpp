#include "core/tir/leading_copy.h"

#include <algorithm>
#include <unordered_set>

#include "core/arith/simplify.h"

namespace lathe::tir {
namespace {

/// What runs first, once; a sequence of nothing is what it is: of a tensor without elements.
Stmt first_of(const Stmt& stmt) {
  if (const Seq* seq = stmt.as<Seq>(); seq && !seq->stmts.empty()) return first_of(seq->stmts[0]);
  if (const Alloc* alloc = stmt.as<Alloc>()) return first_of(alloc->body);
  return stmt;
}

template <typename List>
bool same(const List& a, const List& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Expr& x, const Expr& y) { return prove_equal(x, y); });
}

/// The buffer of which `store` puts an element at the same place of `result`; null when it does anything
/// else.
Buffer copied_by(const Store& store, const Buffer& result) {
  const Load* load = store.value.as<Load>();
  const bool copies = store.buffer == result && load && load->buffer->dtype == result->dtype &&
                      same(load->buffer->shape, result->shape) && same(load->indices, store.indices);
  return copies ? load->buffer : Buffer();
}

/// All that the statement does is to copy elements of `input`, which the first store tells.
bool copies_only(const Stmt& stmt, const Buffer& result, Buffer& input) {
  if (const For* loop = stmt.as<For>()) return copies_only(loop->body, result, input);
  if (const If* branch = stmt.as<If>())
    return copies_only(branch->then_case, result, input) &&
           (!branch->else_case || copies_only(branch->else_case, result, input));
  if (const Seq* seq = stmt.as<Seq>())
    return std::all_of(seq->stmts.begin(), seq->stmts.end(),
                       [&](const Stmt& each) { return copies_only(each, result, input); });
  const Store* store = stmt.as<Store>();
  const Buffer copied = store ? copied_by(*store, result) : Buffer();
  if (!input) input = copied;
  return copied && copied == input;
}

/// Whether anything but `aside` reads the buffer.
class Readers {
 public:
  Readers(const Node* aside, const Node* buffer) : aside_(aside), buffer_(buffer) {}

  bool any(const NodeRef& node) {
    if (node.get() == aside_ || !seen_.insert(node.get()).second) return false;
    if (const Load* load = node.as<Load>(); load && load->buffer.get() == buffer_) return true;
    bool found = false;
    node->for_each_child([&](const NodeRef& child) { found = found || any(child); });
    return found;
  }

 private:
  const Node *aside_, *buffer_;
  std::unordered_set<const Node*> seen_;
};

}  // namespace

std::optional<LeadingCopy> leading_copy(const FuncNode& lowered) {
  if (lowered.outputs != 1) return std::nullopt;
  const Stmt first = first_of(lowered.body);
  const auto inputs = lowered.params.end() - 1;
  Buffer input;
  if (!copies_only(first, lowered.params.back(), input)) return std::nullopt;
  const auto found = std::find(lowered.params.begin(), inputs, input);
  if (found == inputs || first == lowered.body || Readers(first.get(), input.get()).any(lowered.body))
    return std::nullopt;
  return LeadingCopy{static_cast<size_t>(found - lowered.params.begin()), first};
}

}  // namespace lathe::tir
