#include <gtest/gtest.h>

#include <functional>

#include "core/support/error.h"
#include "tests/schedules/programs.h"

namespace lathe::schedule {
namespace {

using tir::Combiner;

TEST(ReduceInLanes, KeepsMeaning) {
  for (int64_t length : {1, 3, 7, 16, 17, 37, 64, 100})
    for (auto [vectors, width] : {std::pair{1, 1}, {1, 4}, {2, 1}, {2, 8}, {4, 4}, {4, 16}})
      for (Combiner combiner : {Combiner::kSum, Combiner::kMax}) {
        SCOPED_TRACE(fmt::format("{} terms, {} vectors of {}", length, vectors, width));
        tir::Func func = reduction({3, 2, length}, 2, combiner);
        Schedule s(func);
        s.reduce_in_lanes(s.get_block("reduce"), vectors, width);
        expect_sound(func, s);
      }
}

TEST(ReduceInLanes, WorksInsideOtherLoops) {
  tir::Func func = softmax(4, 21);
  Schedule s(func);
  LoopHandle place = s.get_loops(s.get_block("out"))[0];
  for (const char* name : {"sum", "e", "top"}) s.compute_at(s.get_block(name), place);
  s.reduce_in_lanes(s.get_block("top"), 1, 8);
  s.reduce_in_lanes(s.get_block("sum"), 2, 8);
  expect_sound(func, s);
}

TEST(ReduceInLanes, RefusesWhatItCannotCut) {
  auto refusal = [&](const std::function<void(Schedule&, BlockHandle)>& apply) -> std::string {
    Schedule s(reduction({3, 2, 8}, 2, Combiner::kSum));
    try {
      apply(s, s.get_block("reduce"));
    } catch (const Error& e) {
      return e.what();
    }
    return "accepted";
  };
  EXPECT_EQ(refusal([](Schedule& s, BlockHandle b) { s.reduce_in_lanes(b, 3, 4); }),
            "reduce_in_lanes: 3 vectors of 4 lanes; both must be powers of 2 up to 64");
  EXPECT_EQ(refusal([](Schedule& s, BlockHandle b) {
              s.unroll(s.get_loops(b)[2]);
              s.reduce_in_lanes(b, 1, 4);
            }),
            "reduce_in_lanes: loop r1 is not a serial loop around block `reduce` alone");
  EXPECT_EQ(refusal([](Schedule& s, BlockHandle b) {
              auto loops = s.get_loops(b);
              s.reorder({loops[1], loops[0]});
              s.reduce_in_lanes(b, 1, 4);
            }),
            "reduce_in_lanes: loop r0 carries the reduction of block `reduce` outside a loop that does not");
  EXPECT_EQ(
      refusal([](Schedule& s, BlockHandle b) {
        s.decompose_reduction(b, s.get_loops(b)[1]);
        s.reduce_in_lanes(b, 1, 4);
      }),
      "reduce_in_lanes: block `reduce` does not accumulate with sum, product, minimum, maximum, and or or");
}

}  // namespace
}  // namespace lathe::schedule
