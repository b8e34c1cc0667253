// Tables by node, for passes over programs of 100,000 nodes: one array, no allocation an entry. Nodes are
// known by address, so whoever fills a table keeps them alive.
#pragma once

#include <utility>
#include <vector>

#include "core/support/error.h"
#include "core/support/node.h"

namespace lathe {

/// Open addressing with linear probing. Entries are never removed. Pointers and references to values hold
/// until the next insertion.
template <typename V>
class NodeMap {
 public:
  /// The value of `node`, or null.
  V* find(const Node* node) { return const_cast<V*>(std::as_const(*this).find(node)); }
  const V* find(const Node* node) const {
    if (entries_.empty()) return nullptr;
    const Entry& entry = entries_[place(node)];
    return entry.node ? &entry.value : nullptr;
  }
  bool count(const Node* node) const { return find(node) != nullptr; }
  V& at(const Node* node) { return const_cast<V&>(std::as_const(*this).at(node)); }
  const V& at(const Node* node) const {
    const V* found = find(node);
    CHECK(found, "a table has no entry for this {}", node ? node->type().name : "null");
    return *found;
  }
  /// The value of `node`, made by default where there is none; and whether it was made.
  std::pair<V*, bool> insert(const Node* node) {
    if (4 * (size_ + 1) > 3 * entries_.size()) grow();
    Entry& entry = entries_[place(node)];
    const bool is_new = !entry.node;
    entry.node = node;
    size_ += is_new;
    return {&entry.value, is_new};
  }
  V& operator[](const Node* node) { return *insert(node).first; }
  size_t size() const { return size_; }

 private:
  struct Entry {
    const Node* node = nullptr;
    [[no_unique_address]] V value = {};
  };

  /// Where `node` is, or would be. REQUIRES: a free entry.
  size_t place(const Node* node) const {
    // Fibonacci hashing: addresses differ in their middle bits, which the product brings to the top.
    size_t at = (reinterpret_cast<uintptr_t>(node) * 0x9e3779b97f4a7c15ull) >> shift_;
    while (entries_[at].node && entries_[at].node != node) at = (at + 1) & (entries_.size() - 1);
    return at;
  }

  void grow() {
    std::vector<Entry> old(entries_.empty() ? 16 : 2 * entries_.size());
    old.swap(entries_);
    shift_ = 64 - __builtin_ctzll(entries_.size());
    for (Entry& entry : old)
      if (entry.node) entries_[place(entry.node)] = std::move(entry);
  }

  std::vector<Entry> entries_;  // a power of two of them
  size_t size_ = 0;
  int shift_ = 64;
};

class NodeSet {
 public:
  bool count(const Node* node) const { return map_.count(node); }
  /// Whether it was not there yet.
  bool insert(const Node* node) { return map_.insert(node).second; }
  size_t size() const { return map_.size(); }

 private:
  struct Nothing {};
  NodeMap<Nothing> map_;
};

}  // namespace lathe
