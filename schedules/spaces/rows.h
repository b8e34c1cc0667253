// What the design spaces of rows share (row_program.h).
#pragma once

#include "schedules/spaces/building_blocks.h"

namespace lathe::schedule {

/// The loops below `place`, or all of the block's.
std::vector<LoopHandle> loops_inside(Schedule& schedule, BlockHandle block, std::optional<LoopHandle> place);

bool carries_reduction(const tir::Block& block, const tir::For& loop);

/// Blocks computed where they are used; as a heuristic those with one user, and cheap ones. What costs
/// something may also be kept for its users.
void inline_in_rows(Schedule& schedule, const Policy& policy);

/// Of the innermost of these loops that goes over several rows, the part inside the place where all blocks
/// are computed: rows step by step together, so that one does not wait for the other. Of so many elements a
/// row; as a heuristic several of short ones, each of which is done before its next step, and one of longer
/// ones.
std::optional<LoopHandle> rows_together(Schedule& schedule, std::vector<LoopHandle>& rows, int64_t elements,
                                        const Policy& policy);

/// All blocks but `last` move to `place`, where a row is computed.
void compute_in_rows(Schedule& schedule, const std::string& last, LoopHandle place);

/// The loops of one block inside `place`, where a row is computed (all its loops where there is none):
/// vectors of the row's elements, or of partial results where the block reduces it.
void schedule_in_row(Schedule& schedule, BlockHandle block, std::optional<LoopHandle> place,
                     const Target& target, const Policy& policy);

}  // namespace lathe::schedule
