#include "bench/pipeline_measurer.h"

#include <poll.h>

#include "core/support/statistics.h"
#include "tracker/sampling.h"

namespace lathe::bench {

PipelineMeasurer::PipelineMeasurer(std::span<const tuner::Task> tasks, const Target& target, int builders)
    : tasks_(tasks),
      target_(to_text(target)),
      builders_(static_cast<size_t>(builders)),
      pipeline_({"/proc/self/exe", "internal-sandbox"}, builders) {}

void PipelineMeasurer::submit(size_t task, std::span<const tuner::Proposal> proposals) {
  wire::Evaluation evaluation = tracker::evaluation_for(db::Purpose::kSearch);
  evaluation.incumbent_seconds = 0;
  for (const tuner::Proposal& proposal : proposals) {
    wire::Lease lease{.lease = ++last_lease_,
                      .trial = last_lease_,
                      .workload = tasks_[task].text,
                      .trace = schedule::to_json(proposal.trace),
                      .target = target_,
                      .evaluation = evaluation,
                      .seed = 1};
    to_build_.push_back(last_lease_);
    waiting_[last_lease_] = {{task, proposal.trace, proposal.fingerprint}, std::move(lease)};
  }
  start();
}

/// As many builds as there are builders, and one run at a time: two would slow each other down.
void PipelineMeasurer::start() {
  for (; building_ < builders_ && !to_build_.empty(); ++building_, to_build_.pop_front())
    pipeline_.build(waiting_.at(to_build_.front()).lease);
  if (running_ || to_run_.empty()) return;
  running_ = true;
  pipeline_.run(waiting_.at(to_run_.front()).lease);
  to_run_.pop_front();
}

std::vector<tuner::Measured> PipelineMeasurer::wait(std::chrono::milliseconds timeout) {
  std::vector<pollfd> ready;
  for (int descriptor : pipeline_.descriptors()) ready.push_back({descriptor, POLLIN, 0});
  // What has ended is told by no descriptor any more.
  if (!pipeline_.has_ended()) poll(ready.data(), ready.size(), static_cast<int>(timeout.count()));
  std::vector<tuner::Measured> answers;
  for (worker::Pipeline::Ended& ended : pipeline_.collect()) {
    (ended.built ? building_ -= 1 : running_ = false);
    // A build that succeeded is half the way: the candidate is answered when it has run.
    if (ended.built && ended.report.outcome == Outcome::kOk) {
      to_run_.push_back(ended.lease);
      continue;
    }
    auto found = waiting_.find(ended.lease);
    tuner::Measured answer = std::move(found->second.answer);
    waiting_.erase(found);
    answer.outcome = ended.report.outcome;
    answer.message = ended.report.message;
    if (answer.outcome == Outcome::kOk) answer.seconds = summarize(ended.report.samples).median;
    if (!ended.built && on_ran) on_ran(answer, ended.report);
    answers.push_back(std::move(answer));
  }
  start();
  return answers;
}

}  // namespace lathe::bench
