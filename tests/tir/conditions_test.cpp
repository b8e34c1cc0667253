// The passes that deal with conditions.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/tir/passes/simplify_program.h"
#include "core/tir/passes/skip_neutral_terms.h"
#include "core/tir/passes/split_conditions.h"
#include "tests/tir/passes.h"

namespace lathe::tir {
namespace {

TEST(SplitConditions, PaddingBecomesLoopsWithoutConditions) {
  EXPECT_EQ(after({split_conditions, simplify_program}, R"(func f(x: float32[6, 7]) -> (y: float32[8, 9]) {
  for h in 0..8 {
    for w in 0..9 {
      y[h, w] = select(0 < h && h < 7 && 0 < w && w < 8, x[h - 1, w - 1], 0.0)
    }
  }
}
)"),
            R"(  for h in 0..8 {
    if 0 < h && h < 7 {
      y[h, 0] = 0.0
      for w in 0..7 {
        y[h, w + 1] = x[h - 1, w]
      }
      y[h, 8] = 0.0
    } else {
      for w_1 in 0..9 {
        y[h, w_1] = 0.0
      }
    }
  }
)");
}

TEST(SplitConditions, BordersBecomeLoopsWithoutConditions) {
  EXPECT_EQ(after({split_conditions, simplify_program}, R"(func f() -> (y: float32[8, 9]) {
  for h in 0..8 {
    for w in 0..9 {
      if h < 1 || 6 < h || w < 1 || 7 < w {
        y[h, w] = 0.0
      }
    }
  }
}
)"),
            R"(  for h in 0..8 {
    y[h, 0] = 0.0
    if h < 1 || 6 < h {
      for w in 0..7 {
        y[h, w + 1] = 0.0
      }
    }
    y[h, 8] = 0.0
  }
)");
}

TEST(SplitConditions, LeavesOtherLoopsAlone) {
  // Not linear; a value read from memory; not innermost.
  for (const char* test : {"w % 2 < 1", "x[w] < 1.0", "w * h < 9"}) {
    std::string program = fmt::format(R"(func f(x: float32[9]) -> (y: float32[4, 9]) {{
  for h in 0..4 {{
    for w in 0..9 {{
      y[h, w] = select({}, x[w], 0.0)
    }}
  }}
}}
)",
                                      test);
    EXPECT_EQ(after({split_conditions}, program), after({}, program));
  }
}

TEST(SimplifyProgram, JoinsNeighboursUnderOneCondition) {
  EXPECT_EQ(after({simplify_program}, R"(func f(x: float32[4]) -> (y: float32[4], z: float32[4]) {
  for i in 0..4 {
    y[i] = x[i]
    z[i] = x[i]
    if i < 2 {
      y[i] = 3.0
    }
    if i < 2 {
      z[i] = y[i]
    }
    if y[i] < 1.0 {
      y[i] = 1.0
    }
    if y[i] < 1.0 {
      z[i] = 1.0
    }
  }
}
)"),
            R"(  for i in 0..4 {
    y[i] = x[i]
    z[i] = x[i]
    if i < 2 {
      y[i] = 3.0
      z[i] = y[i]
    }
    if y[i] < 1.0 {
      y[i] = 1.0
    }
    if y[i] < 1.0 {
      z[i] = 1.0
    }
  }
)") << "a condition on what the first statement writes is asked twice";
}

TEST(SimplifyProgram, MovesConditionsOutOfLoops) {
  EXPECT_EQ(after({simplify_program}, R"(func f(x: float32[4, 8]) -> (y: float32[4, 8]) {
  for i in 0..4 {
    for j in 0..8 {
      if i < 4 {
        for k in 0..1 {
          if i < 2 {
            y[i, j + k] = x[i, j]
          }
        }
      }
    }
  }
}
)"),
            R"(  for i in 0..4 {
    if i < 2 {
      for j in 0..8 {
        y[i, j] = x[i, j]
      }
    }
  }
)");
}

TEST(SimplifyProgram, MovesTheConditionsOutThatALoopDoesNotChange) {
  EXPECT_EQ(after({simplify_program}, R"(func f(x: float32[4, 8]) -> (y: float32[4, 8]) {
  for i in 0..4 {
    for j in 0..8 {
      if 0 < i && j < 7 && i < 3 {
        y[i, j] = x[i, j]
      }
    }
  }
}
)"),
            R"(  for i in 0..4 {
    if 0 < i && i < 3 {
      for j in 0..8 {
        if j < 7 {
          y[i, j] = x[i, j]
        }
      }
    }
  }
)");
}

TEST(SkipNeutralTerms, WhatLiesBeyondTheBorderIsNotAdded) {
  EXPECT_EQ(after({skip_neutral_terms, simplify_program},
                  R"(func f(x: float32[8], w: float32[3]) -> (y: float32[8], m: float32[8]) {
  for i in 0..8 {
    y[i] = 0.0
    m[i] = -inf
    for k in 0..3 {
      y[i] = y[i] + w[k] * select(0 < i + k && i + k < 9, x[i + k - 1], 0.0)
      m[i] = max(m[i], select(0 < i + k && i + k < 9, x[i + k - 1], -inf))
    }
  }
}
)"),
            R"(  for i in 0..8 {
    y[i] = 0.0
    m[i] = -inf
    for k in 0..3 {
      if 0 < i + k && i + k < 9 {
        y[i] = y[i] + w[k] * x[i + k - 1]
        m[i] = max(m[i], x[i + k - 1])
      }
    }
  }
)");
}

TEST(SkipNeutralTerms, LeavesOtherTermsAlone) {
  for (const char* term : {
           "select(0 < i, x[i], 1.0) * w[0]",      // something is added outside
           "select(0 < i, x[i], 0.0) + w[0]",      // w[0] is
           "select(x[i] < 1.0, x[i], 0.0)",        // chosen by data
           "max(select(0 < i, x[i], 0.0), w[0])",  // not 0
       }) {
    std::string program = fmt::format(R"(func f(x: float32[8], w: float32[3]) -> (y: float32[8]) {{
  for i in 0..8 {{
    y[i] = 0.0
    y[i] = y[i] + {}
  }}
}}
)",
                                      term);
    EXPECT_EQ(after({skip_neutral_terms}, program), after({}, program)) << term;
  }
}

TEST(SkipNeutralTerms, LanesAreNotTestedOneByOne) {
  const char* program = R"(func f(x: float32[8]) -> (y: float32[8]) {
  for i in 0..8 vectorized {
    y[i] = 0.0
    y[i] = y[i] + select(0 < i, x[i], 0.0)
  }
}
)";
  EXPECT_EQ(after({skip_neutral_terms}, program), after({}, program));
}

}  // namespace
}  // namespace lathe::tir
