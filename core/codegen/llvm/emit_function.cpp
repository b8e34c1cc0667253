// Functions: the kernel and the bodies of its parallel loops.
//
// Each is a pair: an outer function with the interface that callers use, which only unpacks pointers, and an
// inner one that takes them as parameters, since parameters are where LLVM lets one say that pointers do not
// alias.
#include <llvm/IR/Verifier.h>
#include <llvm/TargetParser/Triple.h>

#include "core/arith/chain.h"
#include "core/arith/simplify.h"
#include "core/codegen/llvm/emitter.h"
#include "core/codegen/llvm/instruction_order.h"
#include "core/support/error.h"
#include "core/tir/dims.h"

namespace lathe::codegen {
namespace {
void set_target_attributes(llvm::Function& f, const Target& target) {
  f.addFnAttr("target-cpu", target.cpu);
  if (!target.features.empty()) f.addFnAttr("target-features", target.features);
  f.addFnAttr("prefer-vector-width", std::to_string(target.vector_bits));
  f.addFnAttr("min-legal-vector-width", std::to_string(target.vector_bits));
  f.addFnAttr("probe-stack", "inline-asm");  // a large frame must not jump over the stack's guard page
  f.addFnAttr(llvm::Attribute::NoUnwind);
}

/// Elements of rows whose length is open are put into all lanes, as those of a matrix product: each row of a
/// tile has a pointer. Of more than there are registers LLVM's scheduler makes the most by loading early,
/// vectors too, and spills the sums.
bool broadcasts_of_open_rows(const tir::Stmt& body) {
  bool found = false;
  post_order(body, [&](const NodeRef& node) {
    const Broadcast* all = node.as<Broadcast>();
    const tir::Load* element = all ? all->value.as<tir::Load>() : nullptr;
    found |= element && !element->buffer->shape.empty() && !as_int(element->buffer->shape.back());
  });
  return found;
}

/// What a tile's sums become (SiLU, say), vector after vector. LLVM's scheduler interleaves the chains of all
/// of them, which such a processor does by itself, and keeps their parts on the stack.
bool computes_chains_of_vectors(const tir::Stmt& body) {
  bool found = false;
  post_order(body, [&](const NodeRef& node) {
    found |= is_chain(node) && node.as<IntrinsicCall>()->dtype.lanes > 1;
  });
  return found;
}

/// A function compiled for the target's CPU; only what is exported can be found in the shared object.
llvm::Function* make_function(KernelState& state, llvm::FunctionType* type, const std::string& name,
                              bool exported) {
  auto linkage = exported ? llvm::Function::ExternalLinkage : llvm::Function::InternalLinkage;
  auto* f = llvm::Function::Create(type, linkage, name, state.module);
  set_target_attributes(*f, state.target);
  if (!llvm::Triple(state.module.getTargetTriple()).isX86()) return f;
  if (broadcasts_of_open_rows(state.func->body))
    f->addFnAttr(kKeepsOrder);
  else if (computes_chains_of_vectors(state.func->body))
    f->addFnAttr(kKeepsOrderOutsideLoops);
  return f;
}

/// What callers promise of buffers (core/runtime/kernel.h): each its own memory, aligned, of the size that
/// its shape says.
void describe_buffer_argument(llvm::Argument& argument, const tir::Buffer& buffer) {
  llvm::AttrBuilder attributes(argument.getContext());
  attributes.addAttribute(llvm::Attribute::NoAlias).addAttribute(llvm::Attribute::NoUndef);
  attributes.addAlignmentAttr(64);
  if (tir::has_constant_shape(*buffer)) attributes.addDereferenceableAttr(tir::byte_size(buffer));
  argument.addAttrs(attributes);
  argument.setName(buffer->name);
}

/// What a statement uses and does not define: loop variables and dimensions, and buffers in order of first
/// use.
struct Captures {
  std::vector<const VarNode*> vars;
  std::vector<tir::Buffer> buffers;
};
/// Each once, since post_order visits a node once.
Captures captures_of(const tir::Stmt& body, const std::map<const VarNode*, llvm::Value*>& vars,
                     const std::map<const tir::BufferNode*, Storage>& buffers) {
  Captures result;
  post_order(body, [&](const NodeRef& node) {
    if (const VarNode* v = node.as<VarNode>(); v && vars.count(v)) result.vars.push_back(v);
    if (const tir::BufferNode* b = node.as<tir::BufferNode>(); b && buffers.count(b))
      result.buffers.push_back(tir::Buffer(b));
  });
  return result;
}
}  // namespace

Emitter::Emitter(KernelState& state, llvm::Function* function, bool in_parallel)
    : state_(state),
      function_(function),
      b_(state.module.getContext()),
      allocas_(llvm::BasicBlock::Create(b_.getContext(), "entry", function)),
      in_parallel_(in_parallel) {
  open_loop("start");
  // The one liberty with floats: a * b + c may be one instruction.
  llvm::FastMathFlags contract;
  contract.setAllowContract(true);
  b_.setFastMathFlags(contract);
}

/// In the entry block, where LLVM turns slots into registers and where a loop does not allocate them again.
llvm::Value* Emitter::stack_slot(llvm::Type* type, llvm::Align align, const std::string& name) {
  llvm::IRBuilder<> at(allocas_);
  llvm::AllocaInst* slot = at.CreateAlloca(type, nullptr, name);
  slot->setAlignment(align);
  return slot;
}

llvm::BasicBlock* Emitter::block(const std::string& name) {
  return llvm::BasicBlock::Create(b_.getContext(), name, function_);
}

/// Leaves the insertion point in the loop's body, behind a head in which pointers are computed. Loops inherit
/// the prefetch distance of those around.
void Emitter::open_loop(const std::string& name) {
  llvm::BasicBlock *head = block(name), *body = block(name + ".body");
  b_.SetInsertPoint(head);
  b_.CreateBr(body);
  b_.SetInsertPoint(body);
  loops_.push_back({.head = head, .prefetch = loops_.empty() ? 0 : loops_.back().prefetch});
}

/// Allocations are done, so the entry block may end.
void Emitter::finish() {
  llvm::IRBuilder<>(allocas_).CreateBr(allocas_->getNextNode());
  finish_tiles();
}

namespace {
/// Parallel loops, each all that the one before does: their tasks are one loop's.
std::vector<const tir::For*> nest_of(const tir::For& loop) {
  std::vector<const tir::For*> nest{&loop};
  for (;;) {
    const tir::For* next = nest.back()->body.as<tir::For>();
    if (!next || next->iteration != tir::Iteration::kParallel) return nest;
    for (const tir::For* outer : nest)
      if (uses_var(next->extent, outer->var.get())) return nest;
    nest.push_back(next);
  }
}

/// `buffer` is used in `stmt`, but for where it is allocated and inside of `loop`.
bool uses_outside(const tir::Stmt& stmt, const tir::For& loop, const tir::BufferNode* buffer) {
  if (stmt.get() == &loop) return false;
  bool found = false;
  stmt->for_each_child([&](const NodeRef& child) {
    if (dynamic_cast<const tir::StmtNode*>(child.get()))
      found |= uses_outside(child.cast<tir::StmtNode>(), loop, buffer);
    else if (!stmt.as<tir::Alloc>())
      post_order(child, [&](const NodeRef& node) { found |= node.get() == buffer; });
  });
  return found;
}

Expr iterations_of(std::span<const tir::For* const> nest) {
  Expr count = nest[0]->extent;
  for (const tir::For* each : nest.subspan(1)) count = count * each->extent;
  return simplify(count);
}

/// The intermediates of which each iteration of the loop, and of those that are all it does, has a part of
/// its own, along the first dimension.
std::vector<const tir::BufferNode*> scratch_of(const tir::For& loop, const tir::FuncNode& func) {
  const std::vector<const tir::For*> nest = nest_of(loop);
  Analyzer analyzer;
  Expr number = loop.var;
  for (const tir::For* each : nest) {
    analyzer.bind_range(each->var, each->extent);
    if (each != &loop) number = number * each->extent + each->var;
  }
  std::map<const tir::BufferNode*, bool> own;
  for (const tir::Buffer& param : func.params) own[param.get()] = false;
  auto see = [&](const tir::Buffer& buffer, const std::vector<Expr>& indices) {
    // What has a known size is the thread's own memory already.
    if (tir::has_constant_shape(*buffer)) return;
    bool& is_own = own.try_emplace(buffer.get(), true).first->second;
    // A proof takes long, and tiles with open edges have ten thousands of indices.
    is_own = is_own && indices.size() > 1 && analyzer.can_prove_equal(indices[0], number);
  };
  post_order(loop.body, [&](const NodeRef& node) {
    if (const tir::Load* load = node.as<tir::Load>()) see(load->buffer, load->indices);
    if (const tir::Store* store = node.as<tir::Store>()) see(store->buffer, store->indices);
  });
  std::vector<const tir::BufferNode*> found;
  for (const auto& [buffer, is_own] : own)
    if (is_own && !uses_outside(func.body, loop, buffer)) found.push_back(buffer);
  return found;
}

/// Into so many ranges, at most, the iterations of a parallel loop are put together where each needs memory
/// whose size is not known: more than there are cores, so that a core that is slow holds up less.
int64_t most_ranges(const Target& target) { return 2 * int64_t{target.cores}; }

/// All intermediates that have a part for each range of a parallel loop.
void collect_scratch(const tir::Stmt& stmt, const tir::FuncNode& func,
                     std::set<const tir::BufferNode*>& found) {
  if (const tir::For* loop = stmt.as<tir::For>(); loop && loop->iteration == tir::Iteration::kParallel) {
    const std::vector<const tir::BufferNode*> scratch = scratch_of(*loop, func);
    found.insert(scratch.begin(), scratch.end());
    return;
  }
  stmt->for_each_child([&](const NodeRef& child) {
    if (dynamic_cast<const tir::StmtNode*>(child.get()))
      collect_scratch(child.cast<tir::StmtNode>(), func, found);
  });
}

/// `body` with `part` for the first index of each of the buffers.
tir::Stmt at_part(const tir::Stmt& body, std::span<const tir::BufferNode* const> buffers, const Var& part) {
  auto moved = [&](const tir::Buffer& buffer, std::vector<Expr> indices) {
    if (std::find(buffers.begin(), buffers.end(), buffer.get()) != buffers.end()) indices[0] = part;
    return indices;
  };
  NodeRef result = rewrite(body, [&](const NodeRef& node) -> NodeRef {
    if (const tir::Load* load = node.as<tir::Load>())
      return tir::load(load->buffer, moved(load->buffer, load->indices));
    if (const tir::Store* store = node.as<tir::Store>())
      return tir::store(store->buffer, moved(store->buffer, store->indices), store->value);
    return node;
  });
  return result.cast<tir::StmtNode>();
}
}  // namespace

namespace {
/// The intermediates that live in the workspace: global ones outside of parallel loops.
void collect_workspace(const tir::Stmt& stmt, std::vector<tir::Buffer>& found) {
  const tir::For* loop = stmt.as<tir::For>();
  if (loop && loop->iteration == tir::Iteration::kParallel) return;
  const tir::Alloc* alloc = stmt.as<tir::Alloc>();
  if (alloc && alloc->buffer->scope == tir::Scope::kGlobal) found.push_back(alloc->buffer);
  stmt->for_each_child([&](const NodeRef& child) {
    if (dynamic_cast<const tir::StmtNode*>(child.get()))
      collect_workspace(child.cast<tir::StmtNode>(), found);
  });
}
}  // namespace

/// Where the intermediates of the workspace begin, and last where it ends: all of them beside each other,
/// each aligned as buffers are.
std::vector<Expr> workspace_offsets(std::span<const tir::Buffer> intermediates, const tir::FuncNode& func,
                                    const Target& target) {
  std::set<const tir::BufferNode*> scratch;
  collect_scratch(func.body, func, scratch);
  std::vector<Expr> offsets{Expr(0)};
  for (const tir::Buffer& buffer : intermediates) {
    auto kept = mutate(*buffer);
    if (scratch.count(buffer.get())) kept->shape[0] = min(kept->shape[0], Expr(most_ranges(target)));
    Expr aligned = floordiv(tir::byte_count(*kept) + 63, 64) * 64;
    offsets.push_back(simplify(offsets.back() + aligned));
  }
  return offsets;
}

/// The inner function's parameters: the kernel's buffers, its intermediates, LatheParallel, its dimensions,
/// and where there is a leading copy whether there is anything to copy: pointers that are said not to alias
/// must not be compared.
void Emitter::emit_kernel(KernelState& state) {
  llvm::LLVMContext& context = state.module.getContext();
  const tir::FuncNode& func = *state.func;
  auto* pointer = llvm::PointerType::getUnqual(context);
  std::vector<tir::Buffer> buffers = func.params;
  collect_workspace(func.body, buffers);
  const std::vector<Var> dims = tir::dims_of(func);
  auto* int64 = llvm::Type::getInt64Ty(context);
  std::vector<llvm::Type*> inner_types(buffers.size() + 1, pointer);
  inner_types.insert(inner_types.end(), dims.size(), int64);
  state.leading_copy = tir::leading_copy(func);
  if (state.leading_copy) inner_types.push_back(llvm::Type::getInt1Ty(context));
  auto* inner =
      make_function(state, llvm::FunctionType::get(llvm::Type::getVoidTy(context), inner_types, false),
                    func.name + ".compute", false);
  // Inlined, its parameters would lose what they say about aliases.
  inner->addFnAttr(llvm::Attribute::NoInline);
  Emitter emitter(state, inner, false);
  for (size_t i = 0; i < buffers.size(); ++i) {
    describe_buffer_argument(*inner->getArg(i), buffers[i]);
    emitter.buffers_[buffers[i].get()].pointer = inner->getArg(i);
  }
  emitter.parallel_ = inner->getArg(buffers.size());
  for (size_t i = 0; i < dims.size(); ++i)
    emitter.vars_[dims[i].get()] = inner->getArg(buffers.size() + 1 + i);
  if (state.leading_copy) emitter.apart_ = inner->getArg(buffers.size() + 1 + dims.size());
  emitter.emit(func.body);
  emitter.b_.CreateRetVoid();
  emitter.finish();

  auto* outer_type =
      llvm::FunctionType::get(llvm::Type::getInt32Ty(context), {pointer, pointer, pointer, pointer}, false);
  Emitter outer(state, make_function(state, outer_type, func.name, true), false);
  outer.call_inner(inner, buffers, dims);
  outer.finish();
}

/// The kernel's own function: unpacks buffers and dimensions, and finds the intermediates in the workspace.
void Emitter::call_inner(llvm::Function* inner, std::span<const tir::Buffer> buffers,
                         std::span<const Var> dims) {
  auto* pointer = b_.getPtrTy();
  const size_t params = state_.func->params.size();
  std::vector<llvm::Value*> arguments, values;
  for (size_t i = 0; i < params; ++i)
    arguments.push_back(
        b_.CreateLoad(pointer, b_.CreateConstInBoundsGEP1_64(pointer, function_->getArg(0), i)));
  for (size_t i = 0; i < dims.size(); ++i) {
    values.push_back(b_.CreateLoad(b_.getInt64Ty(),
                                   b_.CreateConstInBoundsGEP1_64(b_.getInt64Ty(), function_->getArg(3), i)));
    vars_[dims[i].get()] = values.back();
  }
  const std::vector<Expr> offsets = workspace_offsets(buffers.subspan(params), *state_.func, state_.target);
  for (size_t i = params; i < buffers.size(); ++i)
    arguments.push_back(
        b_.CreateInBoundsGEP(b_.getInt8Ty(), function_->getArg(1), value(offsets[i - params])));
  const int64_t* bytes = as_int(offsets.back());
  if (bytes)
    state_.workspace_bytes = *bytes;
  else
    state_.open_workspace = offsets.back();
  arguments.push_back(function_->getArg(2));
  arguments.insert(arguments.end(), values.begin(), values.end());
  if (state_.leading_copy)
    arguments.push_back(b_.CreateICmpNE(arguments[state_.leading_copy->input], arguments[params - 1]));
  b_.CreateCall(inner, arguments);
  b_.CreateRet(b_.getInt32(0));
}

/// Packs what the body uses in a closure on the stack and hands the body to the host's `launch`. Where
/// iterations need parts of the workspace, ranges of them are the tasks, and all that one thread runs one
/// after the other use the part of the first: it stays in the cache.
void Emitter::emit_parallel(const tir::For& given) {
  CHECK(!mask_, "a mask is set around a parallel loop, whose function does not know it");
  llvm::LLVMContext& context = b_.getContext();
  llvm::Type *pointer = b_.getPtrTy(), *int64 = b_.getInt64Ty();
  Var part = var("part");
  tir::Stmt changed;  // keeps what `loop` is
  if (const auto scratch = scratch_of(given, *state_.func); !scratch.empty()) {
    auto copy = mutate(given);
    copy->body = at_part(given.body, scratch, part);
    changed = seal(std::move(copy));
  }
  const tir::For& loop = changed ? *changed.as<tir::For>() : given;
  const std::vector<const tir::For*> nest = nest_of(loop);
  const Expr ranges = changed ? min(iterations_of(nest), Expr(most_ranges(state_.target))) : Expr();
  Captures captures = captures_of(changed ? changed : loop.body, vars_, buffers_);
  size_t n_buffers = captures.buffers.size(), n_vars = captures.vars.size();
  std::vector<llvm::Type*> fields(n_buffers, pointer);
  fields.insert(fields.end(), n_vars, int64);
  auto* closure_type = llvm::StructType::get(context, fields);
  std::string name = fmt::format("{}.parallel{}", state_.func->name, state_.parallel_loops++);

  // The inner function: buffers, variables, begin, end.
  std::vector<llvm::Type*> inner_types = fields;
  inner_types.insert(inner_types.end(), {int64, int64});
  auto* inner = make_function(state_, llvm::FunctionType::get(b_.getVoidTy(), inner_types, false),
                              name + ".compute", false);
  inner->addFnAttr(llvm::Attribute::NoInline);
  Emitter body(state_, inner, true);
  for (size_t i = 0; i < n_buffers; ++i) {
    describe_buffer_argument(*inner->getArg(i), captures.buffers[i]);
    body.buffers_[captures.buffers[i].get()].pointer = inner->getArg(i);
  }
  for (size_t i = 0; i < n_vars; ++i) body.vars_[captures.vars[i]] = inner->getArg(n_buffers + i);
  llvm::Value *begin = inner->getArg(n_buffers + n_vars), *end = inner->getArg(n_buffers + n_vars + 1);
  if (changed) {
    body.vars_[part.get()] = begin;
    llvm::Value *iterations = body.value(iterations_of(nest)), *count = body.value(ranges);
    auto first_of = [&](llvm::Value* range) {
      return body.b_.CreateUDiv(body.b_.CreateMul(range, iterations), count);
    };
    begin = first_of(begin), end = first_of(end);
  }
  body.emit_joined(nest, begin, end);
  body.b_.CreateRetVoid();
  body.finish();

  // The outer one: closure, begin, end.
  auto* outer = make_function(state_, llvm::FunctionType::get(b_.getVoidTy(), {pointer, int64, int64}, false),
                              name, false);
  llvm::IRBuilder<> b(llvm::BasicBlock::Create(context, "entry", outer));
  std::vector<llvm::Value*> arguments;
  for (size_t i = 0; i < fields.size(); ++i)
    arguments.push_back(b.CreateLoad(fields[i], b.CreateStructGEP(closure_type, outer->getArg(0), i)));
  arguments.insert(arguments.end(), {outer->getArg(1), outer->getArg(2)});
  b.CreateCall(inner, arguments);
  b.CreateRetVoid();

  // The stack will do: `launch` returns after the last iteration.
  llvm::Value* closure = stack_slot(closure_type, llvm::Align(64), name + ".closure");
  for (size_t i = 0; i < n_buffers; ++i)
    b_.CreateStore(storage(captures.buffers[i].get()).pointer, b_.CreateStructGEP(closure_type, closure, i));
  for (size_t i = 0; i < n_vars; ++i)
    b_.CreateStore(vars_[captures.vars[i]], b_.CreateStructGEP(closure_type, closure, n_buffers + i));
  // LatheParallel: the function, then the pool that it is handed.
  llvm::Value* launch = b_.CreateLoad(pointer, parallel_);
  llvm::Value* pool = b_.CreateLoad(pointer, b_.CreateConstInBoundsGEP1_64(pointer, parallel_, 1));
  auto* launch_type = llvm::FunctionType::get(b_.getVoidTy(), {pointer, pointer, pointer, int64}, false);
  b_.CreateCall(launch_type, launch, {pool, outer, closure, value(changed ? ranges : iterations_of(nest))});
  forget_tiles();
}

}  // namespace lathe::codegen
