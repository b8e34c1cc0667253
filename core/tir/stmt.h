// Tensor programs: loops, blocks and stores over buffers. A block is the unit of scheduling: a statement
// with its own iteration variables, each bound to an expression of the loops around it, and with declared
// reads and writes, so that schedule primitives can reason about it without looking inside.
//
// Two levels share these nodes. *Scheduled level*: For, Block, Store, Seq, If. *Lowered level* (what code
// generation takes, see lower.h): For, Store, Seq, If, Alloc; no Block; vectors as Ramp/Broadcast.
#pragma once

#include "core/arith/expr.h"

namespace lathe::tir {

/// Where a buffer lives.
enum class Scope : uint8_t {
  kGlobal,  // main memory: parameters and intermediates
  kLocal,  // private to one thread: registers, when its accesses are constant after unrolling, else the stack
  kShared,  // GPU: shared by the threads of a block
};
const char* spelling(Scope scope);

/// A row-major dense array. Two buffers of one name differ. Strides follow from the shape.
struct BufferNode final : NodeOf<BufferNode, Node, Identity::kName> {
  std::string name;
  DataType dtype;
  std::vector<Expr> shape;
  Scope scope = Scope::kGlobal;
  static constexpr auto kName = "Buffer";
  static constexpr auto kKind = 0;
  static constexpr auto fields =
      std::tuple{info("name", &BufferNode::name), field("dtype", &BufferNode::dtype),
                 field("shape", &BufferNode::shape), field("scope", &BufferNode::scope)};
};
using Buffer = Ref<BufferNode>;
Buffer buffer(std::string name, std::vector<Expr> shape, DataType dtype, Scope scope = Scope::kGlobal);
/// The shape as numbers. REQUIRES: all dimensions are constant.
std::vector<int64_t> constant_shape(const Buffer& buffer);
/// Its size. REQUIRES: all dimensions are constant.
int64_t byte_size(const Buffer& buffer);

/// buffer[indices], one index a dimension, each in bounds (an index of several lanes makes a vector).
struct Load final : NodeOf<Load, ExprNode> {
  Buffer buffer;
  std::vector<Expr> indices;
  static constexpr auto kName = "Load";
  static constexpr auto kKind = ExprKind::kLoad;
  static constexpr auto fields = std::tuple{field("buffer", &Load::buffer), field("indices", &Load::indices),
                                            field("dtype", &Load::dtype)};
};
Expr load(Buffer buffer, std::vector<Expr> indices);
/// The lanes of an access with these indices: those of its vector indices, or 1.
int lanes_of(std::span<const Expr> indices);

struct Range {
  Expr min, extent;
  static constexpr auto fields = std::tuple{field("min", &Range::min), field("extent", &Range::extent)};
};
/// A box of a buffer: min <= index < min + extent in each dimension.
struct Region {
  Buffer buffer;
  std::vector<Range> ranges;
  static constexpr auto fields =
      std::tuple{field("buffer", &Region::buffer), field("ranges", &Region::ranges)};
};

enum class StmtKind : uint16_t { kFor, kBlock, kStore, kSeq, kIf, kAlloc };

struct StmtNode : Node {
  StmtKind kind() const { return static_cast<StmtKind>(kind_id()); }

 protected:
  using Node::Node;
};
using Stmt = Ref<StmtNode>;

enum class Iteration : uint8_t {
  kSerial,
  kParallel,    // iterations may run at once: none touches an element another one writes
  kVectorized,  // the loop becomes vector instructions: constant extent
  kUnrolled,    // the body is repeated: constant extent
  kBlockX,
  kBlockY,
  kBlockZ,
  kThreadX,
  kThreadY,
  kThreadZ,  // GPU axes
};
const char* spelling(Iteration iteration);

/// Hints to code generation and to later design-space rules, by name.
using Annotations = std::map<std::string, int64_t>;

/// Runs `body` for var = 0 .. extent-1.
struct For final : NodeOf<For, StmtNode> {
  Var var;
  Expr extent;
  Iteration iteration = Iteration::kSerial;
  Stmt body;
  Annotations annotations;
  static constexpr auto kName = "For";
  static constexpr auto kKind = StmtKind::kFor;
  static constexpr auto fields =
      std::tuple{def("var", &For::var), field("extent", &For::extent), field("iteration", &For::iteration),
                 field("body", &For::body), field("annotations", &For::annotations)};
};

enum class IterKind : uint8_t {
  kSpatial,  // each value touches its own part of the outputs: any order, in parallel too
  kReduce,   // combines into the outputs: any order up to rounding, not in parallel
  kOpaque,   // no promise
};
const char* spelling(IterKind kind);

/// A block's iteration variable: takes values 0 .. extent-1; `value` binds it to the loops around the block.
struct BlockIter {
  Var var;
  Expr extent;
  IterKind kind = IterKind::kSpatial;
  Expr value;
  static constexpr auto fields =
      std::tuple{field("extent", &BlockIter::extent), field("kind", &BlockIter::kind),
                 field("value", &BlockIter::value), def("var", &BlockIter::var)};
};

/// `init` runs before the first execution of `body` along the reduction (when all kReduce variables are 0).
/// Body and init use only the block's own variables, not loop variables. Runs only where `predicate` (over
/// loop variables) holds. `allocs` are buffers that live as long as one execution of the block.
struct Block final : NodeOf<Block, StmtNode> {
  std::string name;  // unique in the function; schedules refer to blocks by name
  std::vector<BlockIter> iters;
  Expr predicate = imm(kBool, 1);
  std::vector<Region> reads, writes;
  std::vector<Buffer> allocs;
  Stmt init;  // may be null
  Stmt body;
  Annotations annotations;
  static constexpr auto kName = "Block";
  static constexpr auto kKind = StmtKind::kBlock;
  static constexpr auto fields = std::tuple{field("name", &Block::name),
                                            field("predicate", &Block::predicate),
                                            field("iters", &Block::iters),
                                            def("allocs", &Block::allocs),
                                            field("reads", &Block::reads),
                                            field("writes", &Block::writes),
                                            field("init", &Block::init),
                                            field("body", &Block::body),
                                            field("annotations", &Block::annotations)};
};

/// buffer[indices] = value. An index of several lanes stores a vector.
struct Store final : NodeOf<Store, StmtNode> {
  Buffer buffer;
  std::vector<Expr> indices;
  Expr value;
  static constexpr auto kName = "Store";
  static constexpr auto kKind = StmtKind::kStore;
  static constexpr auto fields = std::tuple{field("buffer", &Store::buffer),
                                            field("indices", &Store::indices), field("value", &Store::value)};
};

struct Seq final : NodeOf<Seq, StmtNode> {
  std::vector<Stmt> stmts;
  static constexpr auto kName = "Seq";
  static constexpr auto kKind = StmtKind::kSeq;
  static constexpr auto fields = std::tuple{field("stmts", &Seq::stmts)};
};

/// Runs the case that `condition` chooses. At the lowered level the condition may have lanes: then the stores
/// of `then_case`, all of as many lanes, write those lanes for which it holds, and nothing is loaded for the
/// others; there is no else_case.
struct If final : NodeOf<If, StmtNode> {
  Expr condition;
  Stmt then_case, else_case;  // else_case may be null
  static constexpr auto kName = "If";
  static constexpr auto kKind = StmtKind::kIf;
  static constexpr auto fields =
      std::tuple{field("condition", &If::condition), field("then_case", &If::then_case),
                 field("else_case", &If::else_case)};
};

/// `buffer` lives during `body`. Lowered level only.
struct Alloc final : NodeOf<Alloc, StmtNode> {
  Buffer buffer;
  Stmt body;
  static constexpr auto kName = "Alloc";
  static constexpr auto kKind = StmtKind::kAlloc;
  static constexpr auto fields = std::tuple{def("buffer", &Alloc::buffer), field("body", &Alloc::body)};
};

/// A tensor program in destination-passing style: params are inputs then outputs (the last `outputs` of
/// them). At the scheduled level `body` is one Block named "root" without iterators whose `allocs` are the
/// intermediates. Symbolic dimensions are variables that occur in the shapes of params.
struct FuncNode final : NodeOf<FuncNode, Node> {
  std::string name;
  std::vector<Buffer> params;
  int64_t outputs = 1;
  Stmt body;
  Annotations annotations;
  static constexpr auto kName = "Func";
  static constexpr auto kKind = 0;
  static constexpr auto fields = std::tuple{
      info("name", &FuncNode::name), def("params", &FuncNode::params), field("outputs", &FuncNode::outputs),
      field("body", &FuncNode::body), field("annotations", &FuncNode::annotations)};
};
using Func = Ref<FuncNode>;

Stmt store(Buffer buffer, std::vector<Expr> indices, Expr value);
/// Flattens nested sequences; one statement stays itself.
Stmt seq(std::vector<Stmt> stmts);
Stmt for_loop(Var var, Expr extent, Stmt body, Iteration iteration = Iteration::kSerial);

/// For readers of JSON: the nodes of this language, scalar expressions included.
NodeTable tir_node_types();

/// Replaces variables and buffers in a statement or expression (uses and, for buffers, definitions too).
using BufferMap = std::map<const BufferNode*, Buffer>;
Stmt substitute(const Stmt& stmt, const VarMap& vars, const BufferMap& buffers = {});
Expr substitute(const Expr& expr, const VarMap& vars, const BufferMap& buffers);

}  // namespace lathe::tir
