#include "core/relay/passes/alter_layout/blocks.h"

#include <algorithm>

#include "core/tir/machine.h"

namespace lathe::relay {
namespace {
/// Smaller blocks are more instructions, and their vectors lie across cache lines.
bool is_worthwhile(int64_t less, int64_t more) { return 115 * less < 100 * more; }
}  // namespace

Blocks::Blocks(const Target& target)
    : lanes_(std::clamp(target.lanes(), 4, 16)),
      lanes_at_once_(std::clamp(target.lanes_at_once(), 4, 16)),
      bfloat16_tiles_(tile_rate(machine_row(target).model, target, kBFloat16,
                                lanes_ / dot_length(kBFloat16, kFloat32)) > 0),
      int8_tiles_(tile_rate(machine_row(target).model, target, kInt8, kTileRows) > 0) {}

bool Blocks::fill_tiles(DataType operands) const { return bfloat16_tiles_ && operands == kBFloat16; }

// A vector of bytes is too few groups (tiles_pay).
int64_t Blocks::of_bytes_in_tiles(int64_t channels) const {
  const int64_t block = kTileRows * dot_length(kInt8, kInt32);
  return int8_tiles_ && channels % block == 0 ? block : 0;
}

/// A block is computed by whole instructions: one of 12 on a machine of 8 at once pays for 16.
int64_t Blocks::lanes_paid(int64_t channels, int64_t block) const {
  return round_up(channels, block) / block * round_up(block, lanes_at_once_);
}

/// `block` against a larger one. At the same price it must divide the channels, or leave clearly less memory
/// unused.
bool Blocks::is_better(int64_t channels, int64_t block, int64_t than) const {
  int64_t paid = lanes_paid(channels, block), paid_else = lanes_paid(channels, than);
  if (is_worthwhile(paid, paid_else)) return true;
  bool fits = channels % block == 0 && channels % than != 0;
  return paid <= paid_else && (fits || is_worthwhile(round_up(channels, block), round_up(channels, than)));
}

int64_t Blocks::best(int64_t channels, int64_t unit) const {
  int64_t best = 0;
  if (channels < 4) return 0;
  // From the largest: a smaller one has to be better.
  for (int64_t block = lanes_; block >= 4; block -= 4)
    if (block % unit == 0 && (!best || is_better(channels, block, best))) best = block;
  return best;
}

int64_t Blocks::exact(int64_t channels, int64_t unit) const {
  int64_t best = 0;
  for (int64_t block = lanes_; block >= 4; --block)
    if (channels % block == 0 && block % unit == 0 && (2 * block >= lanes_ || block % 4 == 0) &&
        (!best || is_better(channels, block, best)))
      best = block;
  return best;
}

int64_t Blocks::exact_results(int64_t channels, int64_t unit) const {
  int64_t any = exact(channels), whole = exact(channels, unit);
  // Results in whole units are read by the next product as they are; that is worth up to what is_worthwhile()
  // asks.
  bool fewer = any && (!whole || is_worthwhile(lanes_paid(channels, any), lanes_paid(channels, whole)));
  return fewer ? any : whole;
}

int64_t Blocks::of_group(int64_t channels, int64_t unit) const {
  const int64_t dividing = exact_results(channels, unit), filled = best(channels, unit);
  if (!dividing || !filled) return dividing ? dividing : filled;
  return is_worthwhile(lanes_paid(channels, filled), lanes_paid(channels, dividing)) ? filled : dividing;
}

int64_t Blocks::read(int64_t channels, int64_t unit) const {
  for (int64_t block = lanes_; block >= 4 && 2 * block >= lanes_; block -= 4)
    if (channels % block == 0 && block % unit == 0) return block;
  const int64_t dividing = exact(channels, unit), filled = best(channels, unit);
  if (dividing && dividing % 4 == 0) return dividing;
  const bool fills_little = filled && !is_worthwhile(channels, round_up(channels, filled));
  if (dividing) return fills_little ? filled : dividing;
  return channels <= 2 * lanes_ ? round_up(channels, unit) : filled;
}

int64_t Blocks::read_in_tiles(int64_t channels, int64_t unit) const {
  const int64_t block = read(channels, unit);
  if (2 * channels < lanes_) return block;
  const bool in_tiles = 2 * block >= lanes_;  // fewer are multiplied in vectors (tiles_pay)
  return in_tiles && round_up(channels, block) / block <= round_up(channels, lanes_) / lanes_ ? block
                                                                                              : lanes_;
}

}  // namespace lathe::relay
