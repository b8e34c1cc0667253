// Matrices in registers, stored by rows and loaded by columns.
#include <bit>

#include "core/codegen/llvm/emitter.h"

namespace lathe::codegen {
namespace {
/// Of an n x n matrix, n a power of two, by rows; gives its columns. Every step interleaves the first half of
/// the vectors with the second: among the bits of an element's place (row, column) the first one becomes the
/// last, and after log2 n steps rows and columns have changed places (Stone, "Parallel processing with the
/// perfect shuffle", 1971). Two patterns of lanes serve for all steps.
std::vector<llvm::Value*> transposed(llvm::IRBuilder<>& b, std::vector<llvm::Value*> vectors) {
  int n = static_cast<int>(vectors.size());
  llvm::SmallVector<int> low, high;
  for (int i = 0; i < n / 2; ++i) {
    low.append({i, n + i});
    high.append({n / 2 + i, n + n / 2 + i});
  }
  for (int step = 1; step < n; step *= 2) {
    std::vector<llvm::Value*> next;
    for (int k = 0; k < n / 2; ++k)
      for (const auto* pattern : {&low, &high})
        next.push_back(b.CreateShuffleVector(vectors[k], vectors[k + n / 2], *pattern));
    vectors = std::move(next);
  }
  return vectors;
}

/// The first `lanes` lanes; those that the vector lacks hold anything.
llvm::Value* with_lanes(llvm::IRBuilder<>& b, llvm::Value* vector, int lanes) {
  int has = static_cast<int>(llvm::cast<llvm::FixedVectorType>(vector->getType())->getNumElements());
  llvm::SmallVector<int> pattern;
  for (int i = 0; i < lanes; ++i) pattern.push_back(i < has ? i : -1);
  return has == lanes ? vector : b.CreateShuffleVector(vector, pattern);
}

/// Buffers that a statement stores to, and local ones of which it loads columns, in the order of the loads.
struct Uses {
  std::set<const tir::BufferNode*> stored;
  std::vector<const tir::BufferNode*> loaded_by_column;
};
Uses uses_in(const tir::Stmt& stmt) {
  Uses uses;
  post_order(stmt, [&](const NodeRef& node) {
    if (const tir::Store* s = node.as<tir::Store>()) uses.stored.insert(s->buffer.get());
    const tir::Load* l = node.as<tir::Load>();
    if (l && l->buffer->scope == tir::Scope::kLocal && l->dtype.lanes > 1 &&
        !flatten(l->buffer, l->indices).is_dense())
      uses.loaded_by_column.push_back(l->buffer.get());
  });
  return uses;
}
}  // namespace

/// Slots for the columns, beside those of the rows.
void Emitter::allocate_columns(const tir::Buffer& buffer, Storage& place) {
  const RegisterBuffer& plan = state_.registers.at(buffer.get());
  if (!plan.column_lanes) return;
  llvm::Type* type = memory_type(buffer->dtype.with_lanes(plan.column_lanes));
  for (int64_t c = 0; c < plan.row_elements; ++c)
    place.columns[c] = llvm::cast<llvm::AllocaInst>(stack_slot(type, llvm::Align(64), buffer->name));
}

/// Where `stmt` loads columns of what statements before it have stored: computed here, once for all loads,
/// those inside conditions too.
void Emitter::transpose_before(const tir::Stmt& stmt) {
  // The usual case, without a walk over the statement.
  if (std::none_of(buffers_.begin(), buffers_.end(),
                   [](const auto& each) { return !each.second.columns.empty(); }))
    return;
  Uses uses = uses_in(stmt);
  for (const tir::BufferNode* buffer : uses.loaded_by_column)
    if (auto found = buffers_.find(buffer); found != buffers_.end() && !found->second.columns.empty() &&
                                            !found->second.transposed && !uses.stored.contains(buffer))
      transpose(buffer, found->second);
  // The columns are of rows as they were.
  for (const tir::BufferNode* buffer : uses.stored)
    if (auto found = buffers_.find(buffer); found != buffers_.end()) found->second.transposed = false;
}

/// Computes all columns from the rows. The network takes squares of powers of two: rows and columns are
/// filled up with lanes of no value.
void Emitter::transpose(const tir::BufferNode* buffer, Storage& place) {
  const RegisterBuffer& plan = state_.registers.at(buffer);
  auto size = std::max<uint64_t>(plan.column_lanes, static_cast<uint64_t>(plan.row_elements));
  int n = static_cast<int>(std::bit_ceil(size));
  std::vector<llvm::Value*> rows;
  for (int64_t r = 0; r < n; ++r) {
    auto slot = place.slots.find(r * plan.row_elements);
    llvm::Type* type = memory_type(buffer->dtype.with_lanes(static_cast<int>(plan.row_elements)));
    llvm::Value* row = slot == place.slots.end() ? static_cast<llvm::Value*>(llvm::PoisonValue::get(type))
                                                 : b_.CreateLoad(type, slot->second);
    rows.push_back(with_lanes(b_, row, n));
  }
  std::vector<llvm::Value*> columns = transposed(b_, std::move(rows));
  for (auto& [c, slot] : place.columns)
    b_.CreateStore(with_lanes(b_, columns[static_cast<size_t>(c)], plan.column_lanes), slot);
  place.transposed = true;
}

}  // namespace lathe::codegen
