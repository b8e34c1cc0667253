// How many channels go into a block.
#pragma once

#include "core/support/dtype.h"
#include "core/tir/target.h"

namespace lathe::relay {

inline int64_t round_up(int64_t count, int64_t multiple) {
  return (count + multiple - 1) / multiple * multiple;
}

class Blocks {
 public:
  explicit Blocks(const Target& target);
  int64_t lanes() const { return lanes_; }
  /// Whether tile registers multiply such operands in blocks of whole vectors.
  bool fill_tiles(DataType operands) const;
  /// The block in which they multiply bytes, a row of a register, where it divides the channels; else 0.
  int64_t of_bytes_in_tiles(int64_t channels) const;

  /// The block, a multiple of 4 and of `unit`, that pays for the fewest lanes when the channels are filled up
  /// to whole blocks. Of those one that divides them, or fills up clearly less: 24 channels are two blocks of
  /// 12 lanes, 100 seven of 16. Where a vector takes several instructions, 24 are three of 8. Vectors of
  /// other lengths would fill up less still, but each load and store of them is several. 0 for less than 4.
  int64_t best(int64_t channels, int64_t unit = 1) const;

  /// The same among blocks that divide the channels, of half a vector or whole quarters; 0 when there is
  /// none.
  int64_t exact(int64_t channels, int64_t unit = 1) const;

  /// exact() for results, which are in whole units only where that does not cost many lanes.
  int64_t exact_results(int64_t channels, int64_t unit) const;

  /// For results of a group: exact_results(), or best() where that takes clearly fewer lanes although the
  /// groups are cut apart again; 0 for less than 4 that nothing divides.
  int64_t of_group(int64_t channels, int64_t unit) const;

  /// For channels that are only read, each broadcast to a vector: one that divides them, all of them when
  /// they are few, or else the best. That one too where it fills up little and those that divide are no
  /// multiples of 4, as 7 of 9: channels that do not come in blocks yet are put into these, and vectors of 9
  /// of what lies in blocks of 16 are put together element by element.
  int64_t read(int64_t channels, int64_t unit = 1) const;

  /// read() for tile registers that fill_tiles(): a product of two takes as long for a few groups of channels
  /// as for a whole block, so few blocks count, and channels that fill up the last one do not.
  int64_t read_in_tiles(int64_t channels, int64_t unit) const;

  /// Lanes that the channels pay for in blocks that are best(). REQUIRES: at least 4 channels.
  int64_t lanes_paid(int64_t channels) const { return lanes_paid(channels, best(channels)); }
  /// Lanes that neighbours in a row pay for.
  int64_t lanes_of_row(int64_t extent) const { return round_up(extent, lanes_at_once_); }

 private:
  int64_t lanes_paid(int64_t channels, int64_t block) const;
  bool is_better(int64_t channels, int64_t block, int64_t than) const;

  int64_t lanes_, lanes_at_once_;
  bool bfloat16_tiles_, int8_tiles_;
};

}  // namespace lathe::relay
