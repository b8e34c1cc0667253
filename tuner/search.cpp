#include "tuner/search.h"

#include <algorithm>
#include <cmath>

#include "core/support/error.h"
#include "core/tir/lower.h"
#include "core/tir/prologue.h"
#include "schedules/family.h"
#include "schedules/schedule.h"
#include "schedules/space.h"

namespace lathe::tuner {
namespace {

/// Stable, so that without a score the order in which they were made is kept.
void sort_by_score(std::vector<Proposal>& proposals) {
  std::stable_sort(proposals.begin(), proposals.end(),
                   [](const Proposal& a, const Proposal& b) { return a.score > b.score; });
}

/// All programs in one call: the model predicts a batch much faster than its members. Without a model scores
/// stay 0.
void rescore(std::vector<Proposal>& proposals, const Score& score) {
  if (!score || proposals.empty()) return;
  std::vector<tir::Func> programs;
  for (const Proposal& proposal : proposals) programs.push_back(proposal.program);
  std::vector<double> scores = score(programs);
  for (size_t i = 0; i < proposals.size(); ++i) proposals[i].score = scores[i];
}

/// Draws an index with probability proportional to its weight.
/// O(log n) by the cumulative weights; the clamp is for unit() so close to 1 that rounding reaches the end.
size_t draw(const std::vector<double>& cumulative, schedule::Random& random) {
  double at = random.unit() * cumulative.back();
  size_t index =
      static_cast<size_t>(std::upper_bound(cumulative.begin(), cumulative.end(), at) - cumulative.begin());
  return std::min(index, cumulative.size() - 1);
}

/// Cumulative weights by rank: a parent's chance halves every eighth of the population.
std::vector<double> rank_weights(size_t count) {
  std::vector<double> cumulative;
  double sum = 0;
  for (size_t rank = 0; rank < count; ++rank)
    // From 1 down to 1/256: the best parent is not the only one.
    cumulative.push_back(sum += std::exp2(-8.0 * static_cast<double>(rank) / static_cast<double>(count)));
  return cumulative;
}

Proposal proposal_of(const schedule::Schedule& schedule) {
  return {schedule.trace(), schedule.func(), fingerprint(schedule.func()), 0};
}

}  // namespace

/// Of the main part alone: what a prologue does costs nothing when the model runs. And of what it computes,
/// not of the sizes it is measured with: one schedule has one print at all sizes.
std::string fingerprint(const tir::Func& program) {
  return fmt::format("{:016x}",
                     structural_hash(schedule::without_typical_dims(tir::split_prologue(program).main)));
}

TaskSearch::TaskSearch(tir::Func workload, Target target, uint64_t seed, SearchSettings settings)
    : workload_(std::move(workload)), target_(std::move(target)), settings_(settings), random_(seed) {}

std::optional<Proposal> TaskSearch::made(const schedule::Trace& trace) const {
  try {
    tir::Func program = schedule::replay(trace, workload_);
    return Proposal{trace, program, fingerprint(program), 0};
  } catch (const Error&) {
    return std::nullopt;  // a trace from an older database may not apply any more
  }
}

/// Takes the spaces in turn, so that each has its share whatever the others do.
std::vector<Proposal> TaskSearch::sampled(size_t count) {
  std::vector<Proposal> result;
  auto spaces = schedule::spaces_for(workload_, target_);
  for (size_t i = 0; i < count && !spaces.empty(); ++i) {
    const schedule::DesignSpace& space = *spaces[i % spaces.size()];
    try {
      result.push_back(
          proposal_of(schedule::sample(space, workload_, target_, random_.next(), settings_.rounding)));
    } catch (const Error&) {
      // No legal schedule in this space this time.
    }
  }
  return result;
}

/// The measured elite and random schedules. A quarter at least is random however many were measured: mutants
/// of the elite alone would never leave the structures that came first.
std::vector<Proposal> TaskSearch::first_population() {
  std::vector<Proposal> population;
  for (const SearchState::Known& known : state_.elite)
    if (auto proposal = made(known.trace)) population.push_back(std::move(*proposal));
  size_t missing = settings_.population - std::min(population.size(), settings_.population);
  std::vector<Proposal> fresh = sampled(std::max(missing, settings_.population / 4));
  std::move(fresh.begin(), fresh.end(), std::back_inserter(population));
  return population;
}

/// Parents and all their descendants, the highest score first. `present` holds every program of this call, so
/// a generation never pays for one that an earlier one made; nothing leaves the pool, as a parent may be
/// better than its children and was perhaps never measured.
std::vector<Proposal> TaskSearch::evolved(std::vector<Proposal> population, const Score& score) {
  std::set<std::string> present;
  std::vector<Proposal> pool;
  auto add = [&](Proposal proposal) {
    if (present.insert(proposal.fingerprint).second) pool.push_back(std::move(proposal));
  };
  for (Proposal& proposal : population) add(std::move(proposal));
  rescore(pool, score);
  sort_by_score(pool);
  for (int generation = 0; generation < settings_.generations && !pool.empty(); ++generation) {
    // Chances go by rank: scores of the ranking loss have no scale.
    std::vector<double> weights = rank_weights(std::min(pool.size(), settings_.population));
    std::vector<Proposal> children;
    for (size_t i = 0; i < settings_.population; ++i) {
      auto mutant = schedule::mutate(pool[draw(weights, random_)].trace, workload_, random_);
      if (!mutant) continue;
      Proposal child = proposal_of(*mutant);
      if (present.insert(child.fingerprint).second) children.push_back(std::move(child));
    }
    rescore(children, score);
    std::move(children.begin(), children.end(), std::back_inserter(pool));
    sort_by_score(pool);
  }
  return pool;
}

/// Schedules that differ may be lowered to one program (a loop of one iteration, say); measuring it again
/// would teach nothing. Lowering takes longer than hashing, so this comes after the fingerprint.
bool TaskSearch::is_new_code(const tir::Func& program) {
  try {
    return state_.codes.insert(structural_hash(tir::lower(tir::split_prologue(program).main, target_)))
        .second;
  } catch (const Error&) {
    return false;  // it cannot be built
  }
}

std::vector<Proposal> TaskSearch::propose(size_t count, const Score& score) {
  std::vector<Proposal> chosen;
  // Whatever enters `seen` here is never proposed again, also what proves to be old code. What no longer
  // fits is left out before it is seen, and may come back in a later round.
  auto choose = [&](Proposal proposal) {
    if (chosen.size() < count && state_.seen.insert(proposal.fingerprint).second &&
        is_new_code(proposal.program))
      chosen.push_back(std::move(proposal));
  };
  if (!state_.proposed_default) {
    state_.proposed_default = true;
    // The exact default is the one that others are compared with; the rounding one may be the same program.
    for (schedule::Rounding rounding : {schedule::Rounding::kNone, settings_.rounding})
      if (auto proposal = made(schedule::default_trace(workload_, target_, rounding)))
        choose(std::move(*proposal));
  }
  // Those that find no room keep their places for the next round.
  size_t taken = 0;
  for (; taken < state_.suggested.size() && chosen.size() < count; ++taken)
    if (auto proposal = made(state_.suggested[taken])) choose(std::move(*proposal));
  state_.suggested.erase(state_.suggested.begin(), state_.suggested.begin() + static_cast<long>(taken));
  if (chosen.size() == count) return chosen;
  // Without a model there is nothing to rank by, and without an elite nothing to start from: the round is a
  // sample. It is twice as large as needed, since many are repetitions.
  bool blind = !score || state_.elite.empty();
  std::vector<Proposal> pool = blind ? sampled(2 * count) : evolved(first_population(), score);
  size_t random_picks =
      blind ? 0 : static_cast<size_t>(std::lround(settings_.explore * static_cast<double>(count)));
  size_t by_score = count - std::min(count, random_picks);
  // The explored share keeps the model from seeing only what it likes already.
  // Best scores first, up to the share of the round that they have; the random picks come out of what is
  // left.
  std::vector<Proposal> rest;
  for (Proposal& proposal : pool) {
    if (chosen.size() < by_score)
      choose(std::move(proposal));
    else
      rest.push_back(std::move(proposal));
  }
  while (chosen.size() < count && !rest.empty()) {
    size_t pick = static_cast<size_t>(random_.below(static_cast<int64_t>(rest.size())));
    choose(std::move(rest[pick]));
    rest.erase(rest.begin() + static_cast<long>(pick));
  }
  // A small space is exhausted when chance shows nothing new several times.
  constexpr int kPatience = 4;
  for (int more = 0; more < kPatience && chosen.empty(); ++more)
    for (Proposal& proposal : sampled(2 * count)) choose(std::move(proposal));
  return chosen;
}

void TaskSearch::report(const schedule::Trace& trace, const std::string& print,
                        std::optional<double> seconds) {
  state_.seen.insert(print);
  ++state_.reported;
  if (!seconds) return;
  // Sorted insertion: the elite stays in order of time, and of two equals the earlier stays in front.
  // The elite is small (settings_.parents): insertion costs nothing beside a measurement.
  auto slower = std::upper_bound(state_.elite.begin(), state_.elite.end(), *seconds,
                                 [](double s, const SearchState::Known& k) { return s < k.seconds; });
  state_.elite.insert(slower, {trace, *seconds});
  if (state_.elite.size() > settings_.parents) state_.elite.pop_back();
}

void TaskSearch::believe(std::vector<SearchState::Known> elite) {
  state_.elite = std::move(elite);
  if (state_.elite.size() > settings_.parents) state_.elite.resize(settings_.parents);
}

SearchState TaskSearch::state() const {
  SearchState state = state_;
  state.random = random_.state();
  return state;
}

void TaskSearch::restore(SearchState state) {
  random_ = schedule::Random(state.random);
  state_ = std::move(state);
}

}  // namespace lathe::tuner
