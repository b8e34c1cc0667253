// What a search writes down about its job. It reads the database by itself; the tracker that owns the
// database writes for it (D16), in this process or in another one.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "db/store.h"

namespace lathe::tracker {

struct JobStart {
  std::string kind = "tune";
  std::string model,
      model_digest;    // name for people; sha256 of what the tasks came from; "": of no one model
  std::string target;  // complete text
  struct Task {
    db::Workload workload;
    std::string name;
    int64_t calls = 1;
  };
  std::vector<Task> tasks;
  int threads = 1;
  int64_t trials = 0;
  double seconds = 0;
  int64_t seed = 0;
  std::string options = "{}";
  std::optional<db::JobId> resume;  // go on with this job: its row stays
};

/// The rows of a job that has begun.
struct JobRows {
  db::JobId job = 0;
  std::string uuid;
  db::TargetId target = 0;
  std::vector<db::WorkloadId> workloads;  // by task
};

/// Where a search stands after a round: what it goes on from after a crash (tuner/checkpoint.h).
struct JobCheckpoint {
  db::JobId job = 0;
  db::TargetId target = 0;
  int round = 0;
  struct Task {
    db::WorkloadId workload = 0;
    std::string bytes;
  };
  std::vector<Task> tasks;  // those that changed
  /// When it changed: the model, what it was learnt from and how well it ranks.
  struct Model {
    std::string bytes;
    int64_t samples = 0;
    double spearman = 0, recall = 0;
  };
  std::optional<Model> model;
  double seconds = 0;  // of searching, since the last one
};

/// Each call is on disk when it returns, and throws Error as db::Store does.
class JobWriter {
 public:
  virtual ~JobWriter() = default;
  /// The job's rows, found when resuming, else made; it is running from here on.
  virtual JobRows begin(const JobStart& start) = 0;
  /// All of it, or none.
  virtual void checkpoint(const JobCheckpoint& checkpoint) = 0;
  virtual void add_event(db::JobId job, const std::string& kind, const std::string& body) = 0;
  /// The search has ended, or stops for now, so many seconds after its last checkpoint.
  virtual void end(db::JobId job, db::JobState state, double seconds) = 0;
  /// What builds of the job's model use from here on, in the place of what was chosen before.
  virtual void choose(const db::Choice& choice) = 0;
  /// One run of the job's model, as it is shipped.
  virtual void add_model_latency(const db::ModelLatency& latency) = 0;
};

/// Writes into a store of this thread's.
class StoreJobWriter final : public JobWriter {
 public:
  /// `uuid`: of the job that it makes; "": a new one.
  explicit StoreJobWriter(db::Store& store, std::string uuid = "") : store_(store), uuid_(std::move(uuid)) {}

  JobRows begin(const JobStart& start) override;
  void checkpoint(const JobCheckpoint& checkpoint) override;
  void add_event(db::JobId job, const std::string& kind, const std::string& body) override {
    store_.add_event(job, kind, body);
  }
  void end(db::JobId job, db::JobState state, double seconds) override;
  void choose(const db::Choice& choice) override { store_.set_choice(choice); }
  void add_model_latency(const db::ModelLatency& latency) override { store_.add_model_latency(latency); }

 private:
  db::Store& store_;
  const std::string uuid_;
};

}  // namespace lathe::tracker
