// How the rows of an element-wise block fill vectors, and what of it is computed at once.
#pragma once

#include <optional>
#include <vector>

#include "core/tir/target.h"
#include "schedules/anatomy.h"
#include "schedules/schedule.h"

namespace lathe::schedule {

/// Shorter vectors cost what single elements do.
inline constexpr int64_t kFewestLanes = 4;

/// The block's variable that the loop alone runs along, or null.
Var variable_of(const tir::Block& block, const tir::For& loop);

/// Whether it computes a function by a long chain of dependent instructions.
bool computes(const tir::Block& block);

/// How many copies of a body that computes `value` are worth their instructions.
int64_t copies_worth(const Expr& value);

/// How many vectors of a row, or elements, may be computed one behind the other in code of their own.
std::vector<int64_t> copies_in_row(const tir::Block& block, int64_t vectors);

/// After how many elements of a row divisions of its variable begin anew, the remainders of all of them.
int64_t period_along(const tir::Block& block, const tir::For& row);

/// Copies that leave no choice and no division to the row's variable: the whole row, or a period of it; 1
/// where `counts` has neither.
int64_t whole_row(const std::vector<int64_t>& counts, const tir::Block& block, const tir::For& row);

/// Lanes to vectorize the innermost loop with; 1: it cannot be. A row whose length they do not divide ends in
/// a masked vector.
int64_t lanes_for(const tir::Block& block, const tir::For& innermost, const Target& target);

/// How many of the innermost loops to run through as one: a row of 17 fills two vectors of 16 by half,
/// several together fill theirs.
int64_t loops_worth_joining(const Schedule& schedule, const std::vector<LoopHandle>& loops, int64_t most,
                            const Target& target);

/// A variable of a block, by position, of which groups of `length` neighbours are better known apart.
struct Groups {
  int64_t variable;
  int64_t length;
};

/// How the row of a block that vectors cannot load falls into shorter ones that they can: those that a
/// division by their length finds, as of a tensor that is repeated.
std::optional<Groups> rows_in_row(const Schedule& schedule, const tir::Block& block, const Target& target);

/// Lanes of the vectors that the block, scheduled as it is, loads and stores.
int64_t lanes_at_once(const Schedule& schedule, const tir::Block& block, const Target& target);

/// More than one of them, or tiles that are turned in registers.
bool is_in_vectors(const Schedule& schedule, const tir::Block& block, const Target& target);

}  // namespace lathe::schedule
