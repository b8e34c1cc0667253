// Choices over whole models.

#include "db/store.h"

namespace lathe::db {

void Store::set_choice(const Choice& choice) {
  const ChoiceKey& key = choice.key;
  Transaction transaction = begin();
  database_->run(
      "DELETE FROM choice WHERE model_digest = ? AND target = ? AND threads = ? AND max_relative_error = ?",
      {key.model_digest, key.target, key.threads, key.max_relative_error});
  database_->run(
      "INSERT INTO choice(model_digest, target, threads, max_relative_error, seconds_before, seconds_after, "
      "chosen_ms) VALUES(?, ?, ?, ?, ?, ?, ?)",
      {key.model_digest, key.target, key.threads, key.max_relative_error, choice.seconds_before,
       choice.seconds_after, now_ms_()});
  int64_t id = database_->last_insert_id();
  for (const Choice::Task& task : choice.tasks)
    database_->run("INSERT INTO choice_task(choice, workload, measurement) VALUES(?, ?, ?)",
                   {id, task.workload, task.measurement});
  transaction.commit();
}

std::optional<Choice> Store::find_choice(const ChoiceKey& key) {
  Query row = database_->query(
      "SELECT id, seconds_before, seconds_after, chosen_ms FROM choice "
      "WHERE model_digest = ? AND target = ? AND threads = ? AND max_relative_error = ?",
      {key.model_digest, key.target, key.threads, key.max_relative_error});
  if (!row.step()) return std::nullopt;
  int64_t id = row.integer();
  Choice choice{
      .key = key, .seconds_before = row.real(), .seconds_after = row.real(), .chosen_ms = row.integer()};
  for (Query task = database_->query(
           "SELECT workload, measurement FROM choice_task WHERE choice = ? ORDER BY workload", {id});
       task.step();)
    choice.tasks.push_back({.workload = task.integer(), .measurement = task.integer()});
  return choice;
}

}  // namespace lathe::db
