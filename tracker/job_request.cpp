#include "tracker/job_request.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/support/bounded_json.h"
#include "core/support/digest.h"
#include "core/support/error.h"
#include "core/support/most_threads.h"
#include "core/support/printable.h"
#include "tracker/defaults.h"
#include "tracker/needs.h"
#include "tuner/open_dims.h"

namespace lathe::tracker {
namespace {

using nlohmann::json;

constexpr int kDepth = 8;
constexpr size_t kLongestName = 128, kLongestRequest = 32 << 10;
constexpr int64_t kMostTrials = int64_t{1} << 40, kMostPriority = 1000;

/// Takes the members of an object one after the other; what is left in the end was asked for in vain.
class Reader {
 public:
  explicit Reader(const json& object) : object_(object) {}

  void read(const char* key, std::string& value) {
    if (const json* found = find(key)) {
      if (!found->is_string()) fail("`{}` must be a string", key);
      value = found->get<std::string>();
    }
  }
  void read(const char* key, int64_t& value, int64_t least, int64_t most) {
    if (const json* found = find(key)) {
      if (!found->is_number_integer()) fail("`{}` must be a whole number", key);
      // What int64 does not hold is an unsigned number here, and would become one below 0.
      const bool fits = !found->is_number_unsigned() || found->get<uint64_t>() <= INT64_MAX;
      value = fits ? found->get<int64_t>() : 0;
      if (!fits || value < least || value > most)
        fail("`{}` is {}, must be {} to {}", key, found->dump(), least, most);
    }
  }
  void read(const char* key, double& value, double least, double most) {
    if (const json* found = find(key)) {
      if (!found->is_number()) fail("`{}` must be a number", key);
      value = found->get<double>();
      // NaN is in no range.
      if (!(value >= least && value <= most)) fail("`{}` is {}, must be {} to {}", key, value, least, most);
    }
  }
  void read(const char* key, std::map<std::string, std::vector<int64_t>>& shapes) {
    const json* found = find(key);
    if (!found) return;
    if (!found->is_object()) fail("`{}` must be an object of lists of dimensions by input", key);
    for (const auto& [input, dims] : found->items()) {
      if (!dims.is_array()) fail("`{}`: the shape of `{}` must be a list of dimensions", key, input);
      std::vector<int64_t>& shape = shapes[input];
      for (const json& dim : dims) {
        if (!dim.is_number_integer() || dim.get<int64_t>() < 0)
          fail("`{}`: a dimension of `{}` is no whole number of 0 or more", key, input);
        // What the product may come to is for the importer to say, which knows the types.
        shape.push_back(dim.get<int64_t>());
      }
    }
  }
  void read(const char* key, std::map<std::string, std::string>& texts) {
    const json* found = find(key);
    if (!found) return;
    const bool fits = found->is_object() && std::all_of(found->begin(), found->end(),
                                                        [](const json& text) { return text.is_string(); });
    if (!fits) fail("`{}` must be an object of strings", key);
    texts = found->get<std::map<std::string, std::string>>();
  }
  void read(const char* key, std::vector<std::string>& texts) {
    const json* found = find(key);
    if (!found) return;
    const bool fits = found->is_array() && std::all_of(found->begin(), found->end(),
                                                       [](const json& text) { return text.is_string(); });
    if (!fits) fail("`{}` must be a list of strings", key);
    texts = found->get<std::vector<std::string>>();
  }
  /// Throws Error for a key that nobody read.
  void end() const {
    for (const auto& [key, value] : object_.items())
      if (std::find(known_.begin(), known_.end(), key) == known_.end())
        fail("unknown key `{}`{}", key, did_you_mean(key, known_));
  }

 private:
  const json* find(const char* key) {
    known_.emplace_back(key);
    const auto found = object_.find(key);
    return found == object_.end() ? nullptr : &*found;
  }

  const json& object_;
  std::vector<std::string> known_;
};

}  // namespace

std::string to_json(const JobRequest& r) {
  // All keys, so that the same request has the same text whatever its asker left out.
  json object = {{"model", r.model},
                 {"model_digest", r.model_digest},
                 {"shapes", r.shapes},
                 {"target", r.target},
                 {"precision", r.precision},
                 {"device", r.device},
                 {"trials", r.trials},
                 {"seconds", r.seconds},
                 {"target_ms", r.target_ms},
                 {"choice_seconds", r.choice_seconds},
                 {"threads", r.threads},
                 {"seed", r.seed},
                 {"max_relative_error", r.max_relative_error},
                 {"priority", r.priority}};
  // But these: trackers that do not know them refuse requests that have them, and they alone.
  if (!r.open.empty()) object["open"] = r.open;
  if (!r.needs.empty()) object["needs"] = r.needs;
  return object.dump();
}

JobRequest parse_job_request(std::string_view text) {
  // A body of strangers: bounded in depth here, in length by the server.
  const json object = parse_bounded_json(text, kDepth, "a job");
  if (!object.is_object()) fail("a job is one JSON object");
  JobRequest r;
  Reader reader(object);
  reader.read("model", r.model);
  reader.read("model_digest", r.model_digest);
  reader.read("shapes", r.shapes);
  reader.read("open", r.open);
  reader.read("target", r.target);
  reader.read("precision", r.precision);
  reader.read("device", r.device);
  reader.read("needs", r.needs);
  reader.read("trials", r.trials, 0, kMostTrials);
  reader.read("seconds", r.seconds, 0, defaults::kMostSeconds);
  reader.read("target_ms", r.target_ms, 0, defaults::kMostSeconds);
  reader.read("choice_seconds", r.choice_seconds, 0, defaults::kMostSeconds);
  reader.read("threads", r.threads, 0, kMostThreads);
  reader.read("seed", r.seed, 0, INT64_MAX);
  reader.read("max_relative_error", r.max_relative_error, 0, 1);
  reader.read("priority", r.priority, -kMostPriority, kMostPriority);
  // Who misspells a budget must not wait for a search that has none.
  reader.end();
  if (r.model.empty()) fail("`model` is missing: a zoo name, or the name of an uploaded file");
  if (!r.model_digest.empty() && !is_digest(r.model_digest))
    fail("`model_digest` must be the sha256 of the uploaded file, 64 hexadecimal digits");
  // The file is linked under this name into the job's folder, and its ending says how to read it.
  if (!r.model_digest.empty() && (r.model.find('/') != std::string::npos ||
                                  !(r.model.ends_with(".onnx") || r.model.ends_with(".relay"))))
    fail("`model` is `{}`: an uploaded one is called by its file's name, without a folder, .onnx or .relay",
         r.model);
  // Files, pages and other people's terminals will call it so. Without a digest it is of the zoo, or a path
  // of the asker's own machine: `tune --model ../net.onnx` is kept like this, and resumed.
  if (!r.model_digest.empty() &&
      (r.model.starts_with('.') || r.model.size() > kLongestName || has_control_characters(r.model)))
    fail("`model` must be a name of at most {} bytes, without control characters and not hidden",
         kLongestName);
  check_request(r);
  // Whoever lists jobs has it read: of a megabyte each, those of one user would take all the time for
  // answers. As it is kept, so that what is accepted once is read again.
  if (const size_t bytes = to_json(r).size(); bytes > kLongestRequest)
    fail("a job has {} bytes of names and shapes, more than the limit of {}", bytes, kLongestRequest);
  return r;
}

void check_request(const JobRequest& request) {
  if (request.trials == 0 && request.seconds <= 0) fail("--trials 0 needs a --time");
  tuner::parse_open_dims(request.open);
  parse_needs(request.needs);
  if (!request.open.empty() && request.target_ms > 0)
    fail("--target-latency is of one size, and with --open there are many; leave one of them out");
}

}  // namespace lathe::tracker
