// Matrix products in tile registers: AMX (Intel's manual, volume 1, chapter 18), 8 registers of up to 16 rows
// of 64 bytes, of which an instruction adds the product of two to a third.
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/Transforms/Utils/ModuleUtils.h>

#include <algorithm>

#include "core/codegen/llvm/emitter.h"
#include "core/codegen/tile_nest.h"
#include "core/tir/lower.h"
#include "core/tir/machine.h"

namespace lathe::codegen {
namespace {

constexpr int64_t kTileBytes = 64;  // of a row
constexpr int64_t kGroupBytes = 4;  // neighbours along k
constexpr size_t kTileRegisters = 8, kConfigurationBytes = 64;

llvm::Intrinsic::ID product_instruction(DataType x, DataType y) {
  if (x == kBFloat16) return llvm::Intrinsic::x86_tdpbf16ps;
  if (x == kInt8) return y == kInt8 ? llvm::Intrinsic::x86_tdpbssd : llvm::Intrinsic::x86_tdpbsud;
  return y == kInt8 ? llvm::Intrinsic::x86_tdpbusd : llvm::Intrinsic::x86_tdpbuud;
}

/// Whether it takes less time in tiles, and the machine has those.
bool pays(const TileNest& nest, const MachineFeatures& features) {
  const DataType operands = nest.dot.same->buffer->dtype;
  return (operands == kBFloat16 ? features.bfloat16_tiles : features.int8_tiles) &&
         tiles_pay(operands, static_cast<int64_t>(nest.rows), nest.groups);
}

/// The registers of a nest.
struct Tiles {
  struct Rows {
    size_t begin;
    unsigned x = 0, x_end = 0;   // of the operand; in the last step, which is shorter
    std::vector<unsigned> sums;  // by column
  };
  std::vector<Rows> rows;
  std::vector<unsigned> y, y_end;  // in turn
  size_t configuration = 0;
};

/// Takes registers for a nest from those of a configuration, and adds what it does not have.
class Registers {
 public:
  explicit Registers(std::vector<TileShape>& shapes) : shapes_(shapes), taken_(shapes.size(), false) {}

  unsigned take(int64_t rows, int64_t bytes) {
    for (size_t i = 0; i < shapes_.size(); ++i)
      if (!taken_[i] && shapes_[i] == TileShape{rows, bytes}) {
        taken_[i] = true;
        return static_cast<unsigned>(i);
      }
    shapes_.push_back({rows, bytes});
    taken_.push_back(true);
    return static_cast<unsigned>(shapes_.size() - 1);
  }

 private:
  std::vector<TileShape>& shapes_;
  std::vector<bool> taken_;
};

/// Null where `shapes` and what the nest needs besides are more registers than there are. `frugal`: one for
/// each operand, filled again for each product.
std::optional<Tiles> allocate(const TileNest& nest, bool frugal, std::vector<TileShape>& shapes) {
  std::vector<TileShape> changed = shapes;
  Registers registers(changed);
  const int64_t whole = nest.groups / kTileRows, rest = nest.groups % kTileRows;
  const size_t columns = nest.columns.size(), at_once = frugal ? 1 : std::min<size_t>(columns, 2);
  const size_t parts = (nest.rows + kTileRows - 1) / kTileRows, most = (nest.rows + parts - 1) / parts;
  const auto rows = static_cast<int64_t>(most);
  Tiles tiles;
  for (size_t begin = 0; begin < nest.rows; begin += most) {
    // The last begins earlier rather than be smaller: rows of two tiles are the same in both.
    Tiles::Rows part{std::min(begin, nest.rows - most)};
    if (frugal && begin > 0) {
      part.x = tiles.rows[0].x, part.x_end = tiles.rows[0].x_end;
    } else {
      if (whole > 0) part.x = registers.take(rows, kTileBytes);
      if (rest > 0) part.x_end = registers.take(rows, rest * kGroupBytes);
    }
    for (size_t c = 0; c < columns; ++c) part.sums.push_back(registers.take(rows, kTileBytes));
    tiles.rows.push_back(std::move(part));
  }
  for (size_t c = 0; c < at_once; ++c) {
    if (whole > 0) tiles.y.push_back(registers.take(kTileRows, kTileBytes));
    if (rest > 0) tiles.y_end.push_back(registers.take(rest, kTileBytes));
  }
  if (changed.size() > kTileRegisters) return std::nullopt;
  shapes = std::move(changed);
  return tiles;
}

/// In a configuration of the function's if one has room, else in one more. Null where no configuration is
/// enough.
std::optional<Tiles> allocate(const TileNest& nest, std::vector<std::vector<TileShape>>& configurations) {
  for (bool frugal : {false, true}) {
    for (size_t i = 0; i <= configurations.size(); ++i) {
      std::vector<TileShape> fresh;
      std::optional<Tiles> tiles =
          allocate(nest, frugal, i < configurations.size() ? configurations[i] : fresh);
      if (!tiles) continue;
      if (i == configurations.size()) configurations.push_back(std::move(fresh));
      tiles->configuration = i;
      return tiles;
    }
  }
  return std::nullopt;
}

/// Elements from a row of the sums to the next, where it is the same for all; null where not.
std::optional<int64_t> rows_apart(const TileNest& nest) {
  const size_t columns = nest.columns.size();
  const int64_t first = nest.rows > 1 ? nest.slots[columns] - nest.slots[0] : kTileBytes / nest.sum.bytes();
  for (size_t i = columns; i < nest.slots.size(); ++i)
    if (nest.slots[i] - nest.slots[i - columns] != first) return std::nullopt;
  return first;
}

/// Whether a loop of the nest says that it reads main memory.
bool asks_ahead(const TileNest& nest) {
  std::vector<const tir::For*> loops = nest.loops;
  if (nest.along_k) loops.push_back(nest.along_k);
  return std::any_of(loops.begin(), loops.end(), [](const tir::For* loop) {
    auto ahead = loop->annotations.find(tir::kPrefetch);
    return ahead != loop->annotations.end() && ahead->second > 0;
  });
}

/// The operand of LDTILECFG.
llvm::Constant* configuration_of(llvm::LLVMContext& context, const std::vector<TileShape>& shapes) {
  std::vector<uint8_t> bytes(kConfigurationBytes, 0);
  bytes[0] = 1;  // palette
  for (size_t i = 0; i < shapes.size(); ++i) {
    bytes[16 + 2 * i] = static_cast<uint8_t>(shapes[i].bytes);
    bytes[48 + i] = static_cast<uint8_t>(shapes[i].rows);
  }
  return llvm::ConstantDataArray::get(context, bytes);
}

/// Linux gives tile registers to processes that have asked for them, here by the shared object that is
/// loaded.
void request_tile_registers(llvm::Module& module) {
  constexpr const char* kName = "lathe.request_tile_registers";
  constexpr uint64_t kArchPrctl = 158, kRequest = 0x1023, kTileData = 18;  // as in core/support/cpu.cpp
  if (module.getFunction(kName)) return;
  llvm::IRBuilder<> b(module.getContext());
  auto* type = llvm::FunctionType::get(b.getVoidTy(), false);
  auto* f = llvm::Function::Create(type, llvm::Function::InternalLinkage, kName, module);
  b.SetInsertPoint(llvm::BasicBlock::Create(module.getContext(), "entry", f));
  auto* call_type =
      llvm::FunctionType::get(b.getInt64Ty(), {b.getInt64Ty(), b.getInt64Ty(), b.getInt64Ty()}, false);
  b.CreateCall(llvm::InlineAsm::get(call_type, "syscall", "={rax},0,{rdi},{rsi},~{rcx},~{r11},~{memory}",
                                    /*hasSideEffects=*/true),
               {b.getInt64(kArchPrctl), b.getInt64(kRequest), b.getInt64(kTileData)});
  b.CreateRetVoid();
  llvm::appendToGlobalCtors(module, f, /*Priority=*/0);
}

}  // namespace

/// Emits one nest: the sums into tiles, its loops around products of tiles, the sums back.
class Emitter::TileEmitter {
 public:
  TileEmitter(Emitter& emitter, const TileNest& nest, Tiles tiles)
      : e_(emitter),
        b_(emitter.b_),
        nest_(nest),
        tiles_(std::move(tiles)),
        sums_(emitter.storage(nest.sums.get())),
        whole_(nest.groups / kTileRows),
        has_rest_(nest.groups % kTileRows != 0),
        reads_far_(asks_ahead(nest)) {
    memory_ = sums_.pointer;
    // Tiles go to memory and come from there: that of the sums, or where these are registers one of their
    // own.
    if (!memory_)
      memory_ = e_.stack_slot(llvm::ArrayType::get(b_.getInt8Ty(), nest.slots.size() * kTileBytes),
                              llvm::Align(kTileBytes), "tiles");
  }

  void emit() {
    e_.configure_tiles(tiles_.configuration);
    if (!sums_.pointer)
      for (size_t i = 0; i < nest_.slots.size(); ++i)
        b_.CreateAlignedStore(b_.CreateLoad(slot(i)->getAllocatedType(), slot(i)), place(i),
                              llvm::Align(kTileBytes));
    move_sums(llvm::Intrinsic::x86_tileloadd64);
    e_.emit_nest(nest_.loops, [this] { emit_steps(); });
    move_sums(llvm::Intrinsic::x86_tilestored64);
    if (!sums_.pointer)
      for (size_t i = 0; i < nest_.slots.size(); ++i)
        b_.CreateStore(b_.CreateAlignedLoad(slot(i)->getAllocatedType(), place(i), llvm::Align(kTileBytes)),
                       slot(i));
  }

 private:
  llvm::AllocaInst* slot(size_t i) { return sums_.slots.at(nest_.slots[i]); }
  /// Where vector `i` of the sums is in memory_.
  llvm::Value* place(size_t i) {
    const int64_t at =
        sums_.pointer ? nest_.slots[i] * nest_.sum.bytes() : static_cast<int64_t>(i) * kTileBytes;
    return b_.CreateInBoundsGEP(b_.getInt8Ty(), memory_, b_.getInt64(at));
  }
  void call(llvm::Intrinsic::ID id, std::vector<llvm::Value*> arguments) {
    b_.CreateIntrinsic(id, {}, arguments);
  }
  llvm::Value* number(unsigned tile) { return b_.getInt8(static_cast<uint8_t>(tile)); }

  void move_sums(llvm::Intrinsic::ID id) {
    const size_t columns = nest_.columns.size();
    const int64_t pitch =
        sums_.pointer ? *rows_apart(nest_) * nest_.sum.bytes() : static_cast<int64_t>(columns) * kTileBytes;
    for (const Tiles::Rows& part : tiles_.rows)
      for (size_t c = 0; c < columns; ++c)
        call(id, {number(part.sums[c]), place(part.begin * columns + c), b_.getInt64(pitch)});
  }

  /// All of k.
  void emit_steps() {
    if (whole_ > 1)
      e_.emit_serial(step_, b_.getInt64(0), b_.getInt64(whole_), [this] { emit_step(true); });
    else if (whole_ == 1)
      emit_step(true);
    if (has_rest_) emit_step(false);
  }

  /// The operands' tiles and their products: of step_, or of the rest of k.
  void emit_step(bool is_whole) {
    const size_t columns = nest_.columns.size();
    const auto x_of = [&](const Tiles::Rows& part) { return is_whole ? part.x : part.x_end; };
    const bool shares_x = tiles_.rows.size() > 1 && x_of(tiles_.rows[0]) == x_of(tiles_.rows[1]);
    if (!shares_x)
      for (const Tiles::Rows& part : tiles_.rows) load_x(part, is_whole);
    for (size_t c = 0; c < columns; ++c) {
      const std::vector<unsigned>& registers = is_whole ? tiles_.y : tiles_.y_end;
      const unsigned y = registers[c % registers.size()];
      const tir::Buffer& buffer = nest_.dot.each->buffer;
      const FlatAccess from = at_step(nest_.dot.each_at, nest_.group_stride, nest_.columns[c], is_whole);
      call(llvm::Intrinsic::x86_tileloadd64,
           {number(y), e_.pointer_to(from, buffer), b_.getInt64(nest_.group_stride * buffer->dtype.bytes())});
      if (is_whole && reads_far_) e_.prefetch_next(from, buffer, steps_of_whole());
      for (const Tiles::Rows& part : tiles_.rows) {
        if (shares_x) load_x(part, is_whole);
        call(product_instruction(nest_.dot.same->buffer->dtype, buffer->dtype),
             {number(part.sums[c]), number(x_of(part)), number(y)});
      }
    }
  }

  /// How many of the program's iterations are one step.
  double steps_of_whole() const {
    const double along_k = nest_.along_k ? static_cast<double>(int_value(nest_.along_k->extent)) : 1;
    return along_k / static_cast<double>(whole_);
  }

  void load_x(const Tiles::Rows& part, bool is_whole) {
    const tir::Buffer& buffer = nest_.dot.same->buffer;
    const int64_t first = static_cast<int64_t>(part.begin) * nest_.row_stride;
    const int64_t pitch = nest_.rows > 1 ? nest_.row_stride * buffer->dtype.bytes() : kTileBytes;
    call(llvm::Intrinsic::x86_tileloadd64,
         {number(is_whole ? part.x : part.x_end),
          e_.pointer_to(at_step(nest_.dot.same_at, nest_.dot.terms, first, is_whole), buffer),
          b_.getInt64(pitch)});
  }

  /// `access` of the first step, `offset` elements further, in the step at hand. `apart`: elements from a
  /// group to the next.
  FlatAccess at_step(FlatAccess access, int64_t apart, int64_t offset, bool is_whole) const {
    const int64_t elements = kTileRows * apart;
    if (nest_.along_k)
      std::erase_if(access.terms, [&](const auto& term) { return term.first == nest_.along_k->var; });
    access.constant += offset + (is_whole ? 0 : whole_ * elements);
    if (is_whole && whole_ > 1) access.terms.emplace_back(step_, elements);
    return access;
  }

  Emitter& e_;
  llvm::IRBuilder<>& b_;
  const TileNest& nest_;
  const Tiles tiles_;
  const Storage& sums_;
  llvm::Value* memory_;
  const int64_t whole_;  // steps along k
  const bool has_rest_, reads_far_;
  const Var step_ = var("step");
};

bool Emitter::has_tiles() const { return state_.features.bfloat16_tiles || state_.features.int8_tiles; }

/// False where `loop` is no nest for tiles; nothing is emitted then.
bool Emitter::emit_tiles(const tir::For& loop) {
  if (!has_tiles() || mask_) return false;
  const std::optional<TileNest> nest = tile_nest_of(loop);
  if (!nest || !pays(*nest, state_.features) || !in_memory(nest->dot)) return false;
  const Storage& sums = storage(nest->sums.get());
  if (sums.pointer ? !rows_apart(*nest) : !sums.columns.empty()) return false;
  std::optional<Tiles> tiles = allocate(*nest, tile_configurations_);
  if (!tiles) return false;
  TileEmitter(*this, *nest, std::move(*tiles)).emit();
  return true;
}

/// Loops inside of each other around what `body` emits.
void Emitter::emit_nest(std::span<const tir::For* const> loops, FunctionRef<void()> body) {
  if (loops.empty()) return body();
  const tir::For& loop = *loops[0];
  const auto inner = [&] { emit_nest(loops.subspan(1), body); };
  const int64_t* extent = as_int(loop.extent);
  if (extent && *extent <= 0) return;
  if (extent && *extent == 1) {
    vars_[loop.var.get()] = b_.getInt64(0);
    return inner();
  }
  emit_serial(loop.var, b_.getInt64(0), value(loop.extent), inner);
}

/// Which configuration is set, -1 for none.
llvm::Value* Emitter::tile_configuration() {
  if (!tile_configuration_) {
    tile_configuration_ = stack_slot(b_.getInt64Ty(), llvm::Align(8), "configuration");
    llvm::IRBuilder<>(allocas_).CreateStore(b_.getInt64(-1), tile_configuration_);
  }
  return tile_configuration_;
}

/// Unless the last nest had the same: it takes as long as several products do.
void Emitter::configure_tiles(size_t configuration) {
  llvm::Value* wanted = b_.getInt64(configuration);
  llvm::BasicBlock *change = block("configure"), *end = block("configured");
  b_.CreateCondBr(b_.CreateICmpNE(b_.CreateLoad(b_.getInt64Ty(), tile_configuration()), wanted), change, end);
  b_.SetInsertPoint(change);
  // What a register is for is known when the function ends.
  if (configuration >= tile_data_.size()) {
    auto* type = llvm::ArrayType::get(b_.getInt8Ty(), kConfigurationBytes);
    tile_data_.push_back(new llvm::GlobalVariable(state_.module, type, /*isConstant=*/true,
                                                  llvm::GlobalValue::PrivateLinkage,
                                                  llvm::Constant::getNullValue(type), "tiles"));
    tile_data_.back()->setAlignment(llvm::Align(kConfigurationBytes));
  }
  b_.CreateIntrinsic(llvm::Intrinsic::x86_ldtilecfg, {}, {tile_data_[configuration]});
  b_.CreateStore(wanted, tile_configuration());
  b_.CreateBr(end);
  b_.SetInsertPoint(end);
}

/// What ran in between may have had tiles of its own.
void Emitter::forget_tiles() {
  if (has_tiles()) b_.CreateStore(b_.getInt64(-1), tile_configuration());
}

void Emitter::finish_tiles() {
  if (tile_data_.empty()) return;
  for (size_t i = 0; i < tile_data_.size(); ++i)
    tile_data_[i]->setInitializer(configuration_of(b_.getContext(), tile_configurations_[i]));
  // Else whoever runs here next saves registers that nobody needs.
  for (llvm::BasicBlock& each : *function_)
    if (auto* end = llvm::dyn_cast<llvm::ReturnInst>(each.getTerminator()))
      llvm::IRBuilder<>(end).CreateIntrinsic(llvm::Intrinsic::x86_tilerelease, {}, {});
  request_tile_registers(state_.module);
}

}  // namespace lathe::codegen
