// Objects that are shared for as long as somebody holds them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>

namespace lathe::tracker {

/// Remembers, of the objects that were made, at most about twice as many as are held.
template <typename Key, typename T>
class WeakCache {
 public:
  /// The one that somebody holds, or what `make()` returns, a T.
  template <typename Make>
  std::shared_ptr<const T> get(const Key& key, Make make) {
    const auto found = known_.find(key);
    if (found != known_.end())
      if (auto held = found->second.lock()) return held;
    auto made = std::make_shared<const T>(make());
    if (known_.size() >= sweep_at_) {
      std::erase_if(known_, [](const auto& entry) { return entry.second.expired(); });
      sweep_at_ = std::max(kFewest, 2 * known_.size());
    }
    known_[key] = made;
    return made;
  }
  size_t size() const { return known_.size(); }

 private:
  static constexpr size_t kFewest = 64;
  std::map<Key, std::weak_ptr<const T>> known_;
  size_t sweep_at_ = kFewest;
};

}  // namespace lathe::tracker
