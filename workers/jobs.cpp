#include "workers/jobs.h"

#include <cmath>

#include "core/support/digest.h"
#include "core/support/error.h"
#include "core/support/record_limits.h"
#include "jobs.pb.h"
#include "tracker/defaults.h"

namespace lathe::worker {
namespace {

// Far below 63 bits: sizes are added up and multiplied later, and none of it may overflow.
constexpr int64_t kBytesLimit = int64_t{1} << 36;

void put(const BufferSpec& from, pb::Buffer& to) {
  to.mutable_shape()->Add(from.shape.begin(), from.shape.end());
  to.set_code(static_cast<uint32_t>(from.dtype.code));
  to.set_bits(from.dtype.bits);
  to.set_output(from.output);
  to.set_constant(from.constant);
}

void put(const KernelSpec& from, pb::Kernel& to) {
  to.set_symbol(from.symbol);
  to.set_workspace_bytes(from.workspace_bytes);
  to.mutable_params()->Add(from.params.begin(), from.params.end());
}

void put(const Sizes& from, pb::Sizes& to) {
  to.mutable_dims()->Add(from.dims.begin(), from.dims.end());
  to.set_workspace_bytes(from.workspace_bytes);
  for (const BufferSpec& buffer : from.buffers) put(buffer, *to.add_buffers());
}

void put(const Artifact& from, pb::Artifact& to) {
  to.set_object(from.object);
  to.set_digest(from.digest);
  put(from.main, *to.mutable_main());
  if (from.prologue) put(*from.prologue, *to.mutable_prologue());
  for (const BufferSpec& buffer : from.buffers) put(buffer, *to.add_buffers());
  for (const BufferSpec& buffer : from.made) put(buffer, *to.add_made());
  to.mutable_dims()->Add(from.dims.begin(), from.dims.end());
  for (const Sizes& sizes : from.checked) put(sizes, *to.add_checked());
}

BufferSpec get(const pb::Buffer& from) {
  // Before the casts: an enumerator that does not exist is undefined behaviour further on.
  const bool is_known = from.code() <= static_cast<uint32_t>(TypeCode::kBool) && from.bits() <= 64;
  const DataType dtype = is_known
                             ? DataType{static_cast<TypeCode>(from.code()), static_cast<uint8_t>(from.bits())}
                             : DataType{.bits = 0};
  // Types are those that have a name. Of another width a tensor would write wider elements than it has room
  // for.
  if (parse_dtype(to_string(dtype)) != dtype)
    fail("artifact: a buffer of type {}, {} bits", from.code(), from.bits());
  BufferSpec buffer{.shape = {from.shape().begin(), from.shape().end()},
                    .dtype = dtype,
                    .output = from.output(),
                    .constant = from.constant()};
  int64_t bytes = buffer.dtype.bytes();
  for (int64_t extent : buffer.shape)
    if (extent < 0 || __builtin_mul_overflow(bytes, extent, &bytes) || bytes > kBytesLimit)
      fail("artifact: a buffer has too many elements");
  return buffer;
}

void require_workspace(int64_t bytes) {
  if (bytes < 0 || bytes > kBytesLimit) fail("artifact: a workspace of {} bytes", bytes);
}

/// Of an artifact with so many dimensions and buffers, which its kernels and params are bound to.
Sizes get(const pb::Sizes& from, size_t dims, size_t buffers) {
  Sizes sizes{.dims = {from.dims().begin(), from.dims().end()}, .workspace_bytes = from.workspace_bytes()};
  require_workspace(sizes.workspace_bytes);
  for (const pb::Buffer& buffer : from.buffers()) sizes.buffers.push_back(get(buffer));
  if (sizes.dims.size() != dims || sizes.buffers.size() != buffers)
    fail("artifact: {} dimensions and {} buffers to check, must be {} and {}", sizes.dims.size(),
         sizes.buffers.size(), dims, buffers);
  return sizes;
}

KernelSpec get(const pb::Kernel& from, size_t buffers) {
  KernelSpec kernel{.symbol = from.symbol(),
                    .workspace_bytes = from.workspace_bytes(),
                    .params = {from.params().begin(), from.params().end()}};
  require_workspace(kernel.workspace_bytes);
  for (uint32_t param : kernel.params)
    // It is an index into an array of pointers.
    if (param >= buffers) fail("artifact: a kernel takes buffer {} of {}", param, buffers);
  return kernel;
}

Artifact get(const pb::Artifact& from) {
  Artifact artifact{.object = from.object(), .digest = from.digest()};
  for (const pb::Buffer& buffer : from.buffers()) artifact.buffers.push_back(get(buffer));
  for (const pb::Buffer& buffer : from.made()) artifact.made.push_back(get(buffer));
  const size_t buffers = artifact.buffers.size() + artifact.made.size();
  artifact.main = get(from.main(), buffers);
  if (from.has_prologue()) artifact.prologue = get(from.prologue(), buffers);
  // A run digests what the prologue made; without one, main would read what nobody has written.
  if (from.has_prologue() == artifact.made.empty())
    fail("artifact: {} prologue, and {} buffers that it makes", from.has_prologue() ? "a" : "no",
         artifact.made.size());
  artifact.dims.assign(from.dims().begin(), from.dims().end());
  for (const pb::Sizes& sizes : from.checked())
    artifact.checked.push_back(get(sizes, artifact.dims.size(), artifact.buffers.size()));
  return artifact;
}

/// Artifacts come from other machines, replies from children that may have been overwritten: sizes, indices
/// and outcomes are checked after this, not where they are used.
template <typename Message>
Message parse(std::string_view bytes) {
  Message message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    fail("{} bytes that are no {}", bytes.size(), message.GetTypeName());
  return message;
}

}  // namespace

int64_t BufferSpec::bytes() const {
  int64_t bytes = dtype.bytes();
  for (int64_t extent : shape) bytes *= extent;
  return bytes;
}

Artifact Artifact::at(size_t i) const {
  const Sizes& sizes = checked.at(i);
  Artifact artifact{.digest = digest,
                    .main = main,
                    .prologue = prologue,
                    .buffers = sizes.buffers,
                    .made = made,
                    .dims = sizes.dims};
  artifact.main.workspace_bytes = sizes.workspace_bytes;
  return artifact;
}

std::vector<BufferSpec> Artifact::all_buffers() const {
  std::vector<BufferSpec> all = buffers;
  for (const Sizes& sizes : checked) all.insert(all.end(), sizes.buffers.begin(), sizes.buffers.end());
  return all;
}

std::string encode(const BuildJob& job) {
  pb::BuildJob message;
  message.set_workload(job.workload);
  message.set_trace(job.trace);
  message.set_target(job.target);
  message.set_unscheduled(job.unscheduled);
  return message.SerializeAsString();
}

BuildJob decode_build_job(std::string_view bytes) {
  const auto message = parse<pb::BuildJob>(bytes);
  return {message.workload(), message.trace(), message.target(), message.unscheduled()};
}

std::string encode(const RunJob& job) {
  pb::RunJob message;
  put(job.artifact, *message.mutable_artifact());
  // An evaluation has its encoding already, as part of a lease.
  message.set_evaluation(wire::encode(wire::Lease{.evaluation = job.evaluation}));
  message.set_seed(job.seed);
  message.set_reference(job.reference);
  message.set_canary_seconds(job.canary_seconds);
  message.set_canary(job.canary);
  message.set_race(job.race);
  return message.SerializeAsString();
}

RunJob decode_run_job(std::string_view bytes) {
  const auto message = parse<pb::RunJob>(bytes);
  const wire::Message lease = wire::decode(message.evaluation());
  if (!std::holds_alternative<wire::Lease>(lease)) fail("run job: no evaluation");
  return {get(message.artifact()),
          std::get<wire::Lease>(lease).evaluation,
          message.seed(),
          message.reference(),
          message.canary_seconds(),
          message.canary(),
          message.race()};
}

std::string encode(const Reply& reply) {
  pb::Reply message;
  message.set_outcome(static_cast<uint32_t>(reply.outcome));
  message.set_message(reply.message);
  message.mutable_samples()->Add(reply.samples.begin(), reply.samples.end());
  message.set_relative_error(reply.relative_error);
  put(reply.artifact, *message.mutable_artifact());
  message.set_taken(reply.disturbance.taken);
  message.set_disturbed(reply.disturbance.disturbed);
  message.set_canary(reply.disturbance.canary);
  message.set_clock_hz(reply.disturbance.clock_hz);
  message.set_canary_seconds(reply.canary_seconds);
  message.mutable_kernels()->set_kernels(reply.canary.kernels);
  message.mutable_kernels()->set_compute_seconds(reply.canary.compute_seconds);
  message.mutable_kernels()->set_memory_seconds(reply.canary.memory_seconds);
  return message.SerializeAsString();
}

Reply decode_reply(std::string_view bytes) {
  const auto message = parse<pb::Reply>(bytes);
  // A child runs code that nobody has vetted: what a tracker would refuse goes no further.
  if (message.outcome() >= kOutcomeNames.size()) fail("reply: outcome {}", message.outcome());
  if (static_cast<size_t>(message.samples_size()) > limits::kSamples)
    fail("reply: {} samples", message.samples_size());
  for (float sample : message.samples())
    if (!(sample >= 0) || !std::isfinite(sample)) fail("reply: a sample of {} s", sample);
  const bool is_ok = message.outcome() == static_cast<uint32_t>(Outcome::kOk);
  if (is_ok && !(message.relative_error() >= 0 && std::isfinite(message.relative_error())))
    fail("reply: a relative error of {}", message.relative_error());
  for (double number : {message.canary(), message.canary_seconds(), message.clock_hz(),
                        message.kernels().compute_seconds(), message.kernels().memory_seconds()})
    if (!(number >= 0) || !std::isfinite(number)) fail("reply: a canary or clock of {}", number);
  return {.outcome = static_cast<Outcome>(message.outcome()),
          // Cut, not refused: the rest of the reply is good.
          .message = message.message().substr(0, defaults::kMessageLimit),
          .samples = {message.samples().begin(), message.samples().end()},
          .relative_error = message.relative_error(),
          .artifact = get(message.artifact()),
          .disturbance = {message.taken(), message.disturbed(), message.canary(), message.clock_hz()},
          .canary_seconds = message.canary_seconds(),
          .canary = {.kernels = message.kernels().kernels(),
                     .compute_seconds = message.kernels().compute_seconds(),
                     .memory_seconds = message.kernels().memory_seconds()}};
}

std::string encode(const Artifact& artifact) {
  pb::Artifact message;
  put(artifact, message);
  return message.SerializeAsString();
}

Artifact decode_artifact(std::string_view bytes) {
  Artifact artifact = get(parse<pb::Artifact>(bytes));
  // Not what it says of itself: caches and measurements go by it.
  artifact.digest = sha256(artifact.object);
  return artifact;
}

std::vector<int64_t> case_layout(const std::vector<BufferSpec>& buffers) {
  std::vector<int64_t> offsets = {0};
  for (const BufferSpec& buffer : buffers)
    // Each begins a page, so that it is aligned however it is mapped.
    offsets.push_back((offsets.back() + buffer.bytes() + 4095) / 4096 * 4096);
  return offsets;
}

}  // namespace lathe::worker
