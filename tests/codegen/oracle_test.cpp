// Generated code computes what the interpreter computes: random programs, under random schedules, on each
// kind of x86 machine.
#include <gtest/gtest.h>

#include "core/codegen/host_target.h"
#include "core/runtime/thread_pool.h"
#include "core/tir/lower.h"
#include "core/tir/text.h"
#include "core/tir/verify.h"
#include "schedules/schedule.h"
#include "schedules/space.h"
#include "tests/codegen/run_kernel.h"
#include "tests/schedules/programs.h"
#include "tests/tir/random_func.h"

namespace lathe::codegen {
namespace {
constexpr const char* kTargets[] = {"cpu", "cpu:mcpu=haswell", "cpu:mcpu=nehalem", "cpu:vector=256"};

class Oracle : public testing::TestWithParam<const char*> {
 protected:
  Target target_ = resolve_target(GetParam());

  void expect_same(const tir::Func& func, const tir::Func& lowered, uint32_t seed,
                   const LatheParallel* parallel = nullptr) {
    ASSERT_EQ(tir::find_fault(lowered, tir::Level::kVectors), std::nullopt) << "seed " << seed << "\n"
                                                                            << tir::print(lowered);
    std::vector<Tensor> params = tir::random_params(func), expected = tir::interpreted_outputs(func);
    run_kernel(lowered, target_, params, parallel);
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_LE(max_relative_error(params[params.size() - expected.size() + i], expected[i]), 1e-5)
          << "seed " << seed << ", output " << i << "\n"
          << tir::print(lowered);
  }
};

TEST_P(Oracle, RandomProgramsUnscheduled) {
  for (uint32_t seed = 0; seed < 24; ++seed) {
    tir::Func func = tir::random_func(seed);
    expect_same(func, tir::lower(func, target_), seed);
  }
}

TEST_P(Oracle, RandomProgramsUnderRandomSchedules) {
  runtime::ThreadPool pool(2);
  for (uint32_t seed = 100; seed < 130; ++seed) {
    tir::Func func = tir::random_func(seed);
    for (const schedule::DesignSpace* space : schedule::spaces_for(func, target_)) {
      tir::Func scheduled = schedule::sample(*space, func, target_, seed).func();
      expect_same(func, tir::lower(scheduled, target_), seed, pool.parallel());
      if (HasFailure()) return;
    }
  }
}

TEST_P(Oracle, OperatorsUnderDefaultAndRandomSchedules) {
  runtime::ThreadPool pool(2);
  for (const schedule::Program& program : schedule::small_programs()) {
    SCOPED_TRACE(program.name);
    std::vector<schedule::Trace> traces{schedule::default_trace(program.func, target_)};
    for (const schedule::DesignSpace* space : schedule::spaces_for(program.func, target_))
      traces.push_back(schedule::sample(*space, program.func, target_, 7).trace());
    for (const schedule::Trace& trace : traces) {
      expect_same(program.func, tir::lower(schedule::replay(trace, program.func), target_), 7,
                  pool.parallel());
      if (HasFailure()) return;
    }
  }
}

TEST_P(Oracle, ConstantsKeptInHalfPrecision) {
  if (!target_.converts_half()) GTEST_SKIP() << "no instruction for it";
  for (int64_t rows : {1, 5}) {
    tir::Func func = schedule::dense(rows, 256, 160, kFloat32);
    schedule::Schedule s(schedule::replay(schedule::default_trace(func, target_), func));
    s.store_as(s.cache_read(s.get_block("dense"), 1, tir::Scope::kGlobal), 0, 16);
    std::vector<Tensor> exact = tir::interpreted_outputs(func), rounded = tir::interpreted_outputs(s.func()),
                        params = tir::random_params(func);
    run_kernel(tir::lower(s.func(), target_), target_, params);
    EXPECT_LE(max_relative_error(params.back(), rounded[0]), 1e-5);
    EXPECT_GT(max_relative_error(params.back(), exact[0]), 1e-6);
    EXPECT_LT(max_relative_error(params.back(), exact[0]), 0x1p-11);
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, Oracle, testing::ValuesIn(kTargets), [](const auto& info) {
  std::string name;
  for (char c : std::string(info.param))
    if (std::isalnum(c)) name += c;
  return name;
});
}  // namespace
}  // namespace lathe::codegen
