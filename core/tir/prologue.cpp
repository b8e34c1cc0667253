#include "core/tir/prologue.h"

#include <algorithm>
#include <unordered_set>

#include "core/support/error.h"
#include "core/tir/dims.h"

namespace lathe::tir {
namespace {

using BufferSet = std::unordered_set<const BufferNode*>;

/// The statements right inside the root block.
std::vector<Stmt> statements_of(const Block& root) {
  if (const Seq* seq = root.body.as<Seq>()) return seq->stmts;
  return {root.body};
}

/// The buffers that a statement touches; those allocated inside are among them.
struct Touched {
  BufferSet reads, writes;
};

/// By accesses and by what blocks declare: a block of which the body was not looked at may declare more.
Touched touched_by(const Stmt& stmt) {
  Touched touched;
  post_order(stmt, [&](const NodeRef& node) {
    if (const Load* load = node.as<Load>()) touched.reads.insert(load->buffer.get());
    if (const Store* store = node.as<Store>()) touched.writes.insert(store->buffer.get());
    const Block* block = node.as<Block>();
    if (!block) return;
    for (const Region& region : block->reads) touched.reads.insert(region.buffer.get());
    for (const Region& region : block->writes) touched.writes.insert(region.buffer.get());
  });
  return touched;
}

bool uses_any(const Stmt& stmt, const std::vector<Var>& vars) {
  bool found = false;
  post_order(stmt, [&](const NodeRef& node) {
    found |= node.as<VarNode>() && std::find(vars.begin(), vars.end(), node.cast<VarNode>()) != vars.end();
  });
  return found;
}

/// Statements are taken whole: one moves into the prologue or stays. Their order within a part is that of the
/// program.
class Splitter {
 public:
  explicit Splitter(const Func& func)
      : func_(func), root_(*func->body.as<Block>()), stmts_(statements_of(root_)) {
    const std::vector<Var> dims = dims_of(*func);
    for (const Stmt& stmt : stmts_) {
      touched_.push_back(touched_by(stmt));
      // All, until decide() takes some away; but a dimension that is open has no value when a model is built.
      ahead_.push_back(!uses_any(stmt, dims));
    }
  }

  SplitProgram split() {
    decide();
    reads_ahead_ = reads_where(true), reads_later_ = reads_where(false);
    place_intermediates();
    if (!shared_.empty()) return parts();
    // Nothing that the other statements read can be made ahead.
    SplitProgram whole{.main = with_constant_params(func_, 0)};
    for (size_t p = 0; p < func_->params.size(); ++p) whole.main_params.push_back({false, p});
    return whole;
  }

 private:
  size_t inputs() const { return func_->params.size() - static_cast<size_t>(func_->outputs); }

  /// Takes away statements that cannot run ahead until the others depend on constants alone.
  void decide() {
    BufferSet late;  // what has no value when the prologue runs, or is not the prologue's to write
    for (const Buffer& buffer : root_.allocs)
      // What no statement writes that may run ahead has no value.
      if (!written_ahead(buffer)) late.insert(buffer.get());
    for (size_t s = 0; s < stmts_.size(); ++s)
      if (!ahead_[s]) late.insert(touched_[s].writes.begin(), touched_[s].writes.end());
    for (size_t p = 0; p < func_->params.size(); ++p)
      if (!is_constant_param(func_, p)) late.insert(func_->params[p].get());
    auto is_late = [&](const BufferNode* buffer) { return late.count(buffer) > 0; };
    // A statement that stays makes what it writes late, and with that others that read or write it. Each
    // round takes one away at least, so there are no more rounds than statements.
    // O(statements^2) at worst; a kernel has some dozen.
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t s = 0; s < stmts_.size(); ++s) {
        if (!ahead_[s]) continue;
        const auto& [reads, writes] = touched_[s];
        if (std::none_of(reads.begin(), reads.end(), is_late) &&
            std::none_of(writes.begin(), writes.end(), is_late))
          continue;
        ahead_[s] = false;
        late.insert(writes.begin(), writes.end());
        changed = true;
      }
    }
  }

  /// What the statements of one part read.
  BufferSet reads_where(bool ahead) const {
    BufferSet reads;
    for (size_t s = 0; s < stmts_.size(); ++s)
      if (ahead_[s] == ahead) reads.insert(touched_[s].reads.begin(), touched_[s].reads.end());
    return reads;
  }

  /// Each intermediate belongs to the part that alone uses it; what the prologue writes and others read
  /// becomes a param of both. `decide` has seen to it that none is written by both.
  void place_intermediates() {
    for (const Buffer& buffer : root_.allocs) {
      if (!written_ahead(buffer)) {
        main_only_.push_back(buffer);
      } else if (!reads_later_.count(buffer.get())) {
        prologue_only_.push_back(buffer);
      } else if (buffer->scope == Scope::kGlobal) {
        shared_.push_back(buffer);
      } else {
        // A buffer of the same shape in memory that outlives the call.
        shared_.push_back(tir::buffer(buffer->name, buffer->shape, buffer->dtype));
        // Local memory does not outlive the prologue.
        moves_[buffer.get()] = shared_.back();
      }
    }
  }

  /// Params of the prologue: constants that it reads, then what it makes; of main: inputs that it reads, then
  /// what the prologue made, then the outputs. An input may be a param of both, or of none.
  /// Whoever calls the parts gives arguments by this order (ModelBuilder, workers/build.cpp).
  SplitProgram parts() const {
    SplitProgram result;
    std::vector<Buffer> early, late;
    for (size_t p = 0; p < inputs(); ++p) {
      const Buffer& param = func_->params[p];
      if (reads_ahead_.count(param.get()))
        early.push_back(param), result.prologue_params.push_back({false, p});
      if (reads_later_.count(param.get())) late.push_back(param), result.main_params.push_back({false, p});
    }
    for (size_t k = 0; k < shared_.size(); ++k) {
      early.push_back(shared_[k]), result.prologue_params.push_back({true, k});
      late.push_back(shared_[k]), result.main_params.push_back({true, k});
    }
    for (size_t p = inputs(); p < func_->params.size(); ++p)
      late.push_back(func_->params[p]), result.main_params.push_back({false, p});
    result.prologue = part(true, std::move(early), static_cast<int64_t>(shared_.size()), prologue_only_);
    result.main = part(false, std::move(late), func_->outputs, main_only_);
    return result;
  }

  bool written_ahead(const Buffer& buffer) const {
    for (size_t s = 0; s < stmts_.size(); ++s)
      if (ahead_[s] && touched_[s].writes.count(buffer.get())) return true;
    return false;
  }

  Func part(bool ahead, std::vector<Buffer> params, int64_t outputs, std::vector<Buffer> allocs) const {
    std::vector<Stmt> stmts;
    for (size_t s = 0; s < stmts_.size(); ++s)
      if (ahead_[s] == ahead) stmts.push_back(substitute(stmts_[s], {}, moves_));
    auto root = mutate(root_);
    root->allocs = std::move(allocs);
    // Verify allows this of a block of blocks alone.
    // Declared accesses of the whole would not fit the part; a block of blocks may leave them to these.
    root->reads.clear();
    root->writes.clear();
    root->body = seq(std::move(stmts));
    Annotations annotations = func_->annotations;
    annotations.erase(kConstantsKey);
    return make<FuncNode>(ahead ? func_->name + "_prologue" : func_->name, std::move(params), outputs,
                          Stmt(seal(std::move(root))), std::move(annotations));
  }

  const Func& func_;
  const Block& root_;
  std::vector<Stmt> stmts_;
  std::vector<Touched> touched_;  // by statement
  std::vector<bool> ahead_;       // by statement
  BufferSet reads_ahead_, reads_later_;
  std::vector<Buffer> prologue_only_, main_only_, shared_;  // intermediates
  BufferMap moves_;                                         // of shared_, into global memory
};

}  // namespace

int64_t constant_params(const Func& func) {
  auto found = func->annotations.find(kConstantsKey);
  return found == func->annotations.end() ? 0 : found->second;
}

bool is_constant_param(const Func& func, size_t i) {
  return i < kMaxMarkedParams && (constant_params(func) >> i & 1) != 0;
}

bool is_constant_param(const Func& func, const Buffer& buffer) {
  auto param = std::find(func->params.begin(), func->params.end(), buffer);
  return param != func->params.end() &&
         is_constant_param(func, static_cast<size_t>(param - func->params.begin()));
}

Func with_constant_params(const Func& func, int64_t mask) {
  if (mask == constant_params(func)) return func;
  auto copy = mutate(*func);
  if (mask)
    copy->annotations[kConstantsKey] = mask;
  else
    copy->annotations.erase(kConstantsKey);
  return seal(std::move(copy));
}

SplitProgram split_prologue(const Func& scheduled) {
  const Block* root = scheduled->body.as<Block>();
  CHECK(root, "split_prologue: {} is not at the scheduled level", scheduled->name);
  return Splitter(scheduled).split();
}

}  // namespace lathe::tir
