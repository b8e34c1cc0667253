// Programs in two parts: what depends on constants alone, run once when a model is built, and the rest.
#pragma once

#include "core/tir/stmt.h"

namespace lathe::tir {

/// The annotation of a function whose value is a bit mask: bit i says that params[i], an input, is bound when
/// the model is built.
inline constexpr const char* kConstantsKey = "constants";
/// Params from here on cannot be marked.
inline constexpr size_t kMaxMarkedParams = 62;

/// The mask; 0 without the annotation.
int64_t constant_params(const Func& func);
/// Whether params[i] is marked.
bool is_constant_param(const Func& func, size_t i);
/// Whether `buffer` is a param that is marked.
bool is_constant_param(const Func& func, const Buffer& buffer);
/// `func` with this mask; without the annotation when it is 0. REQUIRES: bits of inputs only.
Func with_constant_params(const Func& func, int64_t mask);

/// Where a param of one of the two parts comes from.
struct PartParam {
  bool from_prologue = false;  // made by the prologue: its output `number`; else param `number` of the whole
  size_t number = 0;
  bool operator==(const PartParam&) const = default;
};

/// A scheduled function in two. The params of a part are inputs then outputs, as in any function.
struct SplitProgram {
  Func prologue;  // null when there is nothing to do ahead
  Func main;
  std::vector<PartParam> prologue_params, main_params;
};

/// The statements of the root block that depend on constants alone, as a function of their own. A statement
/// is one of those when it reads nothing but constant params and intermediates, writes only intermediates,
/// and no other kind of statement writes these. The prologue's params are the constants it reads, then, as
/// outputs, the intermediates that the other statements read; main's are the inputs it still reads, then
/// these intermediates, then the outputs. Whatever the schedule, main(prologue(constants), others) computes
/// what `scheduled` computes. Both parts are without mask. Intermediates that become params move to global
/// memory. REQUIRES: the scheduled level, constant shapes.
SplitProgram split_prologue(const Func& scheduled);

}  // namespace lathe::tir
