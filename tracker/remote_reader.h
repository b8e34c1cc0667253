// A searcher's reading of the store that its tracker keeps: what it asks and what it is answered, as JSON.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>

#include "db/reader.h"
#include "db/store.h"

namespace lathe::tracker {

/// Asks over a link (search_link.h); what `ask` throws, its calls throw.
class RemoteReader final : public db::Reader {
 public:
  using Ask = std::function<nlohmann::json(nlohmann::json question)>;
  explicit RemoteReader(Ask ask) : ask_(std::move(ask)) {}

  std::optional<db::TargetId> find_target(const std::string& name) override;
  std::optional<db::WorkloadId> find_workload(const std::string& digest) override;
  db::Workload workload(db::WorkloadId id) override;
  std::vector<db::WorkloadId> measured_workloads(db::TargetId target) override;
  std::optional<db::Best> best(const db::BestQuery& query) override;
  std::vector<db::Measurement> top(const db::BestQuery& query, int limit) override;
  std::vector<db::Measurement> top_suspect(const db::BestQuery& query, int limit) override;
  std::vector<db::Measurement> history(db::WorkloadId workload, db::TargetId target, int limit) override;
  std::optional<db::Measurement> measurement(db::WorkloadId workload, db::TargetId target,
                                             db::MeasurementId id) override;
  std::vector<db::Measurement> measured(db::WorkloadId workload, db::TargetId target,
                                        const std::string& program) override;
  std::optional<db::Choice> find_choice(const db::ChoiceKey& key) override;
  std::optional<db::Measurement> chosen(const db::Choice& choice, const db::BestQuery& query) override;
  std::optional<db::CostModelRecord> latest_cost_model(db::TargetId target) override;
  // Of one job: the link's own, whichever they name.
  std::vector<db::JobTask> job_tasks(db::JobId id) override;
  db::JobProgress job_progress(db::JobId id) override;
  std::optional<db::CostModelRecord> cost_model_of(db::JobId job) override;
  std::vector<db::KnownCandidate> candidates(db::JobId job, db::WorkloadId workload,
                                             db::TargetId target) override;
  std::map<std::pair<db::WorkloadId, std::string>, db::MeasuredAgain> confirmations(db::JobId job) override;
  std::optional<db::TrialEnd> trial_end(db::JobId job, db::TrialId trial) override;

 private:
  nlohmann::json ask(const char* what, nlohmann::json arguments);

  const Ask ask_;
};

/// The answer to a question of a RemoteReader's, whose job is `job`, measured by devices of that class ("":
/// any): what others have measured is not told, for the target's text may be theirs too. Throws
/// nlohmann::json::exception or Error for one that none asks.
nlohmann::json answer_reader(db::Store& store, db::JobId job, const std::string& device_class,
                             const nlohmann::json& question);

}  // namespace lathe::tracker
