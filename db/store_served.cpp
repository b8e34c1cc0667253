// Jobs that a tracker owns, and what is told about them.
#include "core/support/error.h"
#include "db/database_error.h"
#include "db/job_names.h"
#include "db/store.h"

namespace lathe::db {

namespace {

/// What a row takes beside its texts, roughly.
constexpr int64_t kBytesOfRow = 128;

std::string select_served(const char* report = "report") {
  return fmt::format(
      "SELECT id, uuid, owner, model_name, request, priority, weight, state, message, device_class, {}, job, "
      "crashes, created_ms, started_ms, ended_ms FROM served_job ",
      report);
}

constexpr std::string_view kSelectEvent = "SELECT id, job, served_job, kind, body, created_ms FROM event ";

ServedJob read_served(Query& row) {
  return ServedJob{.id = row.integer(),
                   .uuid = row.text(),
                   .owner = row.text(),
                   .model_name = row.text(),
                   .request = row.text(),
                   .priority = static_cast<int>(row.integer()),
                   .weight = row.real(),
                   .state = job_state_named(row.text()),
                   .message = row.text(),
                   .device_class = row.text(),
                   .report = row.text(),
                   .job = row.maybe_integer(),
                   .crashes = static_cast<int>(row.integer()),
                   .created_ms = row.integer(),
                   .started_ms = row.integer(),
                   .ended_ms = row.integer()};
}

Event read_event(Query& row) {
  return Event{.id = row.integer(),
               .job = row.maybe_integer(),
               .served_job = row.maybe_integer(),
               .kind = row.text(),
               .body = row.text(),
               .created_ms = row.integer()};
}

}  // namespace

ServedJob Store::add_served_job(const NewServedJob& job) {
  Transaction transaction = begin();
  // Within the transaction: of two that ask at once the second sees the first's row.
  if (job.idempotency_key)
    // Leaving without a commit rolls back nothing.
    if (auto known = served_job_with_key(job.owner, *job.idempotency_key)) return *known;
  const ServedJobId id = *database_->insert(
      "INSERT INTO served_job(uuid, owner, model_name, request, priority, weight, state, idempotency_key, "
      "created_ms, kept_bytes) VALUES(?, ?, ?, ?, ?, ?, 'queued', ?, ?, ?) RETURNING id",
      {new_uuid(), job.owner, job.model_name, job.request, job.priority, job.weight, job.idempotency_key,
       now_ms_(), static_cast<int64_t>(job.request.size()) + kBytesOfRow});
  add_served_event(id, "state", "{}");
  // As it was made, before anybody else can change it.
  ServedJob made = served_job(id);
  transaction.commit();
  return made;
}

std::optional<ServedJob> Store::served_job_with_key(const std::string& owner, const std::string& key) {
  Query row = database_->query(select_served() + "WHERE owner = ? AND idempotency_key = ?", {owner, key});
  if (!row.step()) return std::nullopt;
  return read_served(row);
}

std::optional<ServedJob> Store::find_served_job(const std::string& uuid) {
  require_telling(uuid);
  std::vector<ServedJob> found;
  for (Query row = database_->query(
           // By the index of UNIQUE: the letters of a UUID end before g.
           // substr() or LIKE would scan, and a service keeps all jobs it ever had.
           select_served() + "WHERE uuid >= ?1 AND uuid < ?1 || 'g' LIMIT 2", {uuid});
       row.step();)
    found.push_back(read_served(row));
  if (uuid.empty() || found.empty()) return std::nullopt;
  require_one(uuid, found.size());
  return found.front();
}

ServedJob Store::served_job(ServedJobId id) {
  Query row = database_->query(select_served() + "WHERE id = ?", {id});
  if (!row.step()) fail("the database has no served job {}", id);
  return read_served(row);
}

std::vector<ServedJob> Store::served_jobs(const ServedJobQuery& query) {
  // Newest first along the primary key: a page ends when it is full, however many jobs there are.
  std::vector<ServedJob> jobs;
  // The conditions are spelled out (no "? = '' OR ...") so that indexes serve them. That of the states that
  // are not final must be named, and asked for by the words that made it.
  std::string sql = select_served("''");
  std::vector<Value> values;
  if (query.state && !is_final(*query.state))
    sql += database_->by_index("served_job_open") + " WHERE state IN ('queued', 'running', 'stopped')";
  else
    sql += "WHERE id > 0";
  if (query.state) sql += " AND state = ?", values.emplace_back(to_string(*query.state));
  if (!query.owner.empty()) sql += " AND owner = ?", values.emplace_back(query.owner);
  if (!query.model.empty()) sql += " AND model_name = ?", values.emplace_back(query.model);
  if (query.before != 0) sql += " AND id < ?", values.emplace_back(query.before);
  sql += " ORDER BY id DESC LIMIT ?";
  values.emplace_back(query.limit);
  for (Query row = database_->query(sql, values); row.step();) jobs.push_back(read_served(row));
  return jobs;
}

std::optional<ServedJob> Store::served_job_of(JobId search) {
  Query row = database_->query(select_served() + "WHERE job = ?", {search});
  if (!row.step()) return std::nullopt;
  return read_served(row);
}

std::vector<std::pair<JobState, int64_t>> Store::count_served_jobs() {
  std::vector<std::pair<JobState, int64_t>> counts;
  for (Query row = database_->query("SELECT state, count(*) FROM served_job GROUP BY state"); row.step();) {
    const JobState state = job_state_named(row.text());
    counts.emplace_back(state, row.integer());
  }
  return counts;
}

int64_t Store::count_open_served_jobs(const std::string& owner) {
  Query row = database_->query(
      "SELECT count(*) FROM served_job WHERE state IN ('queued', 'running', 'stopped') AND owner = ?",
      {owner});
  row.step();
  return row.integer();
}

bool Store::set_served_state(ServedJobId id, JobState state, const std::string& message) {
  Transaction transaction = begin();
  // Within the transaction: cancel and done may come at once, and the first is final.
  const ServedJob job = served_job(id);
  if (is_final(job.state)) return false;
  // No event: whoever follows would be told the same again and again.
  if (job.state == state && job.message == message) return true;
  const int64_t now = now_ms_();
  // A job that was paused began when it first ran.
  const bool starts = state == JobState::kRunning && job.started_ms == 0;
  database_->run("UPDATE served_job SET state = ?, message = ?, started_ms = ?, ended_ms = ? WHERE id = ?",
                 {to_string(state), message, starts ? now : job.started_ms, is_final(state) ? now : 0, id});
  // In the same transaction: no search goes on that nobody has asked for.
  if (job.job && is_final(state)) {
    set_job_state(*job.job, state, message);
    // Nothing goes on from these any more, and an owner's jobs are bounded in what they keep.
    Query left = database_->query(
        "SELECT coalesce(sum(octet_length(checkpoint)), 0) FROM job_task WHERE job = ?", {*job.job});
    CHECK(left.step());
    database_->run(
        "UPDATE served_job SET kept_bytes = CASE WHEN kept_bytes > ?1 THEN kept_bytes - ?1 ELSE 0 END "
        "WHERE id = ?2",
        {left.integer(), id});
    database_->run("UPDATE job_task SET checkpoint = NULL WHERE job = ?", {*job.job});
  }
  add_served_event(id, "state", "{}");
  // Its owner may pause and resume it as often as it likes.
  database_->run("UPDATE served_job SET kept_bytes = kept_bytes + ? WHERE id = ?", {kBytesOfRow, id});
  transaction.commit();
  return true;
}

void Store::set_served_device_class(ServedJobId id, const std::string& device_class) {
  database_->run("UPDATE served_job SET device_class = ? WHERE id = ?", {device_class, id});
}

// No event: the state that follows has one.
void Store::set_served_report(ServedJobId id, const std::string& report) {
  database_->run("UPDATE served_job SET report = ? WHERE id = ?", {report, id});
}

void Store::set_served_search(ServedJobId id, JobId search) {
  database_->run("UPDATE served_job SET job = ? WHERE id = ?", {search, id});
}

int Store::count_served_crash(ServedJobId id) {
  const auto crashes =
      database_->insert("UPDATE served_job SET crashes = crashes + 1 WHERE id = ? RETURNING crashes", {id});
  if (!crashes) throw DatabaseError(fmt::format("database {}: job {} is gone", database_->name(), id));
  return static_cast<int>(*crashes);
}

int64_t Store::add_served_event(ServedJobId id, const std::string& kind, const std::string& body) {
  // As in add_event().
  Transaction transaction = begin();
  const auto event = database_->insert(
      "INSERT INTO event(job, served_job, kind, body, created_ms) "
      "VALUES((SELECT job FROM served_job WHERE id = ?1), ?1, ?2, ?3, ?4) RETURNING id",
      {id, kind, body, now_ms_()});
  transaction.commit();
  return *event;
}

StoredByJob Store::stored_by(ServedJobId id) {
  // Counted when a search begins, not with each trial; SearchQuota goes on from there.
  const ServedJob job = served_job(id);
  const JobId search = job.job.value_or(0);
  Query tasks = database_->query("SELECT count(*) FROM job_task WHERE job = ?", {search});
  Query trials = database_->query(
      "SELECT count(*), coalesce(sum(octet_length(trace) + octet_length(program) + octet_length(settings)), "
      "0) "
      "FROM trial JOIN candidate ON candidate.id = trial.candidate WHERE job = ?",
      {search});
  Query events = database_->query(
      "SELECT count(*), coalesce(sum(octet_length(body)), 0) FROM event WHERE served_job = ?", {id});
  CHECK(tasks.step() && trials.step() && events.step());
  StoredByJob stored{.tasks = tasks.integer(), .trials = trials.integer(), .events = events.integer()};
  stored.bytes = static_cast<int64_t>(job.request.size()) + kBytesOfRow * (1 + stored.events) +
                 trials.integer() + events.integer();
  return stored;
}

void Store::set_served_kept(ServedJobId id, int64_t bytes) {
  database_->run("UPDATE served_job SET kept_bytes = ? WHERE id = ?", {bytes, id});
}

void Store::add_served_kept(ServedJobId id, int64_t bytes) {
  database_->run("UPDATE served_job SET kept_bytes = kept_bytes + ? WHERE id = ?", {bytes, id});
}

int64_t Store::kept_by_owner(const std::string& owner, ServedJobId but) {
  Query row = database_->query(
      "SELECT coalesce(sum(kept_bytes), 0) FROM served_job WHERE owner = ? AND id <> ?", {owner, but});
  CHECK(row.step());
  return row.integer();
}

std::optional<Event> Store::last_served_event(ServedJobId id, const std::string& kind) {
  Query row = database_->query(
      fmt::format("{}WHERE served_job = ? AND kind = ? ORDER BY id DESC LIMIT 1", kSelectEvent), {id, kind});
  if (!row.step()) return std::nullopt;
  return read_event(row);
}

std::vector<Event> Store::served_events_after(ServedJobId id, int64_t after, int limit, size_t bytes) {
  std::vector<Event> events;
  // Two texts rather than one with "OR": each has an index of its own.
  const auto read = [&](Query row) {
    for (size_t read = 0; read < bytes && row.step(); read += events.back().body.size())
      events.push_back(read_event(row));
  };
  if (id != 0)
    read(database_->query(fmt::format("{}WHERE served_job = ? AND id > ? ORDER BY id LIMIT ?", kSelectEvent),
                          {id, after, limit}));
  else
    read(database_->query(
        fmt::format("{}WHERE id > ? AND served_job IS NOT NULL ORDER BY id LIMIT ?", kSelectEvent),
        {after, limit}));
  return events;
}

std::vector<int64_t> Store::served_event_ids(ServedJobId id, const std::string& kind) {
  std::vector<int64_t> ids;
  for (Query row =
           database_->query("SELECT id FROM event WHERE served_job = ? AND kind = ? ORDER BY id", {id, kind});
       row.step();)
    ids.push_back(row.integer());
  return ids;
}

std::optional<Event> Store::served_event(int64_t id) {
  Query row = database_->query(fmt::format("{}WHERE id = ?", kSelectEvent), {id});
  if (!row.step()) return std::nullopt;
  return read_event(row);
}

int64_t Store::last_event() {
  Query row = database_->query("SELECT coalesce(max(id), 0) FROM event");
  row.step();
  return row.integer();
}

}  // namespace lathe::db
