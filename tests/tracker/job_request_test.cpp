#include "tracker/job_request.h"

#include <gtest/gtest.h>

#include "core/support/error.h"
#include "tests/thrown_by.h"

namespace lathe::tracker {
namespace {

std::string message_of(const std::string& json) {
  return thrown_by([&] { parse_job_request(json); });
}

TEST(JobRequest, IsWhatItWasAfterAJourney) {
  JobRequest request{.model = "net.onnx",
                     .model_digest = std::string(64, 'a'),
                     .shapes = {{"x", {1, 3, 224, 224}}, {"y", {}}},
                     .target = "cpu:mcpu=haswell",
                     .precision = "bf16",
                     .device = "EPYC",
                     .trials = 7,
                     .seconds = 1.5,
                     .target_ms = 2,
                     .choice_seconds = 3,
                     .threads = 4,
                     .seed = INT64_MAX,
                     .max_relative_error = 0.125,
                     .priority = -3};
  EXPECT_EQ(to_json(parse_job_request(to_json(request))), to_json(request));
  request.target_ms = 0;
  request.open = {"batch", "length=1..512,128:4"};
  EXPECT_EQ(to_json(parse_job_request(to_json(request))), to_json(request));
  EXPECT_EQ(parse_job_request(to_json(request)).open, request.open);
}

TEST(JobRequest, SaysWhatIsWrong) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "a job is one JSON object"},
      {"[]", "a job is one JSON object"},
      {R"({"target": "cpu"})", "`model` is missing: a zoo name, or the name of an uploaded file"},
      {R"({"model": "m", "open": "n"})", "`open` must be a list of strings"},
      {R"({"model": "m", "open": ["n=5..2"]})",
       "--open n=5..2: `5..2` is no range; write NAME, NAME=1..2048 or NAME=1..2048,16,128:4"},
      {R"({"model": "m", "open": ["n"], "target_ms": 2})",
       "--target-latency is of one size, and with --open there are many; leave one of them out"},
      {R"({"model": 3})", "`model` must be a string"},
      {R"({"model": "m", "trails": 3})", "unknown key `trails`; did you mean `trials`?"},
      {R"({"model": "m", "trials": 1.5})", "`trials` must be a whole number"},
      {R"({"model": "m", "trials": -1})", "`trials` is -1, must be 0 to 1099511627776"},
      {R"({"model": "m", "trials": 18446744073709551615})",
       "`trials` is 18446744073709551615, must be 0 to 1099511627776"},
      {R"({"model": "m", "priority": 18446744073709551615})",
       "`priority` is 18446744073709551615, must be -1000 to 1000"},
      {R"({"model": "m", "trials": 0})", "--trials 0 needs a --time"},
      {R"({"model": "m", "max_relative_error": 2})", "`max_relative_error` is 2, must be 0 to 1"},
      {R"({"model": "m", "shapes": {"x": [1, -2]}})",
       "`shapes`: a dimension of `x` is no whole number of 0 or more"},
      {R"({"model": "m", "model_digest": "../../etc/passwd"})",
       "`model_digest` must be the sha256 of the uploaded file, 64 hexadecimal digits"},
      {R"({"model": "m", "shapes": {"a": [[[[[[[[[[1]]]]]]]]]]}})", "a job is nested more than 8 deep"},
  };
  for (const auto& [json, message] : cases) EXPECT_EQ(message_of(json), message) << json;
  const std::string digest(64, '0');
  for (const char* name : {"../net.onnx", "net", "a/", "/etc/passwd", "net.lathe"})
    EXPECT_NE(message_of(R"({"model": ")" + std::string(name) + R"(", "model_digest": ")" + digest + R"("})"),
              "")
        << name;
}

/// `tune --model ../net.onnx` keeps it so, and a job is resumed by what was kept.
TEST(JobRequest, AModelThatIsNotUploadedMayBeAnyPath) {
  for (const std::string& path :
       {std::string("../net.onnx"), std::string("./net.onnx"), "/" + std::string(300, 'x') + "/net.relay"})
    EXPECT_EQ(message_of(to_json({.model = path})), "no error") << path;
}

/// Lists of jobs read all of them.
TEST(JobRequest, IsNoMegabyte) {
  EXPECT_EQ(message_of(to_json({.model = "m", .device = std::string(20'000, 'x')})), "no error");
  const std::string much(200'000, 'x');
  for (const JobRequest& request :
       {JobRequest{.model = "m", .device = much}, JobRequest{.model = much},
        JobRequest{.model = "m", .open = {much}}, JobRequest{.model = "m", .shapes = {{much, {1}}}},
        JobRequest{.model = "m", .shapes = {{"x", std::vector<int64_t>(100'000)}}}})
    EXPECT_EQ(message_of(to_json(request)),
              fmt::format("a job has {} bytes of names and shapes, more than the limit of 32768",
                          to_json(request).size()));
}

/// It becomes a file's name, and is shown in logs, on pages and in terminals.
TEST(JobRequest, AModelIsCalledAsAFileMayBe) {
  const auto with = [](const std::string& name) {
    return message_of(to_json({.model = name, .model_digest = std::string(64, 'a')}));
  };
  EXPECT_EQ(with("net.v2.onnx"), "no error");
  EXPECT_EQ(with("r\xc3\xa9seau \xe2\x98\x83.onnx"), "no error");
  for (const std::string& name :
       {std::string("\x1b]0;owned\x07.onnx"), std::string("a\0b.onnx", 8), std::string("a\nb.onnx"),
        std::string("\xc2\x9b"
                    "2J.onnx"),
        std::string("...onnx"), std::string(".onnx"), std::string(300, 'x') + ".onnx"})
    EXPECT_EQ(with(name),
              "`model` must be a name of at most 128 bytes, without control characters and not hidden")
        << name;
}

}  // namespace
}  // namespace lathe::tracker
