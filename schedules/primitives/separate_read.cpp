// A tensor that is multiplied by itself as two: operands are told apart by their buffers.
#include "schedules/anatomy.h"
#include "schedules/primitives/algorithm.h"

namespace lathe::schedule {

using namespace tir;

namespace {
void separate_read(Application& a) {
  Path path = a.block(0);
  require_unscheduled(a, path);
  auto block = path.back().cast<Block>();
  const int64_t read = a.number(1), place = a.number(2);
  if (read < 0 || read >= static_cast<int64_t>(block->reads.size()))
    a.fail("buffer {} of the {} that block `{}` reads", read, block->reads.size(), block->name);
  const Buffer source = block->reads[static_cast<size_t>(read)].buffer;
  const Store* update = block->body.as<Store>();
  if (!update || update->buffer == source) a.fail("block `{}` also writes {}", block->name, source->name);
  const std::vector<Ref<Load>> places = loads_of(update->value, source);
  if (places.size() < 2 || place < 0 || place >= static_cast<int64_t>(places.size()))
    a.fail("place {} of the {} where {} is loaded, of which one has to stay", place, places.size(),
           source->name);
  const Ref<Load>& separate = places[static_cast<size_t>(place)];
  const Buffer own = buffer(fresh_buffer_name(a.func, source->name + "_own"), source->shape, source->dtype);
  const std::string name = fresh_block_name(a.func, block->name + "_" + source->name + "_own");
  Stmt reader = changed(block, [&](Block& changed) {
    changed.body = rewrite(block->body, [&](const NodeRef& node) -> NodeRef {
                     const Load* l = node.as<Load>();
                     return l && structural_equal(node, separate) ? NodeRef(load(own, l->indices)) : node;
                   }).cast<StmtNode>();
    declare_accesses(changed);
  });
  Stmt nests = seq({copy_nest(name, source, own), replace(top_statement(path), block, reader)});
  a.func = with_algorithm(a, *block, nests, {own});
  a.give_block(name);
}

using enum InputKind;
constexpr Primitive kPrimitives[] = {
    {"separate_read",
     "for i, j, k: c[i, j] += x[i, k] * x[j, k]  ->  for i, k: y[i, k] = x[i, k]; for i, j, k: c[i, j] += "
     "x[i, k] * y[j, k], for the given one of the buffers read and of the places where it is loaded",
     {{kBlock, kInt, kInt}},
     separate_read},
};
}  // namespace

std::span<const Primitive> separate_read_primitives() { return kPrimitives; }

}  // namespace lathe::schedule
