// What a program is told of the dimensions that it leaves open: which values it is made for, and has in
// calls.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/tir/stmt.h"

namespace lathe::schedule {

/// What schedules of `program` take its dimensions for, in the order of dims_of().
std::vector<int64_t> typical_dims(const tir::Func& program);
/// `program`, scheduled or not, with these values for its dimensions: one whose schedule is to be replayed
/// with them open.
tir::Func for_typical_dims(const tir::Func& program, std::span<const int64_t> values);
/// The same for the typical ones; itself when none is open.
tir::Func at_typical_dims(const tir::Func& program);
/// It is such a program, under way or not.
bool is_for_typical_dims(const tir::FuncNode& program);
/// The program, scheduled or not, that is made for no values.
tir::Func without_typical_dims(const tir::Func& program);
/// The program with another typical value of its dimension number `dim`.
tir::Func with_typical(const tir::Func& program, size_t dim, int64_t value);

/// The program that has the values 1 to `value` of its dimension number `dim` in calls.
tir::Func with_most(const tir::Func& program, size_t dim, int64_t value);
/// `e` as it is in all calls of the program: (n + 63) // 64 is 1 in a member for rows of 1 to 64 elements.
Expr simplify_for_calls(const tir::FuncNode& program, const Expr& e);

/// The values multiplied: how large a program is at them.
double product_of(std::span<const int64_t> values);

/// The least extent of a parameter for these values; nothing where one has no number.
std::optional<int64_t> least_extent(const tir::Func& program, std::span<const int64_t> values);

/// Values of the dimensions at which a schedule of `program` is compared with the program itself before it is
/// believed, besides those it is measured with: around the edges of tiles, and of those. None has a shape
/// below 0. REQUIRES: unscheduled.
std::vector<std::vector<int64_t>> checked_dims(const tir::Func& program);

}  // namespace lathe::schedule
