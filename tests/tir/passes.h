// Text in, text out, for tests of passes.
#pragma once

#include <gtest/gtest.h>

#include "core/tir/text.h"
#include "tests/tir/random_func.h"

namespace lathe::tir {

/// The body of the function in `text` after the passes, as text; what it computes must not change.
inline std::string after(std::initializer_list<Stmt (*)(const Stmt&)> passes, const std::string& text) {
  Func f = parse_func(text);
  auto copy = mutate(*f);
  for (auto pass : passes) copy->body = pass(copy->body);
  Func changed = seal(std::move(copy));
  EXPECT_LE(output_difference(changed, f), 1e-6);
  std::string printed = print(changed);
  size_t start = printed.find("{\n") + 2;
  return printed.substr(start, printed.rfind('}') - start);
}

}  // namespace lathe::tir
