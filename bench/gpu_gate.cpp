// What `tune gate` counts on with a GPU, on a real one: its rule for the kind `cuda` (gate/kinds.cpp), its
// clock (workers/gpus.h) and its pairs of fresh processes, around kernels of this file until a target
// compiles for GPUs.
//
//   ./run bench gpu-gate [--gates 1] [--seconds 0.06] [--json FILE]
//
//   reading  what one reading of the clock takes, and adds to kernels that run between two of them.
//   clock    that the driver tells beside the one that kernels see themselves: their cycles by %globaltimer.
//   gates    of seven units: what is unchanged must pass, 3% more work fail, and the same instructions on
//            operands that draw more power must not fail.
//
// CUDA's driver and NVRTC are loaded at run time; without them, or a GPU, exit code 4. Exit code 1 when a
// verdict is another than it must be.
#include <dlfcn.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/flags.h"
#include "core/support/clock.h"
#include "core/support/error.h"
#include "core/support/file.h"
#include "core/support/statistics.h"
#include "core/support/temporary_folder.h"
#include "core/support/unfit.h"
#include "gate/gate.h"
#include "gate/kinds.h"
#include "workers/gpus.h"

namespace lathe::bench {
namespace {

using Clock = std::chrono::steady_clock;
using nlohmann::json;

// Each writes how many cycles its first block took, by its multiprocessor's counter, and how many
// nanoseconds. The products are of fragments in registers (mma.sync, PTX ISA 9.7.14): what draws most power,
// and no memory's.
constexpr const char* kKernels = R"(
typedef unsigned int u32;
typedef unsigned long long u64;
__device__ u64 nanoseconds() { u64 t; asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t)); return t; }

__device__ void multiply(float* out, u64 rounds, u32 seed) {
  u32 a[4], b[2], state = seed * (blockIdx.x * 1024 + threadIdx.x + 1);
  // Pairs of bfloat16 between 1 and 2 in size, of any sign and fraction; zeros for seed 0.
  for (int i = 0; i < 6; ++i) {
    state = state * 1664525u + 1013904223u;
    const u32 bits = seed ? (state & 0x807f807fu) | 0x3f803f80u : 0;
    if (i < 4) a[i] = bits; else b[i - 4] = bits;
  }
  float c[8][4] = {};
  for (u64 r = 0; r < rounds; ++r)
    #pragma unroll
    for (int k = 0; k < 8; ++k)
      asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
          : "+f"(c[k][0]), "+f"(c[k][1]), "+f"(c[k][2]), "+f"(c[k][3])
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  float sum = 0;
  for (int k = 0; k < 8; ++k) for (int i = 0; i < 4; ++i) sum += c[k][i];
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

__device__ void move(float4* out, u64 count, u32 block, u32 blocks) {
  // Of half a gibibyte, again and again, into another: far more than the cache.
  for (u64 i = block * (u64)blockDim.x + threadIdx.x; i < count; i += blocks * (u64)blockDim.x)
    out[i & ((1 << 25) - 1)] = out[(1 << 26) + (i & ((1 << 25) - 1))];
}

#define KERNEL(name, body)                                                                         \
  extern "C" __global__ void name(float* out, u64* times, u64 work, u32 seed) {                    \
    const long long cycles = clock64();                                                            \
    const u64 begun = nanoseconds();                                                               \
    body;                                                                                          \
    __syncthreads();                                                                               \
    if (blockIdx.x == 0 && threadIdx.x == 0) { times[0] = clock64() - cycles; times[1] = nanoseconds() - begun; } \
  }

KERNEL(spin, if (threadIdx.x == 0) while (clock64() - cycles < work))
KERNEL(multiply_, multiply(out, work, seed))
KERNEL(move_, move((float4*)out, work, blockIdx.x, gridDim.x))
// On each multiprocessor a block of the one and a block of the other.
KERNEL(both_, if (blockIdx.x < gridDim.x / 2) multiply(out, work, seed); else
  move((float4*)(out + (1 << 20)), work << 14, blockIdx.x - gridDim.x / 2, gridDim.x / 2))
)";

constexpr size_t kBytes = size_t{2} << 30;  // of device memory, of which copies use three quarters
constexpr double kSliceSeconds = 10e-3;     // as workers/module_run.cpp has it
constexpr double kWarmUpSeconds = 20e-3;
constexpr double kClockSeconds = 2;

/// A library that is there or not, and its functions by name.
class Library {
 public:
  explicit Library(std::initializer_list<const char*> names) {
    for (const char* name : names)
      if (!handle_) handle_ = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!handle_) throw Unfit(fmt::format("{}: no GPU of NVIDIA's can be used here", dlerror()));
  }
  /// Calls a function of C; throws Error for a result that is not 0. REQUIRES: arguments of its types.
  template <typename... Arguments>
  void call(const char* name, Arguments... arguments) const {
    auto function = reinterpret_cast<int (*)(Arguments...)>(dlsym(handle_, name));
    if (!function) throw Unfit(fmt::format("the driver has no {}", name));
    if (const int result = function(arguments...)) throw Unfit(fmt::format("{} gives {}", name, result));
  }

 private:
  void* handle_ = nullptr;
};

struct Kernel {
  const char* name;
  uint64_t work;  // its third argument
  uint32_t seed;
};

// CUdevice_attribute
constexpr int kProcessors = 16, kMajor = 75, kMinor = 76;

/// The first GPU with the kernels in it.
class Gpu {
 public:
  /// `code`: what code() gave another one; "": compiled.
  explicit Gpu(std::string code = "") : driver_({"libcuda.so.1"}), code_(std::move(code)) {
    driver_.call("cuInit", 0u);
    int device = 0, major = 0, minor = 0;
    driver_.call("cuDeviceGet", &device, 0);
    driver_.call("cuDeviceGetAttribute", &major, kMajor, device);
    driver_.call("cuDeviceGetAttribute", &minor, kMinor, device);
    driver_.call("cuDeviceGetAttribute", &processors_, kProcessors, device);
    void* context = nullptr;
    driver_.call("cuDevicePrimaryCtxRetain", &context, device);
    driver_.call("cuCtxSetCurrent", context);
    if (code_.empty()) code_ = compile(fmt::format("--gpu-architecture=sm_{}{}", major, minor));
    driver_.call("cuModuleLoadData", &module_, static_cast<const void*>(code_.data()));
    driver_.call("cuMemAlloc_v2", &memory_, kBytes);
    driver_.call("cuMemAlloc_v2", &times_, size_t{16});
    driver_.call("cuMemsetD8_v2", memory_, static_cast<unsigned char>(1), kBytes);
  }

  const std::string& code() const { return code_; }

  /// Launched and waited for. Seconds, as the host sees them.
  double run(const Kernel& kernel) {
    void* function = nullptr;
    driver_.call("cuModuleGetFunction", &function, module_, kernel.name);
    uint64_t work = kernel.work;
    uint32_t seed = kernel.seed;
    std::array<void*, 4> arguments = {&memory_, &times_, &work, &seed};
    const unsigned blocks = 2 * static_cast<unsigned>(processors_);
    const auto begun = Clock::now();
    driver_.call("cuLaunchKernel", function, blocks, 1u, 1u, 512u, 1u, 1u, 0u, static_cast<void*>(nullptr),
                 arguments.data(), static_cast<void**>(nullptr));
    driver_.call("cuCtxSynchronize");
    return seconds_since(begun);
  }

  /// The clock of the latest run, by its own counters.
  double hz() const {
    std::array<uint64_t, 2> told{};
    driver_.call("cuMemcpyDtoH_v2", static_cast<void*>(told.data()), times_, sizeof told);
    return 1e9 * static_cast<double>(told[0]) / static_cast<double>(told[1]);
  }

 private:
  static std::string compile(const std::string& architecture) {
    const Library nvrtc(
        {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", "/usr/local/cuda/lib64/libnvrtc.so"});
    void* program = nullptr;
    nvrtc.call("nvrtcCreateProgram", &program, kKernels, "kernels.cu", 0,
               static_cast<const char* const*>(nullptr), static_cast<const char* const*>(nullptr));
    const char* options[] = {architecture.c_str()};
    nvrtc.call("nvrtcCompileProgram", program, 1, static_cast<const char* const*>(options));
    size_t size = 0;
    nvrtc.call("nvrtcGetCUBINSize", program, &size);
    std::string code(size, '\0');
    nvrtc.call("nvrtcGetCUBIN", program, code.data());
    return code;
  }

  Library driver_;
  std::string code_;
  int processors_ = 0;
  void* module_ = nullptr;
  uint64_t memory_ = 0, times_ = 0;
};

std::unique_ptr<worker::GpuClock> driver_clock() {
  auto clock = worker::gpu_clock(*gate::kind_of("cuda").clock, "", worker::kNvmlLibrary);
  if (!clock) throw Unfit("the driver tells no clock");
  return clock;
}

// ---- what a reading costs, and whether it is right

// About a millisecond or two each.
constexpr Kernel kSpin{"spin", 2'000'000, 0}, kCopies{"move_", 1 << 26, 0}, kZeros{"multiply_", 1 << 13, 0},
    kProducts{"multiply_", 1 << 13, 1}, kBothOfZeros{"both_", 1 << 13, 0}, kBoth{"both_", 1 << 13, 1};

json readings(Gpu& gpu, const worker::GpuClock& clock) {
  std::vector<double> idle, busy, plain, read;
  for (int i = 0; i < 200; ++i) {
    const auto begun = Clock::now();
    clock.hz();
    idle.push_back(seconds_since(begun));
  }
  for (int i = 0; i < 100; ++i) gpu.run(kProducts);
  // In turn, neither always the second.
  for (int i = 0; i < 400; ++i) {
    const bool reads = (i ^ (i >> 1)) & 1;
    if (reads) {
      const auto begun = Clock::now();
      clock.hz();
      busy.push_back(seconds_since(begun));
    }
    (reads ? read : plain).push_back(gpu.run(kProducts));
  }
  const double cost = median(read) / median(plain) - 1;
  fmt::print(
      "reading  {:.0f} us idle, {:.0f} us between kernels of {:.2f} ms, which take {:+.2f}% after one\n",
      1e6 * median(idle), 1e6 * median(busy), 1e3 * median(plain), 100 * cost);
  return {{"idle_us", 1e6 * median(idle)}, {"busy_us", 1e6 * median(busy)}, {"kernel_after", cost}};
}

json clocks(Gpu& gpu, const worker::GpuClock& clock) {
  constexpr struct {
    const char* name;
    const Kernel& kernel;
  } kRows[] = {{"one waiting thread a block", kSpin}, {"copies", kCopies},
               {"products of zeros", kZeros},         {"products of numbers", kProducts},
               {"both, zeros", kBothOfZeros},         {"both, numbers", kBoth}};
  json rows = json::array();
  fmt::print("clock    {:<26}  {:>7}  {:>18}  {:>18}  {:>16}\n", "kernel", "ms", "seen, MHz", "told, MHz",
             "told / seen");
  for (const auto& row : kRows) {
    std::vector<double> ms, seen, told, shares;
    for (const auto begun = Clock::now(); seconds_since(begun) < kClockSeconds;) {
      const double seconds = gpu.run(row.kernel);
      // While it warms up the first half tells of the kernel before.
      if (seconds_since(begun) < kClockSeconds / 2) continue;
      ms.push_back(1e3 * seconds);
      seen.push_back(gpu.hz() / 1e6);
      told.push_back(clock.hz() / 1e6);
      shares.push_back(told.back() / seen.back());
    }
    const auto range = [](const std::vector<double>& values) {
      const auto [least, most] = std::minmax_element(values.begin(), values.end());
      return fmt::format("{:.0f} ({:.0f}..{:.0f})", median(values), *least, *most);
    };
    fmt::print("         {:<26}  {:7.3f}  {:>18}  {:>18}  {:>16.4f}\n", row.name, median(ms), range(seen),
               range(told), median(shares));
    rows.push_back({{"kernel", row.name}, {"ms", ms}, {"seen_mhz", seen}, {"told_mhz", told}});
  }
  return rows;
}

// ---- gates

struct Unit {
  const char* name;
  Kernel baseline, candidate;
  bool fails;
};

constexpr Kernel more(Kernel kernel) {
  kernel.work += kernel.work * 3 / 100;
  return kernel;
}

// The last does as much as it did, on operands whose bits change.
constexpr Unit kUnits[] = {
    {"products", kProducts, kProducts, false},
    {"products, 3% more", kProducts, more(kProducts), true},
    {"copies", kCopies, kCopies, false},
    {"copies, 3% more", kCopies, more(kCopies), true},
    {"both", kBoth, kBoth, false},
    {"both, 3% more", kBoth, more(kBoth), true},
    {"zeros to numbers", kBothOfZeros, kBoth, false},
};

/// What a fresh process sees, as module_run.cpp takes it: slices of which the fastest run counts.
gate::Process samples_of(const Kernel& kernel, const std::string& code, double seconds) {
  Gpu gpu(read_file(code));
  const auto clock = driver_clock();
  for (const auto begun = Clock::now(); seconds_since(begun) < kWarmUpSeconds;) gpu.run(kernel);
  gate::Process process;
  double hz = clock->hz();
  for (const auto start = Clock::now(); process.size() < 3 || seconds_since(start) < seconds;) {
    double least = INFINITY;
    for (const auto slice = Clock::now(); seconds_since(slice) < kSliceSeconds;)
      least = std::min(least, gpu.run(kernel));
    const double after = clock->hz();
    process.push_back({least, (hz + after) / 2});
    hz = after;
  }
  return process;
}

/// By this program again, for it must be a process of its own.
gate::Process in_a_process(const Kernel& kernel, const std::string& code, double seconds) {
  const std::string command = fmt::format("{} --run {} --work {} --seed {} --code {} --seconds {}",
                                          std::filesystem::read_symlink("/proc/self/exe").string(),
                                          kernel.name, kernel.work, kernel.seed, code, seconds);
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(("exec " + command).c_str(), "r"), pclose);
  if (!pipe) fail("cannot start {}", command);
  gate::Process process;
  worker::ClockedSample sample;
  while (fscanf(pipe.get(), "%lf %lf", &sample.seconds, &sample.hz) == 2) process.push_back(sample);
  if (process.empty()) fail("{} gave no samples", command);
  return process;
}

bool gate_once(uint64_t seed, const std::string& code, double seconds, json& told) {
  const gate::Rule& rule = gate::kind_of("cuda").rule;
  gate::Gate gate(rule, std::size(kUnits), seed);
  json pairs = json::array();
  while (const auto pair = gate.next()) {
    const Unit& unit = kUnits[pair->unit];
    gate::Process baseline, candidate;
    for (const bool second : {pair->candidate_first, !pair->candidate_first})
      (second ? candidate : baseline) = in_a_process(second ? unit.candidate : unit.baseline, code, seconds);
    json written = {{"unit", unit.name}};
    for (const auto& [side, process] : {std::pair("baseline", &baseline), {"candidate", &candidate}})
      for (const worker::ClockedSample& sample : *process)
        written[side].push_back({sample.seconds, sample.hz});
    pairs.push_back(std::move(written));
    gate.record(*pair, std::move(baseline), std::move(candidate));
  }
  bool right = true;
  fmt::print("{:<18}  {:<12}  {:>5}  {:>24}  {:>24}  {:>13}  {}\n", "unit", "verdict", "pairs", "time",
             "cycles", "MHz", "dropped");
  const auto share = [](const Location& ln) {
    return fmt::format("{:+.2f}% ({:+.2f} .. {:+.2f})", 100 * std::expm1(ln.centre), 100 * std::expm1(ln.low),
                       100 * std::expm1(ln.high));
  };
  for (size_t i = 0; i < std::size(kUnits); ++i) {
    const gate::Trial& trial = gate.trial(static_cast<int>(i));
    const gate::Verdict verdict = trial.verdict().value_or(gate::Verdict::kInconclusive);
    const bool as_it_must = (verdict == gate::Verdict::kFail) == kUnits[i].fails;
    right &= as_it_must;
    const gate::Clocks clocks = trial.clocks();
    fmt::print("{:<18}  {:<12}  {:5}  {:>24}  {:>24}  {:>5.0f} .. {:.0f}  {} of {}{}\n", kUnits[i].name,
               gate::to_string(verdict), trial.pairs(), trial.pairs() ? share(trial.ln_ratio()) : "",
               trial.pairs() && trial.ln_cycles() ? share(*trial.ln_cycles()) : "", clocks.baseline_hz / 1e6,
               clocks.candidate_hz / 1e6, clocks.dropped, clocks.taken, as_it_must ? "" : "  WRONG");
  }
  told.push_back(std::move(pairs));
  return right;
}

int run(int argc, char** argv) {
  int gates = 1;
  double seconds = 0.06;
  Kernel own{"", 0, 0};
  std::string kernel, file, code;
  Flags flags("What `tune gate` counts on with a GPU");
  flags.add("--gates", gates, 0, 1000, "how often all is gated");
  flags.add("--seconds", seconds, 0.03, 60.0, "of each process that are timed");
  flags.add("--json", file, "all samples, into this file");
  flags.add("--run", kernel, "for itself: one process of a pair");
  flags.hide("--run");
  flags.add("--work", own.work, 0, UINT64_MAX, "");
  flags.hide("--work");
  flags.add("--code", code, "");
  flags.hide("--code");
  flags.add("--seed", own.seed, 0, UINT32_MAX, "");
  flags.hide("--seed");
  flags.parse(argc, argv);
  if (!kernel.empty()) {
    own.name = kernel.c_str();
    for (const worker::ClockedSample& sample : samples_of(own, code, seconds))
      fmt::print("{} {}\n", sample.seconds, sample.hz);
    return 0;
  }
  const TemporaryFolder folder;
  code = folder / "kernels.cubin";
  json told;
  {
    Gpu gpu;
    write_file(code, gpu.code());
    const auto clock = driver_clock();
    fmt::print("{}\n", clock->name());
    told = {{"gpu", clock->name()},
            {"reading", readings(gpu, *clock)},
            {"clock", clocks(gpu, *clock)},
            {"gates", json::array()}};
  }
  bool right = true;
  for (int i = 0; i < gates; ++i) right &= gate_once(static_cast<uint64_t>(i), code, seconds, told["gates"]);
  if (!file.empty()) write_file(file, told.dump() + "\n");
  return right ? 0 : 1;
}

}  // namespace
}  // namespace lathe::bench

int main(int argc, char** argv) {
  return lathe::bench::guarded_main(
      [](int count, char** words) {
        try {
          return lathe::bench::run(count, words);
        } catch (const lathe::Unfit& error) {
          fmt::print(stderr, "error: {}\n", error.what());
          return 4;
        }
      },
      argc, argv);
}
