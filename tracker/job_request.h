// What somebody asks of a tuning job, as flags give it, as clients send it and as the database keeps it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tracker/wire/wire.h"

namespace lathe::tracker {

struct JobRequest {
  std::string model;         // a zoo name or a file's
  std::string model_digest;  // sha256 of an uploaded file's bytes; "": the model's name says which it is
  std::map<std::string, std::vector<int64_t>> shapes;  // of inputs with dynamic dimensions
  std::vector<std::string> open;  // dimensions that stay so, as --open has them (tuner/open_dims.h)
  std::string target = "cpu", precision = "given";
  std::string device;  // part of the name of the devices to measure on; "": those that fit the target
  std::map<std::string, std::string> needs;  // of the devices, by property: tracker/needs.h
  int64_t trials = 512;
  double seconds = 0;
  double target_ms = 0;       // latency of one run of the model to end the search at; 0: none
  double choice_seconds = 0;  // of choosing over the whole model; 0: a share of the search's
  int64_t threads = 0;        // 0: all cores
  int64_t seed = 0;
  double max_relative_error = wire::Evaluation{}.tolerance;  // of a candidate's outputs
  int64_t priority = 0;                                      // among the jobs of its owner
};

/// One JSON object; parse_job_request reads it.
std::string to_json(const JobRequest& request);

/// Throws Error that names what is wrong: no object, an unknown key (with the nearest one), a value of
/// another type or out of its range, a request that cannot end (no budget at all). Keys left out keep their
/// defaults; `model` is required.
JobRequest parse_job_request(std::string_view json);

/// Throws Error when the request cannot end well whatever its model is.
void check_request(const JobRequest& request);

}  // namespace lathe::tracker
