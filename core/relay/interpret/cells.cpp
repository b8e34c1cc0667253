#include "core/relay/interpret/cells.h"

#include <algorithm>

#include "core/support/node_map.h"

namespace lathe::relay {
namespace {

/// Calls f with each reference that `value` holds, without looking into cells. With a stack of its own: lists
/// are long. `seen` are the values met so far.
void for_each_reference(const Value& value, NodeSet& seen, FunctionRef<void(const Value&)> f) {
  std::vector<const Value*> stack{&value};
  auto push = [&](const std::vector<Value>& parts) {
    for (const Value& each : parts) stack.push_back(&each);
  };
  while (!stack.empty()) {
    const Value& each = *stack.back();
    stack.pop_back();
    if (!each || each.as<TensorValue>() || !seen.insert(each.get())) continue;
    if (each.as<RefValue>()) f(each);
    if (const TupleValue* tuple = each.as<TupleValue>()) push(tuple->items);
    if (const DataValue* data = each.as<DataValue>()) push(data->fields_of);
    if (const ClosureValue* closure = each.as<ClosureValue>()) push(closure->captured);
  }
}

}  // namespace

Value Cells::create(Value value) {
  size_t at = cells_.size();
  if (free_.empty()) {
    cells_.push_back(std::move(value));
  } else {
    at = free_.back();
    free_.pop_back();
    cells_[at] = std::move(value);
  }
  return make<RefValue>(static_cast<int64_t>(at));
}

void Cells::collect(const std::vector<Value>& roots) {
  std::vector<bool> reached(cells_.size());
  std::vector<size_t> pending;
  NodeSet seen;
  auto mark = [&](const Value& reference) {
    const size_t at = index(*reference.as<RefValue>());
    if (!reached[at]) pending.push_back(at);
    reached[at] = true;
  };
  for (const Value& each : roots) for_each_reference(each, seen, mark);
  for (const Value& each : kept_) for_each_reference(each, seen, mark);
  while (!pending.empty()) {
    const size_t at = pending.back();
    pending.pop_back();
    for_each_reference(cells_[at], seen, mark);
  }
  free_.clear();
  for (size_t i = 0; i < cells_.size(); ++i)
    if (!reached[i]) {
      cells_[i] = Value();
      free_.push_back(i);
    }
  limit_ = std::max<size_t>(1024, 2 * used());
}

void Cells::keep(const Value& value) {
  NodeSet seen;
  for_each_reference(value, seen, [&](const Value& reference) { kept_.push_back(reference); });
}

}  // namespace lathe::relay
