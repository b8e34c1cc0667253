// Tensor programs -> LLVM IR, one function at a time.
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <map>
#include <memory>
#include <set>
#include <span>

#include "core/codegen/address.h"
#include "core/codegen/dot_product.h"
#include "core/codegen/registers.h"
#include "core/tir/leading_copy.h"
#include "core/tir/stmt.h"
#include "core/tir/target.h"

namespace lathe::codegen {

/// Bytes that the intermediates of one thread may take on its stack.
inline constexpr int64_t kStackLimit = 4 << 20;

/// Instructions that the emitter names itself.
struct MachineFeatures {
  unsigned avx512_lanes = 0;     // floats in a vector that AVX-512 instructions may use; 0: there are none
  bool fma = false;              // of floats, of either width
  bool vector_masks = false;     // vmaskmov, vpmaskmov: a mask is a vector whose signs count
  bool vnni = false;             // vpdpbusd for all widths of vectors that the target has
  bool pairs = false;            // vpmaddwd and an addition, for want of vpdpbusd
  bool byte_pairs = false;       // vpmaddubsw, for all widths of vectors that the target has
  bool bfloat16 = false;         // vdpbf16ps, vcvtneps2bf16
  bool converts_longs = true;    // vectors of integers of 64 bits to floats and back
  bool divides_integers = true;  // vectors of integers
  bool bfloat16_tiles = false, int8_tiles = false;  // tdpbf16ps; tdpbssd and its kin
  bool neon_dot = false;                            // sdot, udot
};

/// What the functions of one kernel share: the kernel and the bodies of its parallel loops.
struct KernelState {
  llvm::Module& module;
  const Target& target;
  tir::Func func;
  RegisterPlan registers;
  MachineFeatures features;
  int64_t workspace_bytes = 0;
  Expr open_workspace = {};  // where it depends on dimensions
  int parallel_loops = 0;
  std::optional<tir::LeadingCopy> leading_copy = {};
};

/// Where the elements of a buffer are: behind `pointer`, or in one register-to-be a slot (an alloca that
/// becomes an SSA value), by the offset of the slot's first element. Slots that are the rows of a matrix have
/// its columns beside them, by the offset of their first elements, which hold what `transpose` made of them.
struct Storage {
  llvm::Value* pointer = nullptr;
  std::map<int64_t, llvm::AllocaInst*> slots, columns;
  bool transposed = false;  // the columns are those of the rows as they are now
};

/// An open loop (or the function): `head` holds what its iterations compute once, at their start. `pointers`
/// are the addresses found there, so that the unrolled copies of an access share one pointer and differ by a
/// constant.
/// `prefetch`: vectors read from main memory are asked for that many bytes ahead (tir::kPrefetch), each line
/// once an iteration: `prefetched`. `lines_of_next`: tir::kPrefetchNext. `index` is `var` in 0..end; a
/// parallel loop's index begins at its task's.
struct Loop {
  llvm::BasicBlock* head;
  const VarNode* var = nullptr;
  llvm::Value *index = nullptr, *end = nullptr;
  int64_t lines_of_next = 0;
  bool asks_for_next = false;
  std::map<AddressKey, llvm::Value*> pointers = {};
  std::vector<std::pair<Expr, llvm::Value*>> masks = {};  // computed at its head
  int64_t prefetch = 0;
  std::set<std::pair<AddressKey, int64_t>> prefetched = {};
};

/// How a tile register is used: its rows, and the bytes of a row.
struct TileShape {
  int64_t rows, bytes;
  bool operator==(const TileShape&) const = default;
};

/// Emits the statements of one LLVM function. float16 and bfloat16 are floats between loads and stores,
/// rounded after each operation; bool is i1, a byte in memory.
class Emitter {
 public:
  /// Emits the kernel `state.func` under its name: LatheKernel around a function whose parameters do not
  /// alias.
  static void emit_kernel(KernelState& state);

 private:
  Emitter(KernelState& state, llvm::Function* function, bool in_parallel);

  // emit_stmt.cpp
  void emit(const tir::Stmt& stmt);
  void emit_for(const tir::For& loop);
  void emit_serial(const Var& var, llvm::Value* begin, llvm::Value* end, FunctionRef<void()> body);
  void mark_next(const tir::For& loop);
  void emit_joined(std::span<const tir::For* const> nest, llvm::Value* begin, llvm::Value* end);
  void emit_if(const tir::If& branch);
  void emit_leading_copy();
  void emit_masked(const Expr& condition, llvm::Value* lanes, const tir::Stmt& stmt);
  bool wants_some(const Expr& condition) const;
  /// Bytes on the stack, and where they begin.
  using StackPlace = std::pair<const int64_t, llvm::Value*>;
  StackPlace take_stack(int64_t bytes, const std::string& name);
  void emit_alloc(const tir::Alloc& alloc);
  void emit_store(const tir::Store& store);

  // emit_function.cpp
  void call_inner(llvm::Function* inner, std::span<const tir::Buffer> buffers, std::span<const Var> dims);
  void emit_parallel(const tir::For& loop);
  void finish();
  llvm::Value* stack_slot(llvm::Type* type, llvm::Align align, const std::string& name);

  // emit_expr.cpp
  llvm::Value* value(const Expr& e);
  llvm::Value* binary(const Binary& e);
  llvm::Value* constant_power(llvm::Value* x, const Expr& exponent);
  llvm::Value* float_quotient(llvm::Value* a, llvm::Value* b);
  llvm::Value* float_binary(const Binary& e, llvm::Value* a, llvm::Value* b);
  llvm::Value* float_remainder(llvm::Value* a, llvm::Value* b);
  llvm::Value* intrinsic(const IntrinsicCall& e);
  llvm::Value* float_intrinsic(Intrinsic f, llvm::Value* a, DataType dtype);
  llvm::Value* per_lane_call(const std::string& libm_name, llvm::ArrayRef<llvm::Value*> args);
  llvm::Value* rounded(llvm::Value* v, DataType dtype);

  // emit_integer.cpp
  llvm::Value* int_binary(const Binary& e, llvm::Value* a, llvm::Value* b);
  llvm::Value* integer_power(llvm::Value* base, llvm::Value* exponent, bool is_signed);
  llvm::Value* ramp_division(const Binary& e);
  llvm::Value* any_division(const Binary& e, llvm::Value* a, llvm::Value* b);
  llvm::Value* division(const Binary& e, llvm::Value* a, llvm::Value* b);

  // emit_select.cpp
  llvm::Value* select(const Select& e);
  llvm::Value* vector_select(const Select& e);
  llvm::Value* known_or(const Expr& e, FunctionRef<llvm::Value*()> emit_value);
  llvm::Value* guarded(llvm::Value* condition, llvm::Type* type, FunctionRef<llvm::Value*()> emit_value);

  // emit_cast.cpp
  llvm::Value* cast(const Cast& e);
  llvm::Value* vector_whole(const Expr& e, DataType to);
  llvm::Value* vector_narrow(const Expr& e, DataType to);

  // emit_dot.cpp
  llvm::Value* dot_product(const Binary& e);
  bool in_memory(const DotProduct& dot) const;

  // emit_tiles.cpp
  class TileEmitter;
  bool emit_tiles(const tir::For& loop);
  void emit_nest(std::span<const tir::For* const> loops, FunctionRef<void()> body);
  bool has_tiles() const;
  llvm::Value* tile_configuration();
  void configure_tiles(size_t configuration);
  void forget_tiles();
  void finish_tiles();

  // emit_memory.cpp
  void share_terms(FlatAccess& at);
  FlatAccess access(const tir::Buffer& buffer, const std::vector<Expr>& indices);
  llvm::Value* load(const tir::Load& e);
  llvm::Value* load_slot(llvm::AllocaInst* slot);
  llvm::Value* load_from(const FlatAccess& at, const tir::Buffer& buffer);
  void ask_for(llvm::Value* pointer, int64_t bytes, int level);
  bool reads_far(const tir::Buffer& buffer) const;
  void prefetch(const FlatAccess& at, const tir::Buffer& buffer, llvm::Value* pointer);
  void prefetch_next(FlatAccess at, const tir::Buffer& buffer, double iterations = 1);
  void store_in_register(llvm::AllocaInst* slot, llvm::Value* v);
  void store_masked(llvm::Value* v, llvm::Value* pointer, llvm::Align align);
  llvm::Value* early_mask(const Expr& condition);
  llvm::Value* signs_of(llvm::Instruction* mask, llvm::VectorType* type);
  bool is_zero_beyond(llvm::Value* loaded, llvm::Value* mask) const;
  llvm::Value* load_masked(llvm::Type* type, llvm::Value* pointer, llvm::Align align);
  llvm::Value* mask_of(llvm::ArrayRef<int> lanes);
  llvm::Value* load_strided(const FlatAccess& at, const tir::Buffer& buffer);
  llvm::Value* gather(const FlatAccess& at, const tir::Buffer& buffer);
  // emit_rows.cpp
  /// An element of each of the rows that begin at `first`.
  struct ShortRows {
    int length, place;
    FlatAccess first;
  };
  std::optional<ShortRows> short_rows(const FlatAccess& at, const tir::Buffer& buffer) const;
  llvm::Value* load_short_rows(const ShortRows& rows, const tir::Buffer& buffer);
  std::optional<ShortRows> stored_rows(std::span<const tir::Stmt> stmts);
  void store_short_rows(std::span<const tir::Stmt> stores, const ShortRows& rows);
  // emit_runs.cpp
  llvm::Value* load_runs(const FlatAccess& at, const tir::Buffer& buffer);
  llvm::Value* load_broken_line(const FlatAccess& at, const tir::Buffer& buffer);
  llvm::Value* masked_scalar_runs(const FlatAccess& at, const tir::Buffer& buffer, int64_t length,
                                  FunctionRef<llvm::Value*(int64_t)> start,
                                  const std::vector<int64_t>& starts);
  void scatter(const FlatAccess& at, const tir::Buffer& buffer, llvm::Value* v);
  llvm::Value* lane_offsets(const FlatAccess& at);
  llvm::Value* pointer_to(const FlatAccess& at, const tir::Buffer& buffer);
  llvm::Value* advanced(llvm::Value* pointer, llvm::Type* element, const std::pair<Expr, int64_t>& term);
  size_t depth_of(const Expr& e) const;
  llvm::BasicBlock* block(const std::string& name);
  void open_loop(const std::string& name);
  llvm::Align alignment_of(const FlatAccess& at, const tir::Buffer& buffer) const;
  llvm::Value* from_memory(llvm::Value* v, DataType dtype);
  llvm::Value* kept_wide(llvm::Value* v);
  llvm::Value* to_memory(llvm::Value* v, DataType dtype);

  // emit_transpose.cpp
  void transpose_before(const tir::Stmt& stmt);
  void transpose(const tir::BufferNode* buffer, Storage& place);
  void allocate_columns(const tir::Buffer& buffer, Storage& place);

  // types.cpp
  llvm::Type* value_type(DataType dtype);
  llvm::Type* memory_type(DataType dtype);

  const Storage& storage(const tir::BufferNode* buffer) const;

  KernelState& state_;
  llvm::Function* function_;
  llvm::IRBuilder<> b_;
  llvm::BasicBlock* allocas_;        // the function's first block: stack slots only
  llvm::Value* parallel_ = nullptr;  // LatheParallel*, in the kernel's own function
  llvm::Value* apart_ = nullptr;     // there: the result is not where the input of leading_copy is
  llvm::Value* mask_ = nullptr;      // the lanes that a vector select or a mask wants, or all
  std::map<std::pair<llvm::Value*, llvm::Type*>, llvm::Value*> signs_;  // signs_of(), by mask and type
  std::vector<Expr> facts_;  // what the Ifs of one condition have found around the statement at hand
  llvm::Value* statement_mask_ = nullptr;  // those that the statement at hand stores; not none of them
  /// What conditions of the vector selects around have computed: for more lanes than their sides want.
  struct Known {
    Expr expr;
    llvm::Value* value;
    llvm::Value* mask;
  };
  std::vector<Known> known_;
  bool keeps_known_ = false;                 // in a condition: what is computed here is there for the sides
  const tir::BufferNode* stored_ = nullptr;  // what the statement at hand writes
  bool in_parallel_;                         // the body of a parallel loop
  int64_t stack_bytes_ = 0;                  // of all places on the stack
  std::multimap<int64_t, llvm::Value*> free_stack_;  // those of intermediates that are dead, by their sizes
  // Tile registers as nests use them, up to eight at once; the variable that says which of these are set; the
  // operands of the instructions that set them.
  std::vector<std::vector<TileShape>> tile_configurations_;
  llvm::Value* tile_configuration_ = nullptr;
  std::vector<llvm::GlobalVariable*> tile_data_;
  std::map<const VarNode*, llvm::Value*> vars_;
  std::map<const tir::BufferNode*, Storage> buffers_;
  std::map<uint64_t, std::vector<Expr>> terms_;  // of accesses, distinct ones, by structural_hash
  std::vector<Loop> loops_;                      // the function itself, then the open loops, outermost first
  std::map<const VarNode*, size_t> depth_;       // of loop variables: the position of their loop in loops_
};

}  // namespace lathe::codegen
