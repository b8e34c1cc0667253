// Frames of the wire protocol, and the messages between a worker and its children.
#include "core/support/error.h"
#include "tests/fuzz/fuzz.h"
#include "tracker/wire/wire.h"
#include "workers/jobs.h"

namespace lathe::fuzz {

std::vector<std::string> seeds() {
  using namespace wire;
  const worker::Artifact artifact{.object = "elf",
                                  .digest = "d",
                                  .main = {.symbol = "k", .workspace_bytes = 64, .params = {1, 0}},
                                  .prologue = worker::KernelSpec{.symbol = "p", .params = {1}},
                                  .buffers = {{.shape = {2, 3}, .dtype = kFloat32, .output = true}},
                                  .made = {{.shape = {6}, .dtype = kFloat32, .constant = true}}};
  return {
      encode(Hello{.worker = "w", .device = "{}", .backends = {"cpu"}, .holding = {1, 2}}),
      encode(Lease{.lease = 1, .trial = 2, .workload = "w", .trace = "t", .target = "cpu", .seed = 3}),
      encode(Lease{
          .part = Part::kRun, .artifact = {std::string(64, 'a'), 9}, .reference = {std::string(64, 'b'), 9}}),
      encode(BlobChunk{std::string(64, 'a'), 0, "bytes"}),
      encode(Canary{1, 1, 1e-5, 2e-5}),
      encode(Result{.lease = 1, .trial = 2, .samples = {1e-3f, 2e-3f}, .message = "m", .artifact = "a"}),
      encode(Heartbeat{.holding = {1, 2, 3}, .epoch = 4}),
      encode(Refusal{Refusal::Code::kVersion, "no"}),
      worker::encode(worker::Reply{.samples = {1.0f}, .artifact = artifact}),
      worker::encode(worker::RunJob{.artifact = artifact}),
      worker::encode(worker::BuildJob{"w", "t", "cpu"})};
}

void run_one(std::string_view bytes) {
  const auto attempt = [&](auto decoder) {
    try {
      decoder(bytes);
    } catch (const Error&) {  // refused by this one; the next may take it
    }
  };
  attempt([](std::string_view text) {
    const std::string once = wire::encode(wire::decode(text));
    CHECK(wire::encode(wire::decode(once)) == once);
  });
  attempt([](std::string_view text) {
    const std::string once = worker::encode(worker::decode_reply(text));
    CHECK(worker::encode(worker::decode_reply(once)) == once);
  });
  attempt([](std::string_view text) { worker::decode_run_job(text); });
  attempt([](std::string_view text) { worker::decode_build_job(text); });
}

}  // namespace lathe::fuzz
