// The entries that were used last.
#pragma once

#include <cstddef>
#include <list>
#include <map>
#include <utility>

namespace lathe {

/// A map of `most` entries at most: the one that was not used for the longest goes for a new one.
template <typename Key, typename Value>
class RecentlyUsed {
 public:
  explicit RecentlyUsed(size_t most) : most_(most) {}

  /// Null where there is none. Good until the next put().
  const Value* find(const Key& key) {
    const auto found = entries_.find(key);
    if (found == entries_.end()) return nullptr;
    by_use_.splice(by_use_.begin(), by_use_, found->second);
    return &found->second->second;
  }

  void put(const Key& key, Value value) {
    if (const auto found = entries_.find(key); found != entries_.end()) {
      by_use_.erase(found->second);
      entries_.erase(found);
    }
    by_use_.emplace_front(key, std::move(value));
    entries_[key] = by_use_.begin();
    if (by_use_.size() <= most_) return;
    entries_.erase(by_use_.back().first);
    by_use_.pop_back();
  }

  size_t size() const { return by_use_.size(); }

 private:
  using Entries = std::list<std::pair<Key, Value>>;  // the last used first
  const size_t most_;
  Entries by_use_;
  std::map<Key, typename Entries::iterator> entries_;
};

}  // namespace lathe
