#include "tracker/wire/wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <cmath>
#include <limits>
#include <random>

#include "core/support/error.h"
#include "tests/thrown_by.h"
#include "tracker/defaults.h"

namespace lathe::wire {
namespace {

std::vector<Message> one_of_each() {
  return {
      Hello{.oldest_version = 1,
            .newest_version = 3,
            .worker = "board/0",
            .device = "{}",
            .backends = {"cpu"},
            .holding = {7, 1ull << 40}},
      Welcome{.version = 1, .epoch = 9},
      Credit{4},
      Lease{.lease = 5,
            .trial = 6,
            .attempt = 2,
            .limit_ms = 300,
            .workload = "func",
            .trace = "[]",
            .target = "cpu:mcpu=skylake",
            .evaluation = {.threads = 2,
                           .incumbent_seconds = 1e-3,
                           .cold_cache = false,
                           .far_weights = true,
                           .dims = {2, 128}},
            .seed = 11},
      Result{.lease = 5,
             .trial = 6,
             .attempt = 2,
             .outcome = Outcome::kOk,
             .samples = {1e-3f, 2e-3f},
             .relative_error = 1e-6,
             .build_seconds = 0.1,
             .run_seconds = 0.2,
             .artifact = "ab",
             .disturbance = {.taken = 20, .disturbed = 3, .canary = 1.12, .clock_hz = 3e9},
             .celsius = 0,
             .timer_seconds = 24e-9},
      Result{.lease = 5,
             .trial = 6,
             .outcome = Outcome::kCrashed,
             .message = "\xff\x80 not UTF-8",
             .signal = 11},
      Hello{.worker = "board/1", .device = "{}", .builds = {"cpu/aarch64"}, .runner_only = true},
      Lease{.lease = 5, .trial = 6, .workload = "func", .trace = "[]", .target = "cpu", .part = Part::kBuild},
      Lease{.lease = 5,
            .trial = 6,
            .part = Part::kRun,
            .artifact = {std::string(64, 'a'), 1000},
            .reference = {std::string(64, '0'), 1}},
      Lease{.lease = 5,
            .trial = 6,
            .part = Part::kRace,
            .artifact = {std::string(64, 'b'), defaults::kModuleLimit},
            .reference = {std::string(64, '0'), 1}},
      Lease{.lease = 5, .trial = 6, .job = 7, .workload_id = 8},
      Built{5, 6, 2, {std::string(64, 'a'), 1000}, {std::string(64, '0'), 1}},
      BlobGet{5, std::string(64, 'a'), 512},
      Canary{.number = 3, .kernels = 1, .compute_seconds = 1e-5, .memory_seconds = 2e-5},
      BlobChunk{std::string(64, 'a'), 512, std::string("\0\1", 2)},
      ResultAck{5, ResultAck::Verdict::kStale},
      ResultAck{5, ResultAck::Verdict::kRecorded, 1.5e-3},
      Heartbeat{{1, 2, 3}, 4},
      Cancel{5},
      Drain{{1}},
      Bye{{2}},
      Refusal{Refusal::Code::kVersion, "no"}};
}

std::string message_of(std::string_view frame) {
  return thrown_by([&] { decode(frame); });
}

TEST(Wire, RoundTrip) {
  for (const Message& message : one_of_each())
    EXPECT_EQ(decode(encode(message)), message) << name_of(message);
}

TEST(Wire, NamesTheFault) {
  EXPECT_EQ(message_of(""), "message: an envelope with no body this version knows");
  EXPECT_EQ(message_of("garbage"), "message: 7 bytes that are no envelope of this protocol");
  EXPECT_EQ(message_of(encode(Hello{})), "hello.worker is empty, must name the worker");
  EXPECT_EQ(message_of(encode(Hello{.worker = std::string(300, 'x')})),
            "hello.worker has 300 bytes, more than the limit of 256");
  EXPECT_EQ(message_of(encode(Hello{.worker = "w", .device = std::string(70000, ' ')})),
            "hello.device has 70000 bytes, more than the limit of 16384");
  EXPECT_EQ(message_of(encode(Hello{.worker = "w", .device = std::string(10000, '[')})),
            "hello.device is nested more than 8 deep");
  EXPECT_EQ(message_of(encode(Credit{1000000})), "credit.slots is 1000000, at most 1024");
  EXPECT_EQ(message_of(encode(Result{.outcome = static_cast<Outcome>(99)})),
            "result.outcome is 99, the last known is 6");
  EXPECT_EQ(message_of(encode(Result{.outcome = Outcome::kOk})),
            "result.samples has 0 entries for outcome ok");
  EXPECT_EQ(message_of(encode(Result{.outcome = Outcome::kOk, .samples = {std::nanf("")}})),
            "result.samples is nan, must be a finite number, at least 0");
  EXPECT_EQ(message_of(encode(ResultAck{.incumbent_seconds = std::nan("")})),
            "result_ack.incumbent_seconds is nan, must be a finite number, at least 0");
  EXPECT_EQ(message_of(encode(ResultAck{.incumbent_seconds = -1})),
            "result_ack.incumbent_seconds is -1, must be a finite number, at least 0");
  EXPECT_EQ(message_of(encode(Canary{.memory_seconds = -1})),
            "canary.memory_seconds is -1, must be a finite number, at least 0");
  EXPECT_EQ(message_of(encode(Lease{.evaluation = {.threads = 0}})),
            "evaluation.threads is 0, must be 1..1024");
  EXPECT_EQ(message_of(encode(Lease{.evaluation = {.max_samples = 100001}})),
            "evaluation.max_samples is 100001, more than the limit of 100000");
  EXPECT_EQ(message_of(encode(Lease{.evaluation = {.run_limit_seconds = 1e9}})),
            "evaluation.run_limit_seconds is 1000000000, must be 0..900");
  EXPECT_EQ(message_of(encode(Lease{.evaluation = {.relative_interval = -1}})),
            "evaluation.relative_interval is -1, must be a finite number, at least 0");
  EXPECT_EQ(message_of(encode(Lease{.evaluation = {.dims = {-1}}})), "evaluation.dims has -1");
  EXPECT_EQ(message_of(encode(BlobGet{1, "../../etc/passwd"})),
            "blob_get.digest is not 64 hexadecimal digits");
  EXPECT_EQ(message_of(encode(Lease{.part = static_cast<Part>(4)})), "lease.part is 4, the last known is 3");
  EXPECT_EQ(message_of(encode(Built{.artifact = {std::string(64, 'a'), 1 << 30}})),
            "built.artifact has 1073741824 bytes, must be 1..16777216");
  EXPECT_EQ(message_of(encode(BlobChunk{std::string(64, 'a'), 0, std::string(300000, 'x')})),
            "blob_chunk.bytes has 300000 bytes, more than the limit of 262144");
  EXPECT_EQ(message_of(encode(Heartbeat{std::vector<uint64_t>(5000)})),
            "heartbeat.holding lists 5000 leases, more than the limit of 4096");
  EXPECT_EQ(message_of(std::string(defaults::kFrameLimit + 1, 'x')),
            "message: 16777217 bytes, more than the limit of 16777216");
}

// Anything a peer may send is a message or an Error.
/// S3: a million of them, and no memory is left behind.
TEST(Wire, SurvivesDamagedFrames) {
  std::vector<std::string> frames;
  for (const Message& message : one_of_each()) frames.push_back(encode(message));
  std::mt19937 random(1);
  constexpr int kRounds = 1'000'000;
  int accepted = 0;
  const size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
  for (int round = 0; round < kRounds; ++round) {
    std::string frame = frames[random() % frames.size()];
    for (int damage = 1 + random() % 4; damage > 0; --damage) {
      const size_t at = random() % frame.size();
      switch (random() % 4) {
        case 0:
          frame[at] = static_cast<char>(random());
          break;
        case 1:
          frame.resize(at + 1);
          break;
        case 2:
          frame.insert(at, 1, static_cast<char>(random()));
          break;
        default:
          frame[at] ^= static_cast<char>(1 << random() % 8);
      }
    }
    try {
      decode(frame);
      ++accepted;
    } catch (const Error&) {
    }
  }
  EXPECT_GT(accepted, 0);
  EXPECT_LT(accepted, kRounds);
  // Of a sanitizer's allocator this knows nothing, and is 0.
  EXPECT_LE(mallinfo2().uordblks + mallinfo2().hblkhd, before + (size_t{16} << 20));
}

/// Names are shown in logs, metrics and terminals.
TEST(Wire, NamesHoldNoControlCharacters) {
  const auto refused = [](const Hello& hello) {
    try {
      decode(encode(hello));
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(refused({.worker = "board", .device = R"({"model": "EPYC"})"}), "");
  EXPECT_EQ(refused({.worker = "a\nforged line of a log", .device = "{}"}),
            "hello.worker holds control characters");
  EXPECT_EQ(refused({.worker = "lab\u200b", .device = "{}"}), "hello.worker holds control characters")
      << "it looks like lab";
  EXPECT_EQ(refused({.worker = "\u202eyranac", .device = "{}"}), "hello.worker holds control characters");
  EXPECT_EQ(refused({.worker = "lab\xff", .device = "{}"}), "hello.worker is no UTF-8");
  EXPECT_EQ(refused({.worker = "b", .device = R"({"model": "\u001b]0;owned\u0007"})"}),
            "hello.device: `model` holds control characters");
}

/// A server's database indexes it: with a longer one the first lease's commit ended the tracker.
TEST(Wire, TheTargetOfADeviceIsShort) {
  const auto hello = [](size_t bytes) {
    return encode(Hello{.worker = "w", .device = R"({"target": ")" + std::string(bytes, 'x') + R"("})"});
  };
  EXPECT_EQ(message_of(hello(2049)), "hello.device: `target` has 2049 bytes, more than the limit of 2048");
  EXPECT_NO_THROW(decode(hello(2048)));
}

}  // namespace
}  // namespace lathe::wire
