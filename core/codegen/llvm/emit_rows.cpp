// Vectors whose lanes are the elements at one place of short rows that lie one behind the other: x[row, 2] of
// rows of 5. As many rows as lanes are as many whole vectors as a row has elements. Of an odd number of
// elements these vectors have the wanted ones in lanes of their own: selects by constant masks and one
// permutation take them out, and put them back.
#include <bit>

#include "core/codegen/llvm/emitter.h"
#include "core/codegen/llvm/lanes.h"
#include "core/tir/row_lengths.h"

namespace lathe::codegen {
namespace {
using Vectors = std::vector<llvm::Value*>;

/// Of each lane the vector and the lane in it that `source` says.
llvm::Value* mixed(llvm::IRBuilderBase& b, const Vectors& vectors,
                   FunctionRef<std::pair<int, int>(int)> source) {
  llvm::Value* result = llvm::PoisonValue::get(vectors[0]->getType());
  const auto lanes = static_cast<int>(lane_count(result));
  for (size_t v = 0; v < vectors.size(); ++v) {
    std::vector<int> order;
    for (int lane = 0; lane < lanes; ++lane) {
      const auto [vector, from] = source(lane);
      order.push_back(vector == static_cast<int>(v) ? lanes + from : lane);
    }
    result = b.CreateShuffleVector(result, vectors[v], order);
  }
  return result;
}

bool has_short_rows(const tir::Buffer& buffer, const MachineFeatures& features) {
  const int64_t* length = buffer->shape.empty() ? nullptr : as_int(buffer->shape.back());
  return length && tir::is_short_row(*length, features.avx512_lanes > 0);
}
}  // namespace

std::optional<Emitter::ShortRows> Emitter::short_rows(const FlatAccess& at, const tir::Buffer& buffer) const {
  const int64_t length = at.lane_stride;
  const bool has_lanes = at.lanes >= 4 && std::has_single_bit(static_cast<unsigned>(at.lanes)) &&
                         at.vector_terms.empty() && !mask_ && buffer->dtype.bits == 32;
  if (!has_lanes || at.constant < 0 || !has_short_rows(buffer, state_.features)) return {};
  // The rows are the buffer's own: whole ones, first and last.
  if (int_value(buffer->shape.back()) != length) return {};
  for (const auto& [term, coefficient] : at.terms)
    if (coefficient % length != 0) return {};
  ShortRows rows{static_cast<int>(length), static_cast<int>(at.constant % length), at};
  rows.first.constant -= rows.place;
  rows.first.lane_stride = 1;
  return rows;
}

llvm::Value* Emitter::load_short_rows(const ShortRows& rows, const tir::Buffer& buffer) {
  const int lanes = rows.first.lanes;
  llvm::Type* type = memory_type(buffer->dtype.with_lanes(lanes));
  Vectors whole;
  FlatAccess part = rows.first;
  for (int v = 0; v < rows.length; ++v, part.constant += lanes)
    whole.push_back(b_.CreateAlignedLoad(type, pointer_to(part, buffer), alignment_of(part, buffer)));
  const auto place = [&](int row) {
    const int element = row * rows.length + rows.place;
    return std::pair(element / lanes, element % lanes);
  };
  if (rows.length % 2 == 0) return mixed(b_, whole, place);
  // Each lane has the element of one row.
  std::vector<int> vector_of(static_cast<size_t>(lanes)), order;
  for (int row = 0; row < lanes; ++row) {
    const auto [vector, lane] = place(row);
    vector_of[static_cast<size_t>(lane)] = vector;
    order.push_back(lane);
  }
  return b_.CreateShuffleVector(
      mixed(b_, whole, [&](int lane) { return std::pair(vector_of[static_cast<size_t>(lane)], lane); }),
      order);
}

/// The stores that `stmts` begins with, where they are of all elements of the same rows, in order; nothing
/// for others.
std::optional<Emitter::ShortRows> Emitter::stored_rows(std::span<const tir::Stmt> stmts) {
  const tir::Store* first = stmts[0].as<tir::Store>();
  // The usual case, without a look at the address.
  if (!first || !has_short_rows(first->buffer, state_.features) || !storage(first->buffer.get()).pointer)
    return {};
  const std::optional<ShortRows> rows = short_rows(flatten(first->buffer, first->indices), first->buffer);
  if (!rows || rows->place != 0 || stmts.size() < static_cast<size_t>(rows->length)) return {};
  for (int k = 0; k < rows->length; ++k) {
    const tir::Store* each = stmts[static_cast<size_t>(k)].as<tir::Store>();
    if (!each || each->buffer != first->buffer) return {};
    const FlatAccess at = flatten(each->buffer, each->indices);
    if (at.lanes != rows->first.lanes || at.lane_stride != rows->length || !at.vector_terms.empty() ||
        at.constant != rows->first.constant + k || !have_same_terms(at, rows->first))
      return {};
    // Values are computed before any of them is stored.
    bool reads = false;
    post_order(each->value, [&](const NodeRef& node) {
      const tir::Load* load = node.as<tir::Load>();
      reads |= load && load->buffer == first->buffer;
    });
    if (reads) return {};
  }
  return rows;
}

void Emitter::store_short_rows(std::span<const tir::Stmt> stores, const ShortRows& rows) {
  const tir::Buffer& buffer = stores[0].as<tir::Store>()->buffer;
  const int lanes = rows.first.lanes;
  stored_ = buffer.get();
  Vectors places;
  for (int k = 0; k < rows.length; ++k) {
    transpose_before(stores[static_cast<size_t>(k)]);
    const Expr& e = stores[static_cast<size_t>(k)].as<tir::Store>()->value;
    llvm::Value* v = value(e);
    if (e.dtype().lanes == 1) v = b_.CreateVectorSplat(static_cast<unsigned>(lanes), v);
    v = to_memory(v, buffer->dtype.with_lanes(lanes));
    // Each row's element to the lane that it has in memory.
    std::vector<int> order(static_cast<size_t>(lanes));
    for (int row = 0; row < lanes; ++row) order[static_cast<size_t>((row * rows.length + k) % lanes)] = row;
    places.push_back(rows.length % 2 ? b_.CreateShuffleVector(v, order) : v);
  }
  FlatAccess part = rows.first;
  share_terms(part);
  for (int v = 0; v < rows.length; ++v, part.constant += lanes) {
    llvm::Value* whole = mixed(b_, places, [&](int lane) {
      const int element = v * lanes + lane;
      return std::pair(element % rows.length, rows.length % 2 ? lane : element / rows.length);
    });
    b_.CreateAlignedStore(whole, pointer_to(part, buffer), alignment_of(part, buffer));
  }
}

}  // namespace lathe::codegen
