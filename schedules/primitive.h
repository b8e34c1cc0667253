// A schedule primitive is a row: its name, the rewrite it stands for, what it takes, and the function that
// checks and rewrites. The engine (schedule.h) resolves handles, records the step and commits the result, so
// trace, replay, text, JSON and mutation hold no code for single primitives.
#pragma once

#include <array>
#include <optional>
#include <span>

#include "core/support/error.h"
#include "schedules/program.h"
#include "schedules/random.h"
#include "schedules/trace.h"

namespace lathe::schedule {

enum class InputKind : uint8_t { kNone, kBlock, kLoop, kInt, kText };

/// The kinds of the inputs in order; any number more of kind `rest` may follow.
struct Inputs {
  std::array<InputKind, 4> fixed{};
  InputKind rest = InputKind::kNone;
};

class Application;

struct Primitive {
  const char* name;
  /// The rewrite, "before  ->  after".
  const char* doc;
  Inputs inputs;
  /// Checks that the rewrite is legal and performs it. The program is immutable and the result is committed
  /// only when this returns, so it may throw Error at any point and leaves the schedule as it was.
  void (*run)(Application& application);
  /// Makes a random decision that mutation may make anew.
  bool samples = false;
  /// Computes a block by another algorithm; with its numbers it tells schedules of one operator apart.
  bool is_algorithm = false;
};

/// All primitives, one row each.
std::span<const Primitive* const> primitives();
/// The row of that name. Throws Error for an unknown name.
const Primitive& primitive(std::string_view name);

/// The families; table.cpp joins them.
std::span<const Primitive> query_primitives();
std::span<const Primitive> sampling_primitives();
std::span<const Primitive> loop_primitives();
std::span<const Primitive> iteration_primitives();
std::span<const Primitive> inline_primitives();
std::span<const Primitive> location_primitives();
std::span<const Primitive> cache_primitives();
std::span<const Primitive> reduction_primitives();
std::span<const Primitive> rfactor_primitives();
std::span<const Primitive> lane_primitives();
std::span<const Primitive> layout_primitives();
std::span<const Primitive> blockize_primitives();
std::span<const Primitive> padding_primitives();
std::span<const Primitive> winograd_primitives();
std::span<const Primitive> strassen_primitives();
std::span<const Primitive> im2col_primitives();
std::span<const Primitive> pad_einsum_primitives();
std::span<const Primitive> reindex_primitives();
std::span<const Primitive> separate_read_primitives();
std::span<const Primitive> split_variable_primitives();

/// What a handle stands for. Blocks are known by name and loops by their variable; a null variable is the
/// place outside all loops (sample_compute_location may choose it).
struct Binding {
  std::string block;
  Var loop;
  int64_t number = 0;
};

/// One use of a primitive: its inputs, looked up in the program, and where its results go.
class Application {
 public:
  struct Resolved {
    InputKind kind;
    Binding binding;
    std::string text;
  };
  Application(const Primitive& primitive, tir::Func func, std::vector<Resolved> inputs)
      : func(std::move(func)), primitive_(primitive), inputs_(std::move(inputs)) {}

  tir::Func func;  // run() assigns the rewritten program

  size_t size() const { return inputs_.size(); }
  /// Where the block or loop of input `i` stands now. Throws Error when it is gone.
  Path block(size_t i) const;
  Path loop(size_t i) const;
  bool is_root_place(size_t i) const { return !inputs_[i].binding.loop; }
  int64_t number(size_t i) const { return inputs_[i].binding.number; }
  const std::string& text(size_t i) const { return inputs_[i].text; }
  InputKind kind(size_t i) const { return inputs_[i].kind; }

  void give_block(const std::string& name) {
    outputs.push_back({name, {}, 0}), kinds.push_back(InputKind::kBlock);
  }
  void give_loop(const Var& var) { outputs.push_back({{}, var, 0}), kinds.push_back(InputKind::kLoop); }
  void give_number(int64_t value) { outputs.push_back({{}, {}, value}), kinds.push_back(InputKind::kInt); }

  /// Throws Error when the block at the end of `path` stands inside another one than the root: its scope then
  /// holds one tile of its buffers, not all of them.
  void require_outermost(const Path& path) const {
    if (scope_of(path)->name != "root")
      fail("block `{}` stands inside block `{}`; do this before blockize", path.back().as<tir::Block>()->name,
           scope_of(path)->name);
  }

  /// Throws Error "NAME: ...".
  template <typename... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    throw Error(std::string(primitive_.name) + ": " + fmt::format(format, std::forward<Args>(args)...));
  }

  /// For sampling primitives: the recorded decision, or empty when one must be drawn from `random` and put
  /// here.
  std::vector<int64_t> decision;
  Random* random = nullptr;
  std::vector<Binding> outputs;
  std::vector<InputKind> kinds;

 private:
  const Primitive& primitive_;
  std::vector<Resolved> inputs_;
};

}  // namespace lathe::schedule
