// A schedule as data: the list of primitive applications that made it, with the decisions that were sampled.
// It replays on the program, travels to workers and is stored as JSON, and reads as text:
//
//   b0 = get_block("conv2d")
//   l1, l2 = get_loops(b0)
//   v3 = sample_categorical(8, 16, 32) -> 1
//   l4, l5 = split(l1, 0, v3)
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace lathe::schedule {

/// A name for a block, a loop or a sampled number of a schedule. It stays valid across edits for as long as
/// the thing exists. Numbers count up over a schedule, all kinds together.
template <char kLetter>
struct Handle {
  int id = -1;
  auto operator<=>(const Handle&) const = default;
};
using BlockHandle = Handle<'b'>;
using LoopHandle = Handle<'l'>;
using IntHandle = Handle<'v'>;

using Output = std::variant<BlockHandle, LoopHandle, IntHandle>;
/// What a primitive is applied to: handles, constants and names.
using Input = std::variant<BlockHandle, LoopHandle, IntHandle, int64_t, std::string>;

struct Primitive;

struct Step {
  const Primitive* primitive = nullptr;
  std::vector<Input> inputs;
  std::vector<int64_t> decision;  // of a sampling primitive; else empty
  std::vector<Output> outputs;
  bool operator==(const Step&) const = default;
};

struct Trace {
  std::vector<Step> steps;
  bool operator==(const Trace&) const = default;
};

/// One step a line, for people.
std::string to_text(const Trace& trace);
std::string to_text(const Step& step);

/// JSON text, the form in the database and on the wire; parse_trace(to_json(t)) == t.
std::string to_json(const Trace& trace);
/// Throws Error on malformed text, unknown primitives and handles that no earlier step gave.
Trace parse_trace(std::string_view json);
/// Of a record that another version may have made: nothing where this one cannot read it.
std::optional<Trace> readable_trace(std::string_view json);

}  // namespace lathe::schedule
