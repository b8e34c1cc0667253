// The learned cost model: ranks the candidates of a task by predicted speed before any of them is measured.
//
// A candidate is described by one row of features for each store of its program, and its score is the sum of
// what the trees say of its rows (Zheng et al., "Ansor", OSDI 2020, section 5.2). The trees are grown on the
// pairwise ranking loss of Burges et al. (RankNet, ICML 2005; docs/decisions/003-cost-model-ranks-pairs.md),
// so scores compare candidates of one task only.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tuner/forest.h"

namespace lathe::tuner {

/// The rows of one candidate, `width` numbers each. At least one row.
struct Features {
  size_t width = 0;
  std::vector<float> values;

  size_t rows() const { return values.size() / width; }
};

/// A measured candidate of task `task`. `seconds` is infinite for one that failed.
struct Sample {
  int task = 0;
  Features features;
  double seconds = 0;
};

/// How well candidates that the model had not seen were ranked, a mean over tasks weighted by their
/// candidates.
struct RankQuality {
  double spearman = 0;  // rank correlation of predicted and true speed
  double recall = 0;    // of the truly fastest fifth, the share that is in the predicted fastest fifth
  int samples = 0;      // held out; 0 when there were too few to judge
};

struct CostModelOptions {
  uint64_t seed = 0;
  int threads = 1;
  int trees = 80;
};

class CostModel {
 public:
  explicit CostModel(const CostModelOptions& options = {}) : options_(options) {}

  bool trained() const { return forest_.has_value(); }
  /// Of the rows it learnt from; 0 before.
  size_t width() const { return width_; }

  /// Learns anew from everything measured so far. Judges itself first, by learning from four fifths and
  /// ranking the rest. REQUIRES: at least one sample; all rows of one width.
  RankQuality train(std::span<const Sample> samples);

  /// A score a candidate; higher is faster. REQUIRES: trained(), and rows of the width learnt from.
  std::vector<float> predict(std::span<const Features> candidates) const;

  /// REQUIRES: trained().
  std::string save() const;
  /// Throws Error when `bytes`, which may come from anywhere, is not what save() writes.
  static CostModel load(const std::string& bytes, const CostModelOptions& options = {});

 private:
  CostModelOptions options_;
  size_t width_ = 0;
  std::optional<Forest> forest_;  // the same whether learnt here or loaded: so are its scores
};

}  // namespace lathe::tuner
