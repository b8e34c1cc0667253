#include "tracker/wire/wire.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/support/bounded_json.h"
#include "core/support/digest.h"
#include "core/support/error.h"
#include "core/support/most_threads.h"
#include "core/support/printable.h"
#include "core/support/record_limits.h"
#include "tracker/defaults.h"
#include "wire.pb.h"

namespace lathe::wire {
namespace {

using namespace lathe::defaults;
static_assert(kDeviceLimit <= limits::kDetails);

// --- checks on what a peer sent

// Frames are bounded already; these bounds are of what is kept (a row's text) or walked (a list) afterwards.
std::string text(std::string value, size_t limit, const char* field) {
  if (value.size() > limit) fail("{} has {} bytes, more than the limit of {}", field, value.size(), limit);
  return value;
}

template <typename List>
std::vector<uint64_t> leases(const List& list, const char* field) {
  if (static_cast<size_t>(list.size()) > kHoldingLimit)
    fail("{} lists {} leases, more than the limit of {}", field, list.size(), kHoldingLimit);
  return {list.begin(), list.end()};
}

double finite(double value, const char* field) {
  if (!std::isfinite(value) || value < 0) fail("{} is {}, must be a finite number, at least 0", field, value);
  return value;
}

double temperature(double value) {
  if (!(value >= limits::kColdest && value <= limits::kHottest))
    fail("result.celsius is {}, no temperature of a device", value);
  return value;
}

/// A blob's name becomes the name of a file.
std::string digest(const std::string& value, const char* field) {
  if (!is_digest(value)) fail("{} is not 64 hexadecimal digits", field);
  return value;
}

template <typename Enum>
Enum enumerator(uint32_t value, Enum last, const char* field) {
  if (value > static_cast<uint32_t>(last))
    fail("{} is {}, the last known is {}", field, value, static_cast<uint32_t>(last));
  return static_cast<Enum>(value);
}

// --- one pair a message

void put(const Evaluation& from, pb::Evaluation& to) {
  to.set_threads(from.threads);
  to.set_warmup(from.warmup);
  to.set_min_samples(from.min_samples);
  to.set_max_samples(from.max_samples);
  to.set_budget_seconds(from.budget_seconds);
  to.set_relative_interval(from.relative_interval);
  to.set_incumbent_seconds(from.incumbent_seconds);
  to.set_tolerance(from.tolerance);
  to.set_build_limit_seconds(from.build_limit_seconds);
  to.set_run_limit_seconds(from.run_limit_seconds);
  to.set_cold_cache(from.cold_cache);
  to.set_far_weights(from.far_weights);
  to.mutable_dims()->Add(from.dims.begin(), from.dims.end());
}

Evaluation get(const pb::Evaluation& from) {
  Evaluation evaluation{.threads = from.threads(),
                        .warmup = from.warmup(),
                        .min_samples = from.min_samples(),
                        .max_samples = from.max_samples(),
                        .budget_seconds = from.budget_seconds(),
                        .relative_interval = from.relative_interval(),
                        .incumbent_seconds = from.incumbent_seconds(),
                        .tolerance = from.tolerance(),
                        .build_limit_seconds = from.build_limit_seconds(),
                        .run_limit_seconds = from.run_limit_seconds(),
                        .cold_cache = from.cold_cache(),
                        .far_weights = from.far_weights(),
                        .dims = {from.dims().begin(), from.dims().end()}};
  if (const std::string fault = fault_of(evaluation); !fault.empty()) fail("{}", fault);
  return evaluation;
}

void put(const Blob& from, pb::Blob& to) {
  to.set_digest(from.digest);
  to.set_size(from.size);
}

Blob get(const pb::Blob& from, const char* field, size_t limit = kBlobLimit) {
  if (from.size() < 1 || from.size() > limit)
    fail("{} has {} bytes, must be 1..{}", field, from.size(), limit);
  return {digest(from.digest(), field), from.size()};
}

void put(const Hello& from, pb::Envelope& envelope) {
  auto& to = *envelope.mutable_hello();
  to.set_oldest_version(from.oldest_version);
  to.set_newest_version(from.newest_version);
  to.set_worker(from.worker);
  to.set_device(from.device);
  for (const auto& backend : from.backends) to.add_backends(backend);
  to.mutable_holding()->Add(from.holding.begin(), from.holding.end());
  for (const auto& platform : from.builds) to.add_builds(platform);
  to.set_runner_only(from.runner_only);
}

std::vector<std::string> names(const google::protobuf::RepeatedPtrField<std::string>& list,
                               const char* field) {
  if (list.size() > 16) fail("{} has {} entries, more than 16", field, list.size());
  std::vector<std::string> result;
  for (const std::string& name : list) result.push_back(text(name, kNameLimit, field));
  return result;
}

/// Names of a device are shown wherever its results are, and kept with each of them. A database that holds
/// what no pack may would travel no more.
void check_device(const nlohmann::json& device) {
  // Written anew, a number or a character may be longer than it came.
  if (const size_t bytes = json_line(device).size(); bytes > kDeviceLimit)
    fail("hello.device has {} bytes, more than the limit of {}", bytes, kDeviceLimit);
  const auto check = [](std::string_view key, std::string_view text, size_t limit) {
    if (text.size() > limit)
      fail("hello.device: `{}` has {} bytes, more than the limit of {}", key, text.size(), limit);
    if (has_control_characters(text)) fail("hello.device: `{}` holds control characters", key);
  };
  for (const char* key : {"architecture", "compiler", "driver", "host", "kernel", "model", "revision"})
    check(key, string_member(device, key), limits::kName);
  std::string all;
  if (const auto features = device.find("features"); features != device.end() && features->is_array())
    for (const nlohmann::json& feature : *features)
      if (feature.is_string()) all += feature.get<std::string>() + ",";
  check("features", all, limits::kTarget);
  // A key of the database, with the machine's numbers. A host's names what its processor withholds, no more.
  check("target", string_member(device, "target"), kDeviceTargetLimit);
}

Message get(const pb::Hello& from) {
  Hello hello{.oldest_version = from.oldest_version(),
              .newest_version = from.newest_version(),
              .worker = text(from.worker(), kNameLimit, "hello.worker"),
              .device = text(from.device(), kDeviceLimit, "hello.device"),
              .backends = names(from.backends(), "hello.backends"),
              .holding = leases(from.holding(), "hello.holding"),
              .builds = names(from.builds(), "hello.builds"),
              .runner_only = from.runner_only()};
  // Leases, blame and trust go by the name.
  if (hello.worker.empty()) fail("hello.worker is empty, must name the worker");
  // Deep nesting would overflow the stack of whoever walks it later.
  check_device(parse_bounded_json(hello.device, limits::kDetailsDepth, "hello.device"));
  // Logs, metrics and terminals show it.
  if (has_control_characters(hello.worker)) fail("hello.worker holds control characters");
  // In JSON two that are none would become one, and nobody could name it in an order.
  if (as_utf8(hello.worker) != hello.worker) fail("hello.worker is no UTF-8");
  return hello;
}

void put(const Welcome& from, pb::Envelope& envelope) {
  envelope.mutable_welcome()->set_version(from.version);
  envelope.mutable_welcome()->set_epoch(from.epoch);
}

Message get(const pb::Welcome& from) { return Welcome{.version = from.version(), .epoch = from.epoch()}; }

void put(const Credit& from, pb::Envelope& envelope) { envelope.mutable_credit()->set_slots(from.slots); }

Message get(const pb::Credit& from) {
  if (from.slots() > kWorkerSlotsLimit)
    fail("credit.slots is {}, at most {}", from.slots(), kWorkerSlotsLimit);
  return Credit{.slots = from.slots()};
}

void put(const Lease& from, pb::Envelope& envelope) {
  auto& to = *envelope.mutable_lease();
  to.set_lease(from.lease);
  to.set_trial(from.trial);
  to.set_attempt(from.attempt);
  to.set_limit_ms(from.limit_ms);
  to.set_workload(from.workload);
  to.set_trace(from.trace);
  to.set_target(from.target);
  put(from.evaluation, *to.mutable_evaluation());
  to.set_seed(from.seed);
  to.set_job(from.job);
  to.set_workload_id(from.workload_id);
  // A field left out is 0, kWhole: a worker of version 1 reads the lease that it knows.
  if (from.part == Part::kWhole) return;
  to.set_part(static_cast<uint32_t>(from.part));
  if (from.part == Part::kBuild) return;
  put(from.artifact, *to.mutable_artifact());
  put(from.reference, *to.mutable_reference());
}

Message get(const pb::Lease& from) {
  const Part part = enumerator(from.part(), Part::kRace, "lease.part");
  const bool is_built = part == Part::kRun || part == Part::kRace;
  if (const milliseconds limit(from.limit_ms()); limit > kLongestLease)
    fail("lease.limit_ms is {}, more than the limit of {}", from.limit_ms(), kLongestLease.count());
  const size_t limit = part == Part::kRace ? kModuleLimit : kBlobLimit;
  return Lease{.lease = from.lease(),
               .trial = from.trial(),
               .attempt = from.attempt(),
               .limit_ms = from.limit_ms(),
               .workload = text(from.workload(), limits::kText, "lease.workload"),
               .trace = text(from.trace(), limits::kText, "lease.trace"),
               .target = text(from.target(), limits::kTarget, "lease.target"),
               .evaluation = get(from.evaluation()),
               .seed = from.seed(),
               .part = part,
               .artifact = is_built ? get(from.artifact(), "lease.artifact", limit) : Blob(),
               .reference = is_built ? get(from.reference(), "lease.reference", limit) : Blob(),
               .job = from.job(),
               .workload_id = from.workload_id()};
}

void put(const Result& from, pb::Envelope& envelope) {
  auto& to = *envelope.mutable_result();
  to.set_lease(from.lease);
  to.set_trial(from.trial);
  to.set_attempt(from.attempt);
  to.set_outcome(static_cast<uint32_t>(from.outcome));
  to.mutable_samples()->Add(from.samples.begin(), from.samples.end());
  to.set_message(from.message);
  to.set_signal(from.signal);
  to.set_relative_error(from.relative_error);
  to.set_build_seconds(from.build_seconds);
  to.set_run_seconds(from.run_seconds);
  to.set_artifact(from.artifact);
  if (from.celsius) to.set_celsius(*from.celsius);
  to.set_timer_seconds(from.timer_seconds);
  // Nothing is said where nothing was measured, as by workers of version 1.
  if (from.disturbance == Disturbance{}) return;
  to.mutable_disturbance()->set_taken(from.disturbance.taken);
  to.mutable_disturbance()->set_disturbed(from.disturbance.disturbed);
  to.mutable_disturbance()->set_canary(from.disturbance.canary);
  to.mutable_disturbance()->set_clock_hz(from.disturbance.clock_hz);
}

Message get(const pb::Result& from) {
  if (static_cast<size_t>(from.samples_size()) > limits::kSamples)
    fail("result.samples has {} entries, more than the limit of {}", from.samples_size(), limits::kSamples);
  for (float sample : from.samples()) finite(sample, "result.samples");
  // A later outcome is refused, not taken for the nearest one: terminal states are kept for ever.
  const auto outcome = enumerator(from.outcome(), Outcome::kInvalidTrace, "result.outcome");
  // Who reads a result goes by its outcome and counts on samples, or goes by samples: the two agree.
  if ((outcome == Outcome::kOk) != (from.samples_size() > 0))
    fail("result.samples has {} entries for outcome {}", from.samples_size(), to_string(outcome));
  // A wrong result may differ by infinity or NaN; only its class matters then.
  const double error = from.relative_error();
  return Result{.lease = from.lease(),
                .trial = from.trial(),
                .attempt = from.attempt(),
                .outcome = outcome,
                .samples = {from.samples().begin(), from.samples().end()},
                .message = text(from.message(), kMessageLimit, "result.message"),
                .signal = from.signal(),
                .relative_error = outcome == Outcome::kOk ? finite(error, "result.relative_error") : error,
                .build_seconds = finite(from.build_seconds(), "result.build_seconds"),
                .run_seconds = finite(from.run_seconds(), "result.run_seconds"),
                .artifact = text(from.artifact(), kNameLimit, "result.artifact"),
                .disturbance = {.taken = from.disturbance().taken(),
                                .disturbed = from.disturbance().disturbed(),
                                .canary = finite(from.disturbance().canary(), "result.disturbance"),
                                .clock_hz = finite(from.disturbance().clock_hz(), "result.clock_hz")},
                .celsius = from.has_celsius() ? std::optional(temperature(from.celsius())) : std::nullopt,
                .timer_seconds = finite(from.timer_seconds(), "result.timer_seconds")};
}

void put(const Built& from, pb::Envelope& envelope) {
  auto& to = *envelope.mutable_built();
  to.set_lease(from.lease);
  to.set_trial(from.trial);
  to.set_attempt(from.attempt);
  put(from.artifact, *to.mutable_artifact());
  put(from.reference, *to.mutable_reference());
}

Message get(const pb::Built& from) {
  return Built{.lease = from.lease(),
               .trial = from.trial(),
               .attempt = from.attempt(),
               .artifact = get(from.artifact(), "built.artifact"),
               .reference = get(from.reference(), "built.reference")};
}

void put(const BlobGet& from, pb::Envelope& envelope) {
  envelope.mutable_blob_get()->set_lease(from.lease);
  envelope.mutable_blob_get()->set_digest(from.digest);
  envelope.mutable_blob_get()->set_offset(from.offset);
}

Message get(const pb::BlobGet& from) {
  return BlobGet{
      .lease = from.lease(), .digest = digest(from.digest(), "blob_get.digest"), .offset = from.offset()};
}

void put(const BlobChunk& from, pb::Envelope& envelope) {
  auto& to = *envelope.mutable_blob_chunk();
  to.set_digest(from.digest);
  to.set_offset(from.offset);
  to.set_bytes(from.bytes);
}

Message get(const pb::BlobChunk& from) {
  return BlobChunk{.digest = digest(from.digest(), "blob_chunk.digest"),
                   .offset = from.offset(),
                   .bytes = text(from.bytes(), kChunkBytes, "blob_chunk.bytes")};
}

void put(const Canary& from, pb::Envelope& envelope) {
  auto& to = *envelope.mutable_canary();
  to.set_number(from.number);
  to.set_kernels(from.kernels);
  to.set_compute_seconds(from.compute_seconds);
  to.set_memory_seconds(from.memory_seconds);
}

Message get(const pb::Canary& from) {
  return Canary{.number = from.number(),
                .kernels = from.kernels(),
                .compute_seconds = finite(from.compute_seconds(), "canary.compute_seconds"),
                .memory_seconds = finite(from.memory_seconds(), "canary.memory_seconds")};
}

void put(const ResultAck& from, pb::Envelope& envelope) {
  auto& to = *envelope.mutable_result_ack();
  to.set_lease(from.lease);
  to.set_verdict(static_cast<uint32_t>(from.verdict));
  to.set_incumbent_seconds(from.incumbent_seconds);
}

Message get(const pb::ResultAck& from) {
  return ResultAck{.lease = from.lease(),
                   .verdict = enumerator(from.verdict(), ResultAck::Verdict::kStale, "result_ack.verdict"),
                   .incumbent_seconds = finite(from.incumbent_seconds(), "result_ack.incumbent_seconds")};
}

void put(const Heartbeat& from, pb::Envelope& envelope) {
  auto& to = *envelope.mutable_heartbeat();
  to.mutable_holding()->Add(from.holding.begin(), from.holding.end());
  to.set_epoch(from.epoch);
}

Message get(const pb::Heartbeat& from) {
  return Heartbeat{.holding = leases(from.holding(), "heartbeat.holding"), .epoch = from.epoch()};
}

void put(const Cancel& from, pb::Envelope& envelope) { envelope.mutable_cancel()->set_lease(from.lease); }

Message get(const pb::Cancel& from) { return Cancel{.lease = from.lease()}; }

void put(const Drain& from, pb::Envelope& envelope) {
  envelope.mutable_drain()->mutable_returned()->Add(from.returned.begin(), from.returned.end());
}

Message get(const pb::Drain& from) { return Drain{.returned = leases(from.returned(), "drain.returned")}; }

void put(const Bye& from, pb::Envelope& envelope) {
  envelope.mutable_bye()->mutable_returned()->Add(from.returned.begin(), from.returned.end());
}

Message get(const pb::Bye& from) { return Bye{.returned = leases(from.returned(), "bye.returned")}; }

void put(const Refusal& from, pb::Envelope& envelope) {
  envelope.mutable_error()->set_code(static_cast<uint32_t>(from.code));
  envelope.mutable_error()->set_text(from.text);
}

Message get(const pb::Error& from) {
  return Refusal{.code = enumerator(from.code(), Refusal::Code::kPaused, "error.code"),
                 .text = text(from.text(), kMessageLimit, "error.text")};
}

}  // namespace

std::string encode(const Message& message) {
  pb::Envelope envelope;
  std::visit([&](const auto& body) { put(body, envelope); }, message);
  return envelope.SerializeAsString();
}

// Whatever the bytes, a message or an Error: fuzzed (tests/fuzz).
Message decode(std::string_view frame) {
  if (frame.size() > kFrameLimit)
    fail("message: {} bytes, more than the limit of {}", frame.size(), kFrameLimit);
  pb::Envelope envelope;
  // protobuf counts in int, which the limit of a frame is far below.
  if (!envelope.ParseFromArray(frame.data(), static_cast<int>(frame.size())))
    fail("message: {} bytes that are no envelope of this protocol", frame.size());
  switch (envelope.body_case()) {
    case pb::Envelope::kHello:
      return get(envelope.hello());
    case pb::Envelope::kWelcome:
      return get(envelope.welcome());
    case pb::Envelope::kCredit:
      return get(envelope.credit());
    case pb::Envelope::kLease:
      return get(envelope.lease());
    case pb::Envelope::kResult:
      return get(envelope.result());
    case pb::Envelope::kResultAck:
      return get(envelope.result_ack());
    case pb::Envelope::kHeartbeat:
      return get(envelope.heartbeat());
    case pb::Envelope::kCancel:
      return get(envelope.cancel());
    case pb::Envelope::kDrain:
      return get(envelope.drain());
    case pb::Envelope::kBye:
      return get(envelope.bye());
    case pb::Envelope::kError:
      return get(envelope.error());
    case pb::Envelope::kBuilt:
      return get(envelope.built());
    case pb::Envelope::kBlobGet:
      return get(envelope.blob_get());
    case pb::Envelope::kBlobChunk:
      return get(envelope.blob_chunk());
    case pb::Envelope::kCanary:
      return get(envelope.canary());
    case pb::Envelope::BODY_NOT_SET:
      break;
  }
  fail("message: an envelope with no body this version knows");
}

std::string fault_of(const Evaluation& e) {
  // Pools and sets of processors are made of it.
  if (e.threads < 1 || e.threads > kMostThreads)
    return fmt::format("evaluation.threads is {}, must be 1..{}", e.threads, kMostThreads);
  if (const uint32_t samples = std::max(e.min_samples, e.max_samples); samples > limits::kSamples)
    return fmt::format("evaluation.max_samples is {}, more than the limit of {}", samples, limits::kSamples);
  struct Number {
    const char* name;
    double value, most;
  };
  constexpr double kAny = std::numeric_limits<double>::max();
  for (const Number& number : std::initializer_list<Number>{
           {"budget_seconds", e.budget_seconds, kLongestStage},
           {"relative_interval", e.relative_interval, kAny},
           {"incumbent_seconds", e.incumbent_seconds, kAny},
           {"tolerance", e.tolerance, kAny},
           {"build_limit_seconds", e.build_limit_seconds, kLongestStage},
           {"run_limit_seconds", e.run_limit_seconds, kLongestStage},
       })
    // NaN compares false.
    if (!(number.value >= 0 && number.value <= number.most))
      return fmt::format(
          "evaluation.{} is {}, must be {}", number.name, number.value,
          number.most < kAny ? fmt::format("0..{}", number.most) : "a finite number, at least 0");
  if (e.dims.size() > kDimsLimit)
    return fmt::format("evaluation.dims has {} entries, more than {}", e.dims.size(), kDimsLimit);
  for (const int64_t dim : e.dims)
    if (dim < 0) return fmt::format("evaluation.dims has {}", dim);
  return "";
}

std::string_view name_of(const Message& message) {
  static constexpr std::string_view kNames[] = {
      "HELLO", "WELCOME", "CREDIT", "LEASE", "RESULT",   "RESULT_ACK", "HEARTBEAT", "CANCEL",
      "DRAIN", "BYE",     "ERROR",  "BUILT", "BLOB_GET", "BLOB_CHUNK", "CANARY"};
  static_assert(std::size(kNames) == std::variant_size_v<Message>);
  return kNames[message.index()];
}

}  // namespace lathe::wire
