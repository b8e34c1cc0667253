// Images that are surrounded by what adds nothing, and the sums that see it.
#pragma once

#include <optional>

#include "schedules/program.h"

namespace lathe::schedule {

/// A block that surrounds an image with something: t[v...] = select(condition, value, nothing).
struct PaddedImage {
  std::string block;
  tir::Buffer buffer;
  std::vector<const VarNode*> vars;  // by dimension of the buffer
  Expr condition, nothing;

  /// Where the image itself is at the place that the load reads.
  Expr condition_at(const tir::Load& load) const;
};

/// What `block` surrounds; nothing where it does not.
std::optional<PaddedImage> padded_image(const tir::Func& func, const tir::Block& block);

/// The padded image as a factor of the terms that the block adds up, or as what it takes the largest of. Null
/// where a term may be something though the image is not.
const tir::Load* neutral_load(const tir::Block& block, const PaddedImage& padded);

}  // namespace lathe::schedule
