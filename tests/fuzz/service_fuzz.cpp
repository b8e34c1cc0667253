// What a tracker reads of users and of its own people: requests, devices, lists of users, configuration.
#include <nlohmann/json.hpp>

#include "cli/config_file.h"
#include "core/support/bounded_json.h"
#include "core/support/error.h"
#include "core/support/file.h"
#include "core/support/temporary_folder.h"
#include "tests/fuzz/fuzz.h"
#include "tracker/device_class.h"
#include "tracker/job_request.h"
#include "tracker/needs.h"
#include "tracker/principals.h"

namespace lathe::fuzz {

std::vector<std::string> seeds() {
  using namespace tracker;
  return {
      to_json({.model = "net.onnx",
               .model_digest = std::string(64, 'a'),
               .shapes = {{"x", {1, 3}}},
               .open = {"n=1..8"},
               .target = "cpu:mcpu=haswell",
               .device = "EPYC",
               .needs = {{"memory", "16GiB"}, {"driver", "6.1"}},
               .trials = 10,
               .seconds = 1.5}),
      R"({"model": "m", "cores": 2, "architecture": "x86_64", "memory_bytes": 1024, "kernel": "Linux 6.1.0-13"})",
      principal_line({"alice", Role::kSubmitter, 2, 5}, "token") + " models-gib=4 kept-gib=0.5\n# people\n" +
          "lab worker curve:a#.:-=+^!/*?&<>()[]{}@%$#0123456789abcde workers=2 slots=16 names=lab-*\n",
      "threads = 2 # all\n[tune]\ntime = \"1m\"\nmax-relative-error = 1e-3\n[bench]\ninput = ['x=a', "
      "\"\\u00e9\"]\nprofile = true\nat = 1979-05-27T07:32:00Z\n[[a.'b']]\n"};
}

void run_one(std::string_view bytes) {
  static const TemporaryFolder folder;
  const auto attempt = [&](auto reader) {
    try {
      reader(bytes);
    } catch (const Error&) {  // refused by this one; the next may take it
    }
  };
  attempt([](std::string_view text) {
    const std::string once = to_json(tracker::parse_job_request(text));
    CHECK(to_json(tracker::parse_job_request(once)) == once);
    tracker::describe_needs(tracker::needs_of_request(once));
  });
  attempt([](std::string_view text) {
    const std::string device = parse_bounded_json(text, 16, "a device").dump();
    tracker::describe_needs(tracker::properties_of(device));
    tracker::device_class_of(device);
  });
  const std::string file = folder / "file";
  write_file(file, bytes);
  attempt([&](std::string_view) { tracker::Principals(file, ""); });
  attempt([&](std::string_view) { tracker::Principals("", file); });
  attempt([&](std::string_view) { cli::read_config_file(file); });
}

}  // namespace lathe::fuzz
