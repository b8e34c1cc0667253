#include "core/tir/interpret.h"

#include "core/support/error.h"
#include "core/tir/interpret_expr.h"

namespace lathe::tir {
namespace {
/// A compiled statement.
/// One virtual call a node and execution: slow, and simple enough to be believed.
struct StmtCode {
  virtual ~StmtCode() = default;
  virtual void run(State& state) const = 0;
};
using StmtPtr = std::unique_ptr<StmtCode>;

/// All kinds of loops, in order: a program whose meaning depended on the order of a parallel loop would be
/// wrong anyway. The extent is asked for once, before the first iteration.
struct ForCode final : StmtCode {
  void run(State& state) const override {
    int64_t n = extent->run(state, 0);
    for (int64_t i = 0; i < n; ++i) {
      state.vars[slot] = i;
      body->run(state);
    }
  }
  int slot = 0;
  IntPtr extent;
  StmtPtr body;
};

struct SeqCode final : StmtCode {
  void run(State& state) const override {
    for (const StmtPtr& stmt : stmts) stmt->run(state);
  }
  std::vector<StmtPtr> stmts;
};

struct IfCode final : StmtCode {
  void run(State& state) const override {
    if (condition->run(state, 0))
      then_case->run(state);
    else if (else_case)
      else_case->run(state);
  }
  IntPtr condition;
  StmtPtr then_case, else_case;
};

/// Runs its statement with a mask.
struct MaskCode final : StmtCode {
  void run(State& state) const override {
    std::vector<uint8_t> mask(lanes);
    for (int lane = 0; lane < lanes; ++lane)
      // A lane held back outside is not evaluated: what its condition loads may be out of bounds.
      mask[lane] = (state.mask.empty() || state.mask[lane]) && condition->run(state, lane);
    // Masks nest: the inner one is within the outer one.
    std::swap(state.mask, mask);
    then_case->run(state);
    // The mask from before is back.
    std::swap(state.mask, mask);
  }
  int lanes = 1;
  IntPtr condition;
  StmtPtr then_case;
};

/// Offsets are checked by Address, and T is as wide as the elements.
template <typename T>
void put(const Memory& memory, int64_t at, T value) {
  static_cast<T*>(memory.tensor.data())[at] = value;
}

/// All lanes are evaluated before one is written.
struct StoreCode final : StmtCode {
  void run(State& state) const override {
    Memory& memory = address.memory(state);
    // The usual case, without memory for lanes. A mask is never around it (verify.h).
    if (lanes == 1)
      return integer ? write(memory, address.offset(state, 0), integer->run(state, 0))
                     : write(memory, address.offset(state, 0), real->run(state, 0));
    std::vector<int64_t> offsets(lanes), integers(lanes);
    // The old value of an element may be read by another lane's value.
    std::vector<double> reals(lanes);
    for (int lane = 0; lane < lanes; ++lane) {
      if (!writes(state, lane)) continue;
      offsets[lane] = address.offset(state, lane);
      if (integer)
        integers[lane] = integer->run(state, lane);
      else
        reals[lane] = real->run(state, lane);
    }
    for (int lane = 0; lane < lanes; ++lane)
      if (writes(state, lane))
        integer ? write(memory, offsets[lane], integers[lane]) : write(memory, offsets[lane], reals[lane]);
  }
  static bool writes(const State& state, int lane) { return state.mask.empty() || state.mask[lane]; }
  void write(Memory& memory, int64_t at, int64_t value) const {
    // Where values were given (inputs) there is nothing to track.
    if (memory.tracked) memory.written[at] = 1;
    // The bits are the same for signed and unsigned integers.
    switch (type.bytes()) {
      case 1:
        return put(memory, at, static_cast<int8_t>(value));
      case 2:
        return put(memory, at, static_cast<int16_t>(value));
      case 4:
        return put(memory, at, static_cast<int32_t>(value));
      default:
        return put(memory, at, value);
    }
  }
  void write(Memory& memory, int64_t at, double value) const {
    if (memory.tracked) memory.written[at] = 1;
    if (type.bits == 64) return put(memory, at, value);
    auto narrow = static_cast<float>(value);
    if (type.bits == 32) return put(memory, at, narrow);
    put(memory, at, type.code == TypeCode::kBFloat ? float_to_bfloat(narrow) : float_to_half(narrow));
  }
  explicit StoreCode(Address a) : address(std::move(a)) {}
  Address address;
  DataType type;  // of one element
  int lanes = 1;
  IntPtr integer;  // one of the two
  FloatPtr real;
};

/// Fresh, unwritten memory.
struct AllocCode {
  void run(State& state) const {
    Memory& memory = state.buffers[slot];
    std::vector<int64_t> sizes;
    for (const IntPtr& dim : shape) sizes.push_back(dim->run(state, 0));
    // An allocation in a loop finds its tensor of the iteration before; its elements count as unwritten.
    // Not made anew each time: an allocation in a loop may run millions of times.
    if (!memory.tensor.defined() || memory.shape != sizes) {
      memory.buffer = buffer.get();
      memory.shape = sizes;
      memory.tensor = Tensor(sizes, buffer->dtype);
      memory.tracked = true;
    }
    memory.written.assign(static_cast<size_t>(memory.tensor.size()), 0);
  }
  int slot = 0;
  Buffer buffer;
  std::vector<IntPtr> shape;
};

struct AllocStmtCode final : StmtCode {
  void run(State& state) const override {
    alloc.run(state);
    body->run(state);
  }
  AllocCode alloc;
  StmtPtr body;
};

/// Checks what a schedule could get wrong: iterators outside of their extents.
struct BlockCode final : StmtCode {
  struct Iter {
    int slot;
    IntPtr value, extent;
    bool reduces;
  };
  void run(State& state) const override {
    // First: where it does not hold, iterators may be out of their extents.
    if (!predicate->run(state, 0)) return;
    bool first = true;
    for (const Iter& iter : iters) {
      int64_t value = iter.value->run(state, 0), extent = iter.extent->run(state, 0);
      if (value < 0 || value >= extent)
        fail("interpret: an iterator of block {} is {}, outside 0..{}", name, value, extent);
      state.vars[iter.slot] = value;
      // The first step of the reduction, in whatever order the loops run: a schedule that visits it late
      // shows here as a wrong result or a read before a write.
      first &= !iter.reduces || value == 0;
    }
    // Before the init, which may write to them.
    for (const AllocCode& alloc : allocs) alloc.run(state);
    if (init && first) init->run(state);
    body->run(state);
  }
  std::string name;
  IntPtr predicate;
  std::vector<Iter> iters;
  std::vector<AllocCode> allocs;
  StmtPtr init, body;
};

/// Turns a program into objects once, so that an iteration costs virtual calls and no look-ups by name.
class Compiler {
 public:
  StmtPtr compile(const Stmt& stmt) {
    if (!stmt) return nullptr;
    switch (stmt->kind()) {
      case StmtKind::kFor: {
        const For& loop = *stmt.as<For>();
        auto code = std::make_unique<ForCode>();
        code->slot = exprs.slot_of(loop.var.get());
        code->extent = exprs.compile_int(loop.extent);
        code->body = compile(loop.body);
        return code;
      }
      case StmtKind::kBlock:
        return compile_block(*stmt.as<Block>());
      case StmtKind::kStore:
        return compile_store(*stmt.as<Store>());
      case StmtKind::kSeq: {
        auto code = std::make_unique<SeqCode>();
        for (const Stmt& s : stmt.as<Seq>()->stmts) code->stmts.push_back(compile(s));
        return code;
      }
      case StmtKind::kIf: {
        const If& branch = *stmt.as<If>();
        if (branch.condition.dtype().lanes > 1) return compile_mask(branch);
        auto code = std::make_unique<IfCode>();
        code->condition = exprs.compile_int(branch.condition);
        code->then_case = compile(branch.then_case);
        code->else_case = compile(branch.else_case);
        return code;
      }
      case StmtKind::kAlloc: {
        auto code = std::make_unique<AllocStmtCode>();
        code->alloc = compile_alloc(stmt.as<Alloc>()->buffer);
        code->body = compile(stmt.as<Alloc>()->body);
        return code;
      }
    }
    return nullptr;
  }

  ExprCompiler exprs;

 private:
  AllocCode compile_alloc(const Buffer& buffer) {
    AllocCode code;
    code.slot = exprs.slot_of(buffer.get());
    code.buffer = buffer;
    for (const Expr& dim : buffer->shape) code.shape.push_back(exprs.compile_int(dim));
    return code;
  }

  /// A condition of several lanes.
  StmtPtr compile_mask(const If& branch) {
    auto code = std::make_unique<MaskCode>();
    code->lanes = branch.condition.dtype().lanes;
    code->condition = exprs.compile_int(branch.condition);
    code->then_case = compile(branch.then_case);
    return code;
  }

  StmtPtr compile_block(const Block& block) {
    auto code = std::make_unique<BlockCode>();
    code->name = block.name;
    code->predicate = exprs.compile_int(block.predicate);
    for (const BlockIter& iter : block.iters)
      code->iters.push_back({exprs.slot_of(iter.var.get()), exprs.compile_int(iter.value),
                             exprs.compile_int(iter.extent), iter.kind == IterKind::kReduce});
    for (const Buffer& buffer : block.allocs) code->allocs.push_back(compile_alloc(buffer));
    code->init = compile(block.init);
    code->body = compile(block.body);
    return code;
  }

  StmtPtr compile_store(const Store& store) {
    auto code = std::make_unique<StoreCode>(exprs.compile_address(store.buffer, store.indices));
    // Floats and integers have code of their own: one of the two pointers is set.
    code->type = store.value.dtype().element();
    code->lanes = store.value.dtype().lanes;
    if (code->type.is_float())
      code->real = exprs.compile_float(store.value);
    else
      code->integer = exprs.compile_int(store.value);
    return code;
  }
};

/// Puts the tensors behind the parameters and finds the values of symbolic dimensions from their shapes.
void bind_params(const Func& func, std::span<const Tensor> params, ExprCompiler& exprs, State& state) {
  if (params.size() != func->params.size())
    fail("interpret: {} takes {} tensors, got {}", func->name, func->params.size(), params.size());
  std::map<const VarNode*, int64_t> dims;
  for (size_t p = 0; p < params.size(); ++p) {
    const BufferNode& buffer = *func->params[p];
    if (params[p].dtype() != buffer.dtype || params[p].shape().size() != buffer.shape.size())
      fail("interpret: {} is {} of rank {}, got {} {}", buffer.name, to_string(buffer.dtype),
           buffer.shape.size(), to_string(params[p].dtype()), shape_text(params[p].shape()));
    for (size_t d = 0; d < buffer.shape.size(); ++d)
      // Dimensions that are expressions (4 * n) are checked by check_shapes, when the variables have values.
      if (const VarNode* v = buffer.shape[d].as<VarNode>()) dims.emplace(v, params[p].shape()[d]);
    // Inputs come with values; outputs have none until they are written.
    size_t inputs = func->params.size() - static_cast<size_t>(func->outputs);
    Memory& memory = state.buffers[exprs.slot_of(&buffer)];
    memory = {&buffer, params[p].shape(), params[p], p >= inputs, {}};
    if (memory.tracked) memory.written.assign(static_cast<size_t>(params[p].size()), 0);
  }
  for (auto [v, value] : dims) state.vars[exprs.slot_of(v)] = value;
}

/// Compares every dimension with what the values of the symbolic ones make of it: two parameters may name
/// one.
void check_shapes(const Func& func, std::span<const Tensor> params, ExprCompiler& exprs, State& state) {
  for (size_t p = 0; p < params.size(); ++p) {
    const BufferNode& buffer = *func->params[p];
    for (size_t d = 0; d < buffer.shape.size(); ++d) {
      IntPtr dim = exprs.compile_int(buffer.shape[d]);
      // Compiling may have met variables that the body does not use.
      // Values that are set stay: slots only grow.
      state.vars.resize(exprs.var_count());
      int64_t expected = dim->run(state, 0);
      if (expected != params[p].shape()[d])
        fail("interpret: dimension {} of {} is {}, got {}", d, buffer.name, expected,
             shape_text(params[p].shape()));
    }
  }
}
}  // namespace

void interpret(const Func& func, std::span<const Tensor> params) {
  Compiler compiler;
  // Parameters have slots even where the body does not touch them: bind_params fills all.
  for (const Buffer& param : func->params) {
    compiler.exprs.slot_of(param.get());
    for (const Expr& dim : param->shape)
      if (const VarNode* v = dim.as<VarNode>()) compiler.exprs.slot_of(v);
  }
  StmtPtr body = compiler.compile(func->body);
  State state;
  state.vars.resize(compiler.exprs.var_count());
  state.buffers.resize(compiler.exprs.buffer_count());
  bind_params(func, params, compiler.exprs, state);
  check_shapes(func, params, compiler.exprs, state);
  body->run(state);
}

}  // namespace lathe::tir
