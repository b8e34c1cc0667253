// The searcher's end of what ties it to its tracker: one socket, over which it asks for all that it may not
// do itself. A searcher parses a stranger's model, so it runs in a process of its own, confined
// (Confinement::kSearch), without the database. The tracker's end is search_server.h.
//
// A frame is four bytes of length (little-endian) and that many bytes of JSON. The searcher calls, the
// tracker answers, one at a time: {"call": "submit", ...} -> {...} or {"error": "..."}.
#pragma once

#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "tracker/farm_client.h"
#include "tracker/job_writer.h"

namespace lathe::tracker {

inline constexpr size_t kSearchFrameLimit = 256 << 20;  // a round of candidates, a model's workloads
inline constexpr int kSearchDepth = 16;
/// Of a report, and of each piece of news but schedules: lists of jobs and pages read the last of these again
/// and again. The report of resnet18, of 18 tasks, has 7 KB.
inline constexpr size_t kToldBytes = 1 << 20;
/// Of figures, which are told twice a second, and are all read for a curve: some 250 bytes.
inline constexpr size_t kFigureBytes = 4 << 10;
/// What is told of a task's schedules is an event of this kind with the task's index after it.
inline constexpr std::string_view kScheduleEvent = "schedule/";

/// Blocking. False at the end of the stream. Throws Error for a frame over the limit, or a broken socket.
bool read_search_frame(int socket, std::string& bytes);
void write_search_frame(int socket, const std::string& bytes);

/// What a searcher is to do.
struct SearchOrder {
  std::string request;              // JobRequest, JSON
  std::string target;               // complete text, of the devices that will measure
  std::string machine;              // the numbers of that target's machine, as a device told them; or ""
  int cores = 0;                    // that those devices' workers may use; 0: not known
  std::string file;                 // of the model; "": it is of the zoo
  std::string folder;               // to write the module into
  std::optional<db::JobId> resume;  // the search's job, if there was an earlier life
  double seconds_used = 0;
};

/// Thread-safe. Calls throw Error with the tracker's words, and when the tracker is gone.
class SearchLink final : public FarmClient, public JobWriter {
 public:
  explicit SearchLink(int socket) : socket_(socket) {}

  SearchOrder order();
  /// What the tracker's store holds.
  std::unique_ptr<db::Reader> records();
  /// For whoever watches the job: `body` is JSON.
  void tell(const std::string& kind, const std::string& body);
  /// Has two modules in the folder, of these names, raced by a worker of the job's class, for about so many
  /// seconds, with these numbers for their open dimensions. What came of it is among what poll() gives, as
  /// this trial; its samples are the turns. Once a job, or once for each of few sizes, one after the other.
  TrialId race(const std::string& incumbent, const std::string& challenger, int threads, double seconds,
               std::span<const int64_t> dims = {});
  /// The job is done: its module is in the folder, called as the model is.
  void deliver(const std::string& report, const std::string& text);

  std::vector<Submission> submit(JobId job, std::span<const Candidate> candidates) override;
  std::vector<Finished> poll(JobId job, std::chrono::milliseconds timeout) override;
  size_t in_flight(JobId job) override;
  FarmStatus status() override;
  void cancel(JobId job) override;

  JobRows begin(const JobStart& start) override;
  void checkpoint(const JobCheckpoint& checkpoint) override;
  void add_event(db::JobId job, const std::string& kind, const std::string& body) override;
  void end(db::JobId job, db::JobState state, double seconds) override;
  /// Both of the job's own model, whatever their keys say.
  void choose(const db::Choice& choice) override;
  void add_model_latency(const db::ModelLatency& latency) override;

 private:
  nlohmann::json call(const char* name, nlohmann::json arguments);

  const int socket_;
  std::mutex mutex_;
};

}  // namespace lathe::tracker
