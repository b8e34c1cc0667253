#include "core/relay/analysis/closed.h"

#include <algorithm>

#include "core/relay/analysis/calls.h"
#include "core/support/node_map.h"

namespace lathe::relay {
namespace {

/// What is in `seen` has been looked at: sums of shared sums are as many paths as doublings.
bool is_closed(const Expr& e, NodeSet& seen, int depth) {
  if (e.as<Constant>()) return true;
  const Op* op = operator_of(e);
  if (!op || !op->compute || op->stateful || depth == 0) return false;
  if (!seen.insert(e.get())) return true;
  const std::vector<Expr>& args = e.as<Call>()->args;
  return std::all_of(args.begin(), args.end(),
                     [&](const Expr& arg) { return is_closed(arg, seen, depth - 1); });
}

}  // namespace

bool is_closed(const Expr& e) {
  constexpr int kDeepest = 64;
  NodeSet seen;
  return is_closed(e, seen, kDeepest);
}

}  // namespace lathe::relay
