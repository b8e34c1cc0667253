// Naming parts of the program. These change nothing; in a trace they say what later steps talk about.
#include "schedules/primitive.h"

namespace lathe::schedule {

using namespace tir;

namespace {
void get_block(Application& a) {
  if (path_to_block(a.func, a.text(0))) return a.give_block(a.text(0));
  std::vector<std::string> names;
  for (const Ref<Block>& block : all_blocks(a.func)) names.push_back(block->name);
  a.fail("no block `{}` in function {}{}", a.text(0), a.func->name, did_you_mean(a.text(0), names));
}

void get_loops(Application& a) {
  for (const Ref<For>& loop : loops_around(a.block(0))) a.give_loop(loop->var);
}

using enum InputKind;
constexpr Primitive kPrimitives[] = {
    {"get_block", "the block of that name", {{kText}}, get_block},
    {"get_loops", "the loops around a block within its scope, outermost first", {{kBlock}}, get_loops},
};
}  // namespace

std::span<const Primitive> query_primitives() { return kPrimitives; }

}  // namespace lathe::schedule
