// What a worker asks of its sandboxed children, and what they answer (jobs.proto is the encoding).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/support/dtype.h"
#include "core/support/outcome.h"
#include "tracker/wire/wire.h"

namespace lathe::worker {

/// A parameter of a workload: inputs first, then outputs. Or what a prologue makes.
struct BufferSpec {
  std::vector<int64_t> shape;
  DataType dtype;
  bool output = false;
  bool constant = false;  // bound when the model is built

  int64_t bytes() const;
  bool operator==(const BufferSpec&) const = default;
};

/// A LatheKernel of an artifact.
struct KernelSpec {
  std::string symbol;
  int64_t workspace_bytes = 0;
  std::vector<uint32_t> params;  // numbers of buffers: below buffers.size() one of these, then one of `made`

  bool operator==(const KernelSpec&) const = default;
};

/// A workload with open dimensions at some values of these: what differs from one to the next.
struct Sizes {
  std::vector<int64_t> dims;    // that main takes (core/runtime/kernel.h)
  int64_t workspace_bytes = 0;  // of main
  std::vector<BufferSpec> buffers;

  bool operator==(const Sizes&) const = default;
};

/// One built candidate: what a runner needs, and no compiler. The prologue, where there is one, runs once and
/// fills `made` from constants among the inputs (core/tir/prologue.h). Buffers and workspaces are of the
/// sizes that are timed.
struct Artifact {
  std::string object;  // the bytes of a shared object
  std::string digest;  // sha256 of them
  KernelSpec main;
  std::optional<KernelSpec> prologue;
  std::vector<BufferSpec> buffers;  // the workload's
  std::vector<BufferSpec> made;     // by the prologue, for main
  std::vector<int64_t> dims;        // that main takes; empty where none is open
  std::vector<Sizes> checked;       // at which it must be right too, before it is timed

  /// With the sizes of `checked[i]` for its own, and nothing to check; without its object.
  Artifact at(size_t i) const;
  /// Of all sizes, its own first: what a case holds.
  std::vector<BufferSpec> all_buffers() const;
};

struct BuildJob {
  std::string workload, trace, target;
  bool unscheduled = false;  // ignore the trace: this build makes the reference
};

struct RunJob {
  Artifact artifact;  // its object travels as a descriptor
  wire::Evaluation evaluation;
  uint64_t seed = 0;          // of the inputs
  bool reference = false;     // make the case instead of measuring against it
  double canary_seconds = 0;  // the best known (disturbance.h); 0: none
  bool canary = false;        // run the canary kernels (canary.h), and nothing else
  bool race = false;          // two modules in turn (module_race.h), and nothing else
};

/// Of a build: the artifact. Of a run: samples and error.
struct Reply {
  Outcome outcome = Outcome::kOk;
  std::string message;
  std::vector<float> samples;  // seconds
  double relative_error = 0;
  Artifact artifact;
  wire::Disturbance disturbance;
  // Of a job that asks for the canaries:
  double canary_seconds = 0;  // best_load_canary (disturbance.h)
  wire::Canary canary;
};

// The decoders throw Error on anything malformed or absurd.
std::string encode(const BuildJob& job);
std::string encode(const RunJob& job);
std::string encode(const Reply& reply);
std::string encode(const Artifact& artifact);  // as it travels from a builder to a runner
BuildJob decode_build_job(std::string_view bytes);
RunJob decode_run_job(std::string_view bytes);
Reply decode_reply(std::string_view bytes);
Artifact decode_artifact(std::string_view bytes);

/// A case file holds the inputs and the reference outputs of a workload, in the order of all its buffers,
/// each at the next multiple of 4096 bytes. Its offsets, and at the end its size.
std::vector<int64_t> case_layout(const std::vector<BufferSpec>& buffers);

}  // namespace lathe::worker
