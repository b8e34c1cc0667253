// Sequences of a length that only a run tells: lists of tensors (core/relay/prelude/list.relay), the last
// item in front, so that one more is one cell.
#pragma once

#include <map>
#include <string>

#include "core/frontends/onnx_program.h"

namespace lathe::onnx {

/// Whether the value is a sequence, of either kind: a tuple, whose items are known, or a list.
bool is_sequence(const Value& value);
bool is_list(const Value& value);
/// Of a list.
const relay::TensorType& item_type(const Value& list);

/// The type that the items of all sequences have, with `?` for sizes in which they differ; null where they
/// differ in more, or where none has an item.
relay::Type common_item_type(const Values& sequences);
/// A sequence as a list of items of `type`, which theirs are of.
Value as_list(const Value& sequence, const relay::Type& type);
/// An item of `type`, or of what is made of it by fewer known sizes, behind the others.
Value with_last(const Value& list, const Value& item);

/// Whether there is one, a boolean of rank 0.
Value has_items(const Value& list);
/// How many items, int64 of rank 0.
Value length_of(const Value& list);
/// The item at a position, which counts from the end where it is negative. The run fails where there is none.
Value item_at(const Value& list, const Value& position);
/// `item` before the one at the position; behind all where the position is their number.
Value with_item_at(const Value& list, const Value& position, const Value& item);
Value without_item_at(const Value& list, const Value& position);

/// All items one after another along `axis`, or as the elements of a new axis.
Value joined_items(const Value& list, int64_t axis, bool new_axis);

/// f of the items at the same places of lists of one length, from the first: a list for each of its results.
Values mapped_items(const Values& lists, FunctionRef<Values(const Values& items)> f);

/// `count` parts of a value, part i being part(i), a number of rank 0.
Value list_of_parts(const Value& count, FunctionRef<Value(const Value& i)> part);

/// The rows of a tensor as a sequence.
Value sequence_of_rows(const Value& all);

/// The data types that a module of this body needs: none where it has no list.
std::map<std::string, relay::TypeData> list_types(const Value& body);

}  // namespace lathe::onnx
