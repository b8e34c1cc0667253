#include "workers/measure.h"

#include <sys/mman.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>

#include "core/runtime/kernel.h"
#include "core/runtime/shared_object.h"
#include "core/runtime/thread_pool.h"
#include "core/support/clock.h"
#include "core/support/error.h"
#include "core/support/node.h"
#include "core/support/tensor.h"
#include "workers/canary.h"
#include "workers/disturbance.h"
#include "workers/jobs.h"
#include "workers/module_race.h"
#include "workers/packets.h"
#include "workers/sampler.h"
#include "workers/stopwatch.h"

namespace lathe::worker {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kGap = 64;  // between buffers, to see writes beside them
// Bytes that are a NaN in all types of floats: what a kernel leaves unwritten is no right answer by chance.
constexpr uint8_t kGapByte = 0xa5, kNanByte = 0xff;

/// The case file in memory: all buffers of an artifact.
class Case {
 public:
  Case(int descriptor, const std::vector<BufferSpec>& buffers, bool writable)
      : offsets_(case_layout(buffers)) {
    const auto size = static_cast<size_t>(offsets_.back());
    // Beyond the end of a file a mapping ends in SIGBUS.
    // The file is this machine's, but the buffers are as the artifact says, which may have
    // come over the network.
    if (lseek(descriptor, 0, SEEK_END) < offsets_.back() && !writable)
      fail("the case file is smaller than the kernel's buffers");
    if (writable && ftruncate(descriptor, offsets_.back()) != 0) fail("case file: {}", strerror(errno));
    if (size == 0) return;
    // Never unmapped: the process ends with its task.
    void* memory =
        mmap(nullptr, size, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, descriptor, 0);
    if (memory == MAP_FAILED) fail("case file: {}", strerror(errno));
    memory_ = static_cast<char*>(memory);
  }
  char* buffer(size_t index) const { return memory_ + offsets_[first_ + index]; }
  /// Of other sizes: what is called buffer 0 from now on.
  void begin_at(size_t first) { first_ = first; }

 private:
  std::vector<int64_t> offsets_;
  size_t first_ = 0;
  char* memory_ = nullptr;
};

/// A kernel of an object with its arguments.
struct BoundKernel {
  LatheKernel kernel;
  std::vector<void*> arguments;

  BoundKernel(const runtime::SharedObject& object, const KernelSpec& spec, const std::vector<void*>& buffers)
      : kernel(reinterpret_cast<LatheKernel>(object.find(spec.symbol.c_str()))) {
    if (!kernel) fail("the shared object has no symbol {}", spec.symbol);
    for (uint32_t param : spec.params) arguments.push_back(buffers[param]);
  }
};

/// From a number to the next, relative to it, at most, in the coarsest type of `buffers`: by so much two
/// right results may differ. Inputs count like outputs: what is computed from 16 bits may be rounded to 16
/// bits on its way to a wider result (tiles of Winograd's algorithm are). Of 32 bits and more: 0.
double relative_step(const std::vector<BufferSpec>& buffers) {
  double step = 0;
  for (const BufferSpec& buffer : buffers) {
    if (buffer.dtype.element() == kBFloat16) step = std::max(step, 0x1p-7);
    if (buffer.dtype.element() == kFloat16) step = std::max(step, 0x1p-10);
  }
  return step;
}

/// The loaded kernels with their own copies of the buffers, laid out one after the other as the runtime's
/// arena would.
class Bench {
 public:
  /// `artifact` outlives it.
  Bench(const Artifact& artifact, int threads, int object)
      : artifact_(artifact),
        buffers_(artifact.buffers),
        made_(artifact.made),
        object_(runtime::SharedObject::from_file(object)),
        threads_(threads) {
    // One workspace for both: the prologue is done before the kernel starts.
    allocate(
        std::max(artifact.main.workspace_bytes, artifact.prologue ? artifact.prologue->workspace_bytes : 0));
    main_.emplace(object_, artifact.main, pointers_);
    if (artifact.prologue) prologue_.emplace(object_, *artifact.prologue, pointers_);
    // Pinned, each thread to its core: a move in the middle of a run would be measured.
    if (threads_ > 1) pool_ = std::make_unique<runtime::ThreadPool>(threads_, /*pin=*/true);
    parallel_ = pool_ ? pool_->parallel() : runtime::serial_parallel();
    const long l2 = sysconf(_SC_LEVEL2_CACHE_SIZE);
    // Twice, for caches do not forget strictly in order. Some systems do not say the size.
    evict_bytes_ = 2 * std::max<int64_t>(l2, 1 << 20);
  }

  int32_t run() {
    return main_->kernel(main_->arguments.data(), workspace_, parallel_, artifact_.dims.data());
  }

  /// Makes what main takes in place of constants. REQUIRES: inputs are filled.
  int32_t run_prologue() {
    if (!prologue_) return 0;
    // NaN first, so that a prologue that leaves something out is found.
    for_each_made([](void* made, size_t bytes, size_t) { memset(made, kNanByte, bytes); });
    const int32_t code = prologue_->kernel(prologue_->arguments.data(), workspace_, parallel_, nullptr);
    for_each_made([&](const void* made, size_t bytes, size_t) { digests_.push_back(digest(made, bytes)); });
    return code;
  }

  /// Reads a buffer of twice L2 on every thread of the team.
  void evict_caches() {
    if (!evict_.defined()) evict_ = zeros({evict_bytes_ * threads_}, kUInt8);
    parallel_->launch(
        parallel_->pool,
        // One part a thread: each core has caches of its own to empty.
        [](void* self, int64_t begin, int64_t end) {
          const Bench& bench = *static_cast<Bench*>(self);
          const uint64_t* words = reinterpret_cast<const uint64_t*>(bench.evict_.as<uint8_t>());
          const int64_t stride = 8, words_each = bench.evict_bytes_ / 8;  // a word of each cache line
          uint64_t sum = 0;
          for (int64_t i = begin * words_each; i < end * words_each; i += stride) sum += words[i];
          // So that no compiler finds the reads useless.
          static std::atomic<uint64_t> sink;
          sink.fetch_add(sum, std::memory_order_relaxed);
        },
        this, threads_);
  }

  /// Sends what main reads of constants back to memory, where the processor lets us.
  void flush_constants() {
    for (uint32_t param : artifact_.main.params) {
      if (!spec(param).constant) continue;
#if defined(__x86_64__)
      const char* at = static_cast<const char*>(pointers_[param]);
      for (const char* end = at + spec(param).bytes(); at < end; at += runtime::kAlignment) _mm_clflush(at);
#endif
    }
  }

  void fill_inputs(const Case& from) {
    for_each(false, [&](size_t i, size_t bytes) { memcpy(pointers_[i], from.buffer(i), bytes); });
  }
  void poison_outputs() {
    for_each(true, [&](size_t i, size_t bytes) { memset(pointers_[i], kNanByte, bytes); });
  }
  void store_outputs(const Case& to) {
    for_each(true, [&](size_t i, size_t bytes) { memcpy(to.buffer(i), pointers_[i], bytes); });
  }

  bool inputs_changed(const Case& from) const {
    bool changed = false;
    // A kernel that scribbles over an input would spoil other operators of a model, with its
    // own result right.
    for_each(false,
             [&](size_t i, size_t bytes) { changed |= memcmp(pointers_[i], from.buffer(i), bytes) != 0; });
    for_each_made(
        [&](const void* made, size_t bytes, size_t k) { changed |= digest(made, bytes) != digests_.at(k); });
    return changed;
  }

  bool gaps_changed() const {
    const auto* bytes = arena_.as<uint8_t>();
    bool changed = false;
    const auto check = [&](const char* from, const char* to) {
      for (const char* p = from; p < to; ++p) changed |= static_cast<uint8_t>(*p) != kGapByte;
    };
    const char* at = reinterpret_cast<const char*>(bytes);
    for (size_t i = 0; i < pointers_.size(); ++i) {
      check(at, static_cast<char*>(pointers_[i]));
      at = static_cast<char*>(pointers_[i]) + spec(i).bytes();
    }
    check(at, static_cast<char*>(workspace_));
    return changed;
  }

  /// The largest over all outputs, beyond relative_step.
  double error(const Case& reference) const {
    const double step = relative_step(buffers_);
    double worst = 0;
    for_each(true, [&](size_t i, size_t) {
      const Tensor got(buffers_[i].shape, buffers_[i].dtype, nullptr, pointers_[i]);
      const Tensor want(buffers_[i].shape, buffers_[i].dtype, nullptr, reference.buffer(i));
      const double e = max_relative_error(got, want);  // infinite where one of them is no number
      worst = std::max(worst, e <= step ? 0 : e - step);
    });
    return worst;
  }

 private:
  const BufferSpec& spec(size_t i) const {
    return i < buffers_.size() ? buffers_[i] : made_[i - buffers_.size()];
  }

  void allocate(int64_t workspace_bytes) {
    int64_t size = kGap;
    std::vector<int64_t> offsets;
    // As the runtime aligns them, with a gap on both sides of each, and of the workspace.
    for (size_t i = 0; i < buffers_.size() + made_.size(); ++i) {
      offsets.push_back(size);
      size = runtime::align_up(size + spec(i).bytes()) + kGap;
    }
    const int64_t workspace = size;
    size += runtime::align_up(workspace_bytes) + kGap;
    arena_ = Tensor({size}, kUInt8);
    memset(arena_.data(), kGapByte, static_cast<size_t>(size));
    for (int64_t offset : offsets) pointers_.push_back(arena_.as<char>() + offset);
    workspace_ = arena_.as<char>() + workspace;
  }

  static size_t digest(const void* data, size_t bytes) {
    // Within one process, so any hash will do: it finds accidents, not forgeries.
    return std::hash<std::string_view>{}({static_cast<const char*>(data), bytes});
  }

  template <typename Function>
  void for_each_made(Function function) const {
    for (size_t k = 0; k < made_.size(); ++k)
      function(pointers_[buffers_.size() + k], static_cast<size_t>(made_[k].bytes()), k);
  }

  template <typename Function>
  void for_each(bool outputs, Function function) const {
    for (size_t i = 0; i < buffers_.size(); ++i)
      if (buffers_[i].output == outputs) function(i, static_cast<size_t>(buffers_[i].bytes()));
  }

  const Artifact& artifact_;
  const std::vector<BufferSpec>&buffers_, &made_;
  runtime::SharedObject object_;
  std::optional<BoundKernel> main_, prologue_;
  Tensor arena_, evict_;
  std::vector<void*> pointers_;  // of buffers_, then of made_
  std::vector<size_t> digests_;  // of made_, as the prologue left them
  void* workspace_ = nullptr;
  int threads_;
  int64_t evict_bytes_ = 0;
  std::unique_ptr<runtime::ThreadPool> pool_;
  const LatheParallel* parallel_ = nullptr;
};

Reply returned(int32_t code) {
  return {.outcome = Outcome::kCrashed, .message = fmt::format("the kernel's check {} failed", code)};
}

/// Calls `f` with the artifact at its own sizes and at each that is checked, the first ones last, and `file`
/// at the buffers of these. The first reply that is not kOk ends it.
Reply for_each_size(const Artifact& artifact, Case& file, FunctionRef<Reply(const Artifact&)> f) {
  for (size_t i = 0; i < artifact.checked.size(); ++i) {
    file.begin_at((i + 1) * artifact.buffers.size());
    const Artifact at = artifact.at(i);
    Reply reply = f(at);
    if (reply.outcome == Outcome::kOk) continue;
    reply.message += fmt::format(", at {}", shape_text(at.dims));
    return reply;
  }
  file.begin_at(0);
  return f(artifact);
}

Reply make_case(const RunJob& job, const Artifact& artifact, int object, const Case& file) {
  for (size_t i = 0; i < artifact.buffers.size(); ++i) {
    const BufferSpec& buffer = artifact.buffers[i];
    if (buffer.output) continue;
    // Seeds are the lease's, so that all candidates of a workload have the same inputs.
    // A seed of its own: two equal inputs would hide that a kernel takes one for the other.
    const Tensor values = random_tensor(buffer.shape, buffer.dtype, job.seed + i);
    memcpy(file.buffer(i), values.data(), static_cast<size_t>(buffer.bytes()));
  }
  Bench bench(artifact, static_cast<int>(job.evaluation.threads), object);
  bench.fill_inputs(file);
  // Tables that read nothing are made ahead even where no param is constant.
  if (const int32_t code = bench.run_prologue()) return returned(code);
  if (const int32_t code = bench.run()) return returned(code);
  bench.store_outputs(file);
  return {};
}

Reply time_kernel(Bench& bench, const RunJob& job, Child& child) {
  const wire::Evaluation& evaluation = job.evaluation;
  const std::unique_ptr<LoadProbe> load = system_load();
  LoadWatch watch(*load, job.canary_seconds);
  // From here on this machine's builders stand still and no other measurement runs: as short as can be.
  child.open_window();
  const auto start = Clock::now();
  // Results were checked before, so what these return is not looked at.
  for (uint32_t i = 0; i < evaluation.warmup; ++i) bench.run();
  Sampler sampler(evaluation);
  do {
    // As in a model whose weights do not fit in the caches.
    if (evaluation.far_weights) bench.flush_constants();
    if (evaluation.cold_cache) bench.evict_caches();
    // After caches are put into order, which takes time on the same core.
    watch.begin();
    const auto before = Clock::now();
    const int32_t code = bench.run();
    const double seconds = seconds_since(before);
    sampler.add(seconds, watch.end());
    // Without close_window(): the supervisor closes it with the child.
    if (code != 0) return returned(code);
  } while (!sampler.done(seconds_since(start)));
  wire::Disturbance disturbance = watch.seen();
  // While the core is still as warm as during the samples, and nobody else is timed.
  disturbance.clock_hz = clock_hz();
  child.close_window();
  return {.samples = sampler.samples(), .disturbance = disturbance};
}

/// Runs once and compares: kWrongResult, or kOk with the error.
Reply check(Bench& bench, const RunJob& job, const Case& file) {
  bench.fill_inputs(file);
  // Before it runs once, unmeasured: a wrong answer is never timed (M4).
  bench.poison_outputs();
  if (const int32_t code = bench.run_prologue()) return returned(code);
  if (const int32_t code = bench.run()) return returned(code);
  Reply wrong{.outcome = Outcome::kWrongResult, .relative_error = bench.error(file)};
  // Before the error: outputs may be right by the side of what was overwritten.
  if (bench.gaps_changed()) {
    wrong.message = "writes outside its buffers";
    return wrong;
  }
  if (bench.inputs_changed(file)) {
    wrong.message = "changes its inputs";
    return wrong;
  }
  if (!(wrong.relative_error <= job.evaluation.tolerance)) {
    wrong.message =
        fmt::format("outputs differ from the reference by {:.3g} of its largest value, tolerance {:.3g}",
                    wrong.relative_error, job.evaluation.tolerance);
    return wrong;
  }
  return {.relative_error = wrong.relative_error};
}

Reply measure(const RunJob& job, int object, Case& file, Child& child) {
  double error = 0;
  return for_each_size(job.artifact, file, [&](const Artifact& artifact) {
    Bench bench(artifact, static_cast<int>(job.evaluation.threads), object);
    Reply reply = check(bench, job, file);
    error = std::max(error, reply.relative_error);
    // Its own sizes come last: what is timed was right everywhere.
    if (reply.outcome == Outcome::kOk && &artifact == &job.artifact) reply = time_kernel(bench, job, child);
    reply.relative_error = error;
    return reply;
  });
}

}  // namespace

std::string run_body(std::string_view request, Child& child) {
  const RunJob job = decode_run_job(request);
  if (job.canary) {
    child.open_window();
    const wire::Canary canary = run_canaries();
    const double load_canary = best_load_canary();
    child.close_window();
    return encode(Reply{.canary_seconds = load_canary, .canary = canary});
  }
  if (job.race) return encode(race_modules(job, child));
  if (child.descriptors().size() != 2) fail("run: {} descriptors, must be 2", child.descriptors().size());
  const int object = child.descriptors()[0], case_file = child.descriptors()[1];
  Case file(case_file, job.artifact.all_buffers(), /*writable=*/job.reference);
  if (!job.reference) return encode(measure(job, object, file, child));
  return encode(for_each_size(
      job.artifact, file, [&](const Artifact& artifact) { return make_case(job, artifact, object, file); }));
}

}  // namespace lathe::worker
