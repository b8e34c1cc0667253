// Vectors of LLVM by their number of lanes.
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InlineAsm.h>

#include <vector>

namespace lathe::codegen {

inline llvm::Type* lanes_of(llvm::Type* element, unsigned lanes) {
  return llvm::FixedVectorType::get(element, lanes);
}

inline unsigned lane_count(llvm::Value* v) {
  return llvm::cast<llvm::FixedVectorType>(v->getType())->getNumElements();
}

/// The first `lanes` lanes from `begin` on; those that `v` does not have may hold anything.
inline llvm::Value* with_lanes(llvm::IRBuilderBase& b, llvm::Value* v, unsigned lanes, unsigned begin = 0) {
  if (begin == 0 && lanes == lane_count(v)) return v;
  std::vector<int> order;
  for (unsigned l = begin; l < begin + lanes; ++l)
    order.push_back(l < lane_count(v) ? static_cast<int>(l) : llvm::PoisonMaskElem);
  return b.CreateShuffleVector(v, order);
}

/// The vector `v` in a register, as something that is not known.
inline llvm::Value* opaque(llvm::IRBuilderBase& b, llvm::Value* v) {
  auto* type = llvm::FunctionType::get(v->getType(), {v->getType()}, false);
  return b.CreateCall(llvm::InlineAsm::get(type, "", "=x,0", /*hasSideEffects=*/false), {v});
}

/// What registers hold: 4, 8 or 16 lanes.
inline unsigned register_lanes(unsigned lanes) { return lanes <= 4 ? 4 : lanes <= 8 ? 8 : 16; }

}  // namespace lathe::codegen
