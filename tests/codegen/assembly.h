// What a program becomes, as text to count in.
#pragma once

#include <span>
#include <string>

#include "core/codegen/compile.h"

namespace lathe::codegen {

inline std::string assembly_of(const tir::Func& lowered, const Target& target) {
  return compile_to_assembly(std::span(&lowered, 1), target);
}

inline int64_t count(const std::string& text, const std::string& word) {
  int64_t found = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
  return found;
}

}  // namespace lathe::codegen
