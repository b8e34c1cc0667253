// Naming parts of the program. These change nothing; in a trace they say what later steps talk about.
#include "schedules/primitive.h"

namespace lathe::schedule {

using namespace tir;

namespace {
void give_blocks(Application& a, const std::vector<Ref<Block>>& blocks) {
  for (const Ref<Block>& block : blocks) a.give_block(block->name);
}

void get_block(Application& a) {
  if (path_to_block(a.func, a.text(0))) return a.give_block(a.text(0));
  std::vector<std::string> names;
  for (const Ref<Block>& block : all_blocks(a.func)) names.push_back(block->name);
  a.fail("no block `{}` in function {}{}", a.text(0), a.func->name, did_you_mean(a.text(0), names));
}

void get_loops(Application& a) {
  for (const Ref<For>& loop : loops_around(a.block(0))) a.give_loop(loop->var);
}

void get_child_blocks(Application& a) { give_blocks(a, blocks_in(a.block(0).back().as<Block>()->body)); }

void get_producers(Application& a) { give_blocks(a, producers_of(a.func, a.block(0).back().cast<Block>())); }

void get_consumers(Application& a) { give_blocks(a, consumers_of(a.func, a.block(0).back().cast<Block>())); }

using enum InputKind;
constexpr Primitive kPrimitives[] = {
    {"get_block", "the block of that name", {{kText}}, get_block},
    {"get_loops", "the loops around a block within its scope, outermost first", {{kBlock}}, get_loops},
    {"get_child_blocks", "the blocks right inside a block", {{kBlock}}, get_child_blocks},
    {"get_producers", "the blocks that write what a block reads", {{kBlock}}, get_producers},
    {"get_consumers", "the blocks that read what a block writes", {{kBlock}}, get_consumers},
};
}  // namespace

std::span<const Primitive> query_primitives() { return kPrimitives; }

}  // namespace lathe::schedule
