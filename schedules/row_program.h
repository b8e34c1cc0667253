// Programs that go over rows: element-wise blocks and reductions that share variables outside, as softmax,
// normalizations and means are made of, with what fusion joins to them.
#pragma once

#include "core/tir/target.h"
#include "schedules/anatomy.h"

namespace lathe::schedule {

/// A variable of the last block that counts rows, or parts of them: rows are of `divisor` of its values each.
struct RowVariable {
  size_t variable = 0;  // of the block, by position
  int64_t divisor = 1;
};

struct RowProgram {
  std::string last;  // the block whose loops all others can be computed in
  std::vector<RowVariable> rows;
  /// Neighbours in memory are neighbouring rows, along the last block's last variable, which is the last of
  /// `rows`; else they are neighbours in the row.
  bool across = false;
  int64_t row_bytes = 0;  // of the intermediates of a row
};

/// Nothing for programs of another form, contractions and windows above all: each element of a row is read
/// once by each reduction.
std::optional<RowProgram> row_program(const tir::Func& func);

/// The blocks that write each an element of the row (or of all rows) rather than something about it.
bool is_intermediate(const tir::Func& func, const tir::Block& block);

/// The position of the block's variable that `loop` alone runs along, each iteration the next value.
std::optional<size_t> variable_along(const tir::Block& block, const tir::For& loop);

/// Whether each element at `indices` into `buffer` that depends on the two variables is the next one in
/// memory when they count as one number, `inner` its last digit.
bool joins(const tir::Buffer& buffer, const std::vector<Expr>& indices, const tir::BlockIter& outer,
           const tir::BlockIter& inner);

/// Whether everything that the block reads or writes and that moves in the innermost loops `line` is one line
/// in memory in their order, which they run through from end to end.
bool is_line(const tir::Block& block, const std::vector<Ref<tir::For>>& line);

/// Whether the block's loads are contiguous along `lane` or the same for all, and none that a select guards
/// could leave its buffer.
bool loads_in_lanes(const tir::Block& block, const Expr& value, const Var& lane);

}  // namespace lathe::schedule
