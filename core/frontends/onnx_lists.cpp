#include "core/frontends/onnx_lists.h"

#include <numeric>

#include "core/arith/simplify.h"
#include "core/frontends/onnx_arithmetic.h"
#include "core/relay/analysis/call_type.h"
#include "core/relay/ops/attrs_require.h"
#include "core/relay/ops/attrs_tensor.h"
#include "core/relay/text.h"

namespace lathe::onnx {
namespace {
using relay::Ints;
using Dims = std::vector<Expr>;

Value next_of(const Value& i) { return plus(i, integer(1)); }

/// `List` of the prelude.
const relay::TypeData& list_data() {
  static const auto* data =
      new relay::TypeData(relay::parse_module("import \"list\"", "sequences")->types.at("List"));
  return *data;
}
const relay::Constructor& constructor(const char* name) {
  for (const relay::Constructor& each : list_data()->constructors)
    if (each->name == name) return each;
  CHECK(false, "no constructor {}", name);
  return list_data()->constructors.front();
}
relay::Type list_type(const relay::Type& item) {
  return make<relay::TypeCall>(list_data()->header, std::vector<relay::Type>{item});
}

Value of_type(const Value& value, const relay::Type& type) { return relay::with_checked_type(value, type); }
Value cast_to_type(const Value& value, const relay::Type& type) {
  return structural_equal(value->checked_type, type) ? value
                                                     : of_type(make<relay::MatchCast>(value, type), type);
}
relay::Var variable(const char* name, const relay::Type& type) {
  return of_type(relay::make_var(name, type), type).cast<relay::VarNode>();
}

Value empty_list(const relay::Type& item) {
  return of_type(make<relay::Call>(constructor("Nil"), Values{}, nullptr, std::vector<relay::Type>{item}),
                 list_type(item));
}
Value cell(const Value& item, const Value& rest) {
  return of_type(make<relay::Call>(constructor("Cons"), Values{item, rest}), rest->checked_type);
}

/// The last item, and those before it.
struct Parted {
  Value last, rest;
};
/// The run fails where there is no item.
Parted parted(const Value& list) {
  const relay::Type item = list->checked_type.as<relay::TypeCall>()->args[0];
  const relay::Var head = variable("item", item), tail = variable("items", list->checked_type);
  const relay::Pattern cons = make<relay::ConstructorPattern>(
      constructor("Cons"),
      std::vector<relay::Pattern>{make<relay::VarPattern>(head), make<relay::VarPattern>(tail)});
  const Value both = relay::typed_tuple({head, tail});
  const Value result =
      of_type(make<relay::Match>(list, std::vector<relay::Clause>{{cons, both}}, /*complete=*/false),
              both->checked_type);
  return {with_named_sizes(relay::typed_projection(result, 0)), relay::typed_projection(result, 1)};
}

/// state = next(item, state) for the items, from the last.
Values folded(const Value& list, const Values& first, FunctionRef<Values(const Value&, const Values&)> next) {
  Values all{list};
  all.insert(all.end(), first.begin(), first.end());
  Values end = loop_while(
      all, [](const Values& state) { return has_items(state[0]); },
      [&](const Values& state) {
        const Parted parts = parted(state[0]);
        Values result = next(parts.last, {state.begin() + 1, state.end()});
        result.insert(result.begin(), parts.rest);
        return result;
      });
  return {end.begin() + 1, end.end()};
}

Value reversed(const Value& list) {
  const Value none = empty_list(list->checked_type.as<relay::TypeCall>()->args[0]);
  return folded(list, {none},
                [](const Value& item, const Values& state) { return Values{with_last(state[0], item)}; })[0];
}

/// A list without its last `count` items, and these, the first of them in front.
struct Split {
  Value before, behind;
};
Split split_behind(const Value& list, const Value& count) {
  const Value none = empty_list(list->checked_type.as<relay::TypeCall>()->args[0]);
  const Values end = loop_while(
      {list, none, count}, [](const Values& state) { return less(integer(0), state[2]); },
      [](const Values& state) {
        const Parted parts = parted(state[0]);
        return Values{parts.rest, with_last(state[1], parts.last), minus(state[2], integer(1))};
      });
  return {end[0], end[1]};
}

/// `list` with the items of `behind`, the first in front, behind it.
Value put_behind(const Value& list, const Value& behind) {
  return folded(behind, {list},
                [](const Value& item, const Values& state) { return Values{with_last(state[0], item)}; })[0];
}

/// How many items lie behind the one at a position, of -count to count - 1, or to count where that is the
/// place behind all; then -1.
Value count_behind(const Value& list, const Value& position, bool or_end) {
  const Value at = reshape(cast_to(as_data(position), kInt64), {});
  if (const Tensor* number = known(at); number && number->integer(0) < 0)
    return integer(-1 - number->integer(0));
  const Value count = length_of(list);
  const Value from_end = minus(choose(less(at, integer(0)), integer(0), count), next_of(at));
  const Value holds = emit("less_equal", {integer(or_end ? -1 : 0), from_end});
  return emit("require", {from_end, holds},
              make<relay::RequireAttrs>(std::string("a position beyond the end of a sequence")));
}

/// Dimensions of the items of a list, of which those that differ by their types are the last item's.
Dims item_dims(const Value& list) {
  const relay::TensorType& type = item_type(list);
  const bool open = std::any_of(type.shape.begin(), type.shape.end(),
                                [](const Expr& dim) { return dim.as<Any>() != nullptr; });
  return open ? dims_of(parted(list).last) : type.shape;
}

/// A number of rank 0 as a dimension.
Expr dim_of(const Value& number) {
  const Value zeros = zeros_of(number);
  OpenDimensions::current()->learn_from(zeros);
  return dims_of(zeros)[0];
}

/// Rows begin, begin + 1, ... replaced.
Value with_rows(const Value& all, const Value& begin, const Value& rows) {
  const Expr count = dims_of(rows)[0];
  const Value places = reshape_to(plus(counted_to(count), begin), {Expr(1), count});
  return emit("scatter_nd", {all, places, rows}, make<relay::ScatterNdAttrs>(std::string("update")));
}

/// Axis `from` moved to place `to`.
Value axis_moved(const Value& value, int64_t from, int64_t to) {
  Ints order(dims_of(value).size());
  std::iota(order.begin(), order.end(), 0);
  order.erase(order.begin() + from);
  order.insert(order.begin() + to, from);
  return from == to ? value : transposed(value, order);
}

Value stacked(const Value& list, int64_t axis) {
  const Value count = length_of(list);
  const Dims dims = item_dims(list);
  Dims shape = dims;
  shape.insert(shape.begin(), dim_of(count));
  const Value room = repeated_to(scalar(item_type(list).dtype, 0), shape);
  const Value rows = folded(list, {count, room}, [&](const Value& item, const Values& state) {
    const Value at = minus(state[0], integer(1));
    return Values{at, with_row(state[1], at, with_dims(item, dims))};
  })[1];
  return axis_moved(rows, 0, axis);
}

Value joined(const Value& list, int64_t axis) {
  const auto at = static_cast<size_t>(axis);
  auto extent = [&](const Value& item) { return number_of(dims_of(item)[at]); };
  const Value count = folded(list, {integer(0)}, [&](const Value& item, const Values& state) {
    return Values{plus(state[0], extent(item))};
  })[0];
  Dims dims = item_dims(list), shape = dims;
  shape.erase(shape.begin() + axis);
  shape.insert(shape.begin(), dim_of(count));
  const Value room = repeated_to(scalar(item_type(list).dtype, 0), shape);
  const Value rows = folded(list, {count, room}, [&](const Value& item, const Values& state) {
    Dims own = dims;
    own[at] = dims_of(item)[at];
    const Value begin = minus(state[0], extent(item));
    return Values{begin, with_rows(state[1], begin, axis_moved(with_dims(item, own), axis, 0))};
  })[1];
  return axis_moved(rows, 0, axis);
}

}  // namespace

Value has_items(const Value& list) {
  auto is = [](bool value) { return constant(full({}, kBool, value)); };
  const relay::Pattern any = make<relay::WildcardPattern>();
  const relay::Pattern some = make<relay::ConstructorPattern>(constructor("Cons"), std::vector{any, any});
  const Value result = make<relay::Match>(
      list, std::vector<relay::Clause>{{some, is(true)}, {any, is(false)}}, /*complete=*/true);
  return of_type(result, relay::tensor_type(Dims{}, kBool));
}

bool is_list(const Value& value) {
  const auto* type = value->checked_type.as<relay::TypeCall>();
  return type && type->callee->name == list_data()->header->name;
}

bool is_sequence(const Value& value) { return value.as<relay::Tuple>() || is_list(value); }

const relay::TensorType& item_type(const Value& list) {
  return *list->checked_type.as<relay::TypeCall>()->args[0].as<relay::TensorType>();
}

relay::Type common_item_type(const Values& sequences) {
  relay::Type common;
  auto add = [&](const relay::Type& type) {
    common = common ? common_type(common, type) : type;
    return common != nullptr;
  };
  for (const Value& sequence : sequences) {
    if (is_list(sequence)) {
      if (!add(sequence->checked_type.as<relay::TypeCall>()->args[0])) return nullptr;
      continue;
    }
    for (const Value& item : sequence.as<relay::Tuple>()->items)
      if (!item->checked_type.as<relay::TensorType>() || !add(item->checked_type)) return nullptr;
  }
  return common;
}

Value as_list(const Value& sequence, const relay::Type& type) {
  if (is_list(sequence)) return cast_to_type(sequence, list_type(type));
  Value list = empty_list(type);
  for (const Value& item : sequence.as<relay::Tuple>()->items)
    list = cell(cast_to_type(as_data(item), type), list);
  return list;
}

Value with_last(const Value& list, const Value& item) {
  const relay::Type type = common_item_type({list, tuple_of({item})});
  if (!type)
    fail("a sequence of {} cannot have an item of {}",
         relay::print(list->checked_type.as<relay::TypeCall>()->args[0]), relay::print(item->checked_type));
  return cell(cast_to_type(as_data(item), type), as_list(list, type));
}

Value length_of(const Value& list) {
  return folded(list, {integer(0)},
                [](const Value&, const Values& state) { return Values{next_of(state[0])}; })[0];
}

Value item_at(const Value& list, const Value& position) {
  return parted(split_behind(list, count_behind(list, position, false)).before).last;
}

Value with_item_at(const Value& list, const Value& position, const Value& item) {
  const Split split = split_behind(list, next_of(count_behind(list, position, true)));
  return put_behind(with_last(split.before, item), split.behind);
}

Value without_item_at(const Value& list, const Value& position) {
  const Split split = split_behind(list, count_behind(list, position, false));
  return put_behind(parted(split.before).rest, split.behind);
}

Value joined_items(const Value& list, int64_t axis, bool new_axis) {
  return new_axis ? stacked(list, axis) : joined(list, axis);
}

Values mapped_items(const Values& lists, FunctionRef<Values(const Values&)> f) {
  Values first;
  for (const Value& list : lists) first.push_back(reversed(list));
  auto items_and_rest = [&](const Values& state) {
    std::pair<Values, Values> result;
    for (size_t i = 0; i < lists.size(); ++i) {
      const Parted parts = parted(state[i]);
      result.first.push_back(parts.last), result.second.push_back(parts.rest);
    }
    return result;
  };
  // What an item gives, for its type alone.
  OpenDimensions::Scope scope;
  const Values results = f(items_and_rest(first).first);
  scope.leave();
  for (const Value& result : results) first.push_back(empty_list(with_told_sizes(result->checked_type)));
  const Values end = loop_while(
      first, [](const Values& state) { return has_items(state[0]); },
      [&](const Values& state) {
        auto [items, after] = items_and_rest(state);
        const Values results = f(items);
        for (size_t i = 0; i < results.size(); ++i)
          after.push_back(with_last(state[lists.size() + i], results[i]));
        return after;
      });
  return {end.begin() + static_cast<std::ptrdiff_t>(lists.size()), end.end()};
}

Value list_of_parts(const Value& count, FunctionRef<Value(const Value&)> part) {
  OpenDimensions::Scope scope;
  const Value first = part(integer(0));
  scope.leave();
  return loop_while(
      {integer(0), empty_list(with_told_sizes(first->checked_type))},
      [&](const Values& state) { return less(state[0], count); },
      [&](const Values& state) {
        return Values{next_of(state[0]), with_last(state[1], part(state[0]))};
      })[1];
}

Value sequence_of_rows(const Value& all) {
  const Dims dims = dims_of(all), shape(dims.begin() + 1, dims.end());
  const int64_t* count = as_int(dims[0]);
  if (!count || *count > Node::kMostSteps)
    return list_of_parts(number_of(dims[0]), [&](const Value& i) { return row_of(all, i); });
  Values rows;
  for (int64_t i = 0; i < *count; ++i) rows.push_back(reshape_to(sliced(all, 0, i, i + 1), shape));
  return tuple_of(rows);
}

std::map<std::string, relay::TypeData> list_types(const Value& body) {
  bool has_lists = false;
  post_order(body, [&](const NodeRef& node) { has_lists |= node.as<relay::ConstructorNode>() != nullptr; });
  if (!has_lists) return {};
  return {{list_data()->header->name, list_data()}};
}

}  // namespace lathe::onnx
