// What `tune query` is asked, how it answers, and what the kinds of answers share; each kind is a file here.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "db/store.h"

namespace lathe::cli {

struct Question {
  std::string what, model, target = "cpu", database;
  std::string device, from, to;  // as users name devices: see find_device
  std::string workload;          // of foreign records, by the name there
  int64_t threads = 0, limit = 20;
  bool strict = false, json = false;
};

/// A table: JSON gives each row as an object under the columns' names, text aligns them.
struct Answer {
  std::vector<std::string> columns;
  std::vector<std::vector<nlohmann::json>> rows;
  bool found = true;  // false: nothing is known, exit code 1
};

Answer answer_best(db::Store& store, const Question& question);
Answer answer_below_limit(db::Store& store, const Question& question);
Answer answer_coverage(db::Store& store, const Question& question);
Answer answer_history(db::Store& store, const Question& question);
Answer answer_transfer(db::Store& store, const Question& question);
Answer answer_foreign(db::Store& store, const Question& question);
Answer answer_jobs(db::Store& store, const Question& question);
Answer answer_devices(db::Store& store, const Question& question);

/// The model asked about. Throws Error when none is named or it is not known.
db::ModelId required_model(db::Store& store, const Question& question);

/// The target asked about. Throws Error when nothing is known for it.
db::TargetId required_target(db::Store& store, const Question& question);

/// The best for whoever asks: on the device named, else on this machine when the database knows it.
db::BestQuery query_for(db::Store& store, const Question& question);

/// This machine, as the database tells it from others.
db::Device device_here();
/// As a worker on it is known; none where no worker ever was.
std::optional<db::DeviceId> this_device(db::Store& store);

/// A device by its host's name or the beginning of its fingerprint. Throws Error when it is none or not the
/// only one; `flag` is where it was named.
db::DeviceId find_device(db::Store& store, const char* flag, const std::string& name);

/// Rounded, so that text and JSON show the digits that mean something.
nlohmann::json microseconds(double seconds);
nlohmann::json thousandths(double value);
std::string time_text(int64_t milliseconds);

}  // namespace lathe::cli
