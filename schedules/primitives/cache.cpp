// Staging of buffers, and where they live.
#include "schedules/primitives/algorithm.h"

namespace lathe::schedule {

using namespace tir;

namespace {
Scope scope_named(const Application& a, const std::string& name) {
  for (Scope scope : {Scope::kGlobal, Scope::kLocal, Scope::kShared})
    if (name == spelling(scope)) return scope;
  a.fail("`{}` is no memory scope{}", name, did_you_mean(name, {"global", "local", "shared"}));
}

Buffer region_buffer(const Application& a, const std::vector<Region>& regions, const char* verb) {
  int64_t i = a.number(1);
  if (i < 0 || i >= static_cast<int64_t>(regions.size()))
    a.fail("buffer {} of the {} that block `{}` {}", i, regions.size(), a.block(0).back().as<Block>()->name,
           verb);
  return regions[static_cast<size_t>(i)].buffer;
}

/// The block writes a new buffer, and a copy behind its loops what it wrote before. reverse_compute_at moves
/// that in.
void cache_write(Application& a) {
  Path path = a.block(0);
  a.require_outermost(path);
  auto block = path.back().cast<Block>();
  Buffer buffer = region_buffer(a, block->writes, "writes");
  // The copy is made once, after this block: another writer would have its elements overwritten by what the
  // cache holds there.
  for (const Ref<Block>& other : all_blocks(a.func))
    if (other != block && writes_buffer(*other, buffer.get()))
      a.fail("buffer {} is written by block `{}` too; cache before decompose_reduction", buffer->name,
             other->name);
  Stmt top = top_statement(path);
  for (const Ref<Block>& other : blocks_in(top))
    if (other != block && reads_buffer(*other, buffer.get()))
      a.fail("block `{}` reads {} in the same loops; cache before moving it there", other->name,
             buffer->name);
  Buffer cache = tir::buffer(fresh_buffer_name(a.func, buffer->name + "_cache"), buffer->shape, buffer->dtype,
                             scope_named(a, a.text(2)));
  std::string name = fresh_block_name(a.func, block->name + "_write");
  Stmt cached = replace(top, block, substitute(Stmt(block), {}, {{buffer.get(), cache}}));
  Func func = replace(a.func, top, seq({cached, copy_nest(name, cache, buffer)}));
  a.func = with_alloc(func, scope_of(path)->name, cache);
  a.give_block(name);
}

/// The copy stands before all loops of the block, and holds all of the buffer: compute_at moves it in, part
/// by part.
void cache_read(Application& a) {
  Path path = a.block(0);
  a.require_outermost(path);
  auto block = path.back().cast<Block>();
  Buffer buffer = region_buffer(a, block->reads, "reads");
  Stmt top = top_statement(path);
  for (const Ref<Block>& other : blocks_in(top))
    if (writes_buffer(*other, buffer.get()))
      a.fail("block `{}` writes {} in the same loops; cache before moving it there", other->name,
             buffer->name);
  Buffer cache = tir::buffer(fresh_buffer_name(a.func, buffer->name + "_cache"), buffer->shape, buffer->dtype,
                             scope_named(a, a.text(2)));
  std::string name = fresh_block_name(a.func, block->name + "_read");
  Stmt cached = replace(top, block, substitute(Stmt(block), {}, {{buffer.get(), cache}}));
  Func func = replace(a.func, top, seq({copy_nest(name, buffer, cache), cached}));
  a.func = with_alloc(func, scope_of(path)->name, cache);
  a.give_block(name);
}

/// Every access to what the block writes, all over the program: the buffer itself moves.
void set_scope(Application& a) {
  Path path = a.block(0);
  auto block = path.back().cast<Block>();
  Buffer buffer = region_buffer(a, block->writes, "writes");
  if (is_param(a.func, buffer)) a.fail("{} is a parameter; it stays in main memory", buffer->name);
  // A buffer's scope is part of it, so each node that names the old buffer names a new one afterwards.
  Buffer moved = tir::buffer(buffer->name, buffer->shape, buffer->dtype, scope_named(a, a.text(2)));
  a.func = with_body(a.func, substitute(a.func->body, {}, {{buffer.get(), moved}}));
}

using enum InputKind;
constexpr Primitive kPrimitives[] = {
    {"cache_read",
     "c[i] = g(b[i])  ->  for j: b_cache[j] = b[j]; c[i] = g(b_cache[i])",
     {{kBlock, kInt, kText}},
     cache_read},
    {"cache_write",
     "c[i] = f(i)  ->  c_cache[i] = f(i); for j: c[j] = c_cache[j]",
     {{kBlock, kInt, kText}},
     cache_write},
    {"set_scope", "alloc b in global  ->  alloc b in local", {{kBlock, kInt, kText}}, set_scope},
};
}  // namespace

std::span<const Primitive> cache_primitives() { return kPrimitives; }

}  // namespace lathe::schedule
