#include "tracker/sampling.h"

namespace lathe::tracker {

wire::Evaluation evaluation_for(db::Purpose purpose) {
  wire::Evaluation evaluation;
  const bool searches = purpose == db::Purpose::kSearch;
  // Two short processes of a winner say more than one long one: samples of one have much in common.
  evaluation.budget_seconds = searches ? 0.06 : 0.1;
  evaluation.max_samples = searches ? 25 : 60;
  evaluation.relative_interval = searches ? 0.02 : 0.005;
  evaluation.incumbent_seconds = searches ? wire::kNoIncumbent : 0;
  return evaluation;
}

}  // namespace lathe::tracker
