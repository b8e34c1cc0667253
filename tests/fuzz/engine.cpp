// A small fuzzer for g++, which has no libFuzzer: mutates inputs and keeps those that reach new code, as told
// by the calls that -fsanitize-coverage=trace-pc (the `fuzz` preset) puts at every branch. Without that
// option it still mutates the seeds, and serves as a short test.
//
//   fuzz_NAME SECONDS              from a seed of its own, which it prints
//   fuzz_NAME SECONDS --seed N     the same inputs again, as far as it comes
//   fuzz_NAME SECONDS FILE...      only those files: to repeat a finding
//
// A finding leaves its input in crash-PID beside it.
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "core/support/error.h"
#include "core/support/file.h"
#include "tests/fuzz/fuzz.h"

extern "C" __attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)());

namespace {

constexpr size_t kEdges = 1 << 16;
constexpr unsigned kSecondsForOne = 20;
std::array<uint8_t, kEdges> edges;  // reached by the current input
uintptr_t last_place = 0;

}  // namespace

extern "C" void __sanitizer_cov_trace_pc() {
  auto place = reinterpret_cast<uintptr_t>(__builtin_return_address(0));
  edges[(place ^ (last_place << 5)) % kEdges] = 1;
  last_place = place;
}

namespace lathe::fuzz {
namespace {

std::string current;

void save_current() {
  char name[64];
  std::snprintf(name, sizeof name, "crash-%d", getpid());
  int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (fd < 0 || write(fd, current.data(), current.size()) < 0) return;
  std::fprintf(stderr, "fuzz: the input is in %s (%zu bytes)\n", name, current.size());
}

extern "C" void on_death(int signal) {
  save_current();
  std::signal(signal, SIG_DFL);
  raise(signal);
}

void catch_signals() {
  // What overflows the stack has none left for the handler.
  static std::array<char, 1 << 16> stack;
  stack_t other{};
  other.ss_sp = stack.data(), other.ss_size = stack.size();
  sigaltstack(&other, nullptr);
  struct sigaction action {};
  action.sa_handler = on_death;
  action.sa_flags = SA_ONSTACK;
  for (int signal : {SIGABRT, SIGALRM, SIGFPE, SIGILL}) sigaction(signal, &action, nullptr);
  // A sanitizer says more of these two than we could.
  if (__sanitizer_set_death_callback) return __sanitizer_set_death_callback(save_current);
  for (int signal : {SIGBUS, SIGSEGV}) sigaction(signal, &action, nullptr);
}

void run(std::string input) {
  current = std::move(input);
  last_place = 0;
  alarm(kSecondsForOne);
  try {
    run_one(current);
  } catch (const Error&) {
  }
}

class Engine {
 public:
  explicit Engine(uint64_t seed) : random_(seed) {
    for (std::string& input : seeds()) consider(std::move(input), /*kept=*/true);
    if (corpus_.empty()) corpus_.emplace_back();
  }

  void step() { consider(mutated()); }

  void report() const {
    std::printf("fuzz: %ld runs, %zu inputs kept, %zu edges reached\n", runs_, corpus_.size(),
                reached_count_);
  }

 private:
  size_t below(size_t n) { return random_() % n; }
  const std::string& any_input() { return corpus_[below(corpus_.size())]; }

  /// Runs the input and keeps it when it reached something new, or in any case.
  void consider(std::string input, bool kept = false) {
    edges.fill(0);
    run(std::move(input));
    ++runs_;
    bool fresh = kept;
    for (size_t i = 0; i < kEdges; ++i)
      if (edges[i] && !reached_[i]) {
        reached_[i] = 1;
        ++reached_count_;
        fresh = true;
      }
    if (fresh) corpus_.push_back(current);
  }

  std::string mutated() {
    std::string bytes = any_input();
    for (size_t changes = 1 + below(4); changes > 0; --changes) mutate(bytes);
    return bytes;
  }

  void mutate(std::string& bytes) {
    size_t at = below(bytes.size() + 1), length = 1 + below(below(8) ? 8 : 200);
    switch (below(6)) {
      case 0:  // another byte
        if (at < bytes.size()) bytes[at] = static_cast<char>(random_());
        break;
      case 1:  // one bit
        if (at < bytes.size()) bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
        break;
      case 2:
        bytes.erase(at, length);
        break;
      case 3: {  // a piece of any input
        const std::string& other = any_input();
        bytes.insert(at, other.substr(below(other.size() + 1), length));
        break;
      }
      case 4:  // a piece again and again
        for (size_t n = below(20); n > 0 && bytes.size() < 1 << 16; --n)
          bytes.insert(at, bytes.substr(at, length));
        break;
      case 5: {  // a number that programs trip over
        constexpr std::array<const char*, 8> kNumbers = {
            "0", "-1", "255", "65536", "4294967296", "9223372036854775807", "1e999", "-9223372036854775808"};
        bytes.replace(at, std::min(bytes.size() - at, below(3)), kNumbers[below(kNumbers.size())]);
        break;
      }
    }
  }

  std::mt19937_64 random_;
  std::vector<std::string> corpus_;
  std::array<uint8_t, kEdges> reached_{};
  size_t reached_count_ = 0;
  long runs_ = 0;
};

}  // namespace
}  // namespace lathe::fuzz

int main(int argc, char** argv) {
  using namespace lathe::fuzz;
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s SECONDS [--seed N | FILE...]\n", argv[0]);
    return 2;
  }
  catch_signals();
  bool seeded = argc == 4 && std::string_view(argv[2]) == "--seed";
  for (int i = 2; i < argc && !seeded; ++i) run(lathe::read_file(argv[i]));
  if (argc > 2 && !seeded) return 0;
  uint64_t seed = seeded ? std::strtoull(argv[3], nullptr, 10) : std::random_device{}();
  std::printf("fuzz: seed %llu\n", static_cast<unsigned long long>(seed));
  std::fflush(stdout);
  Engine engine(seed);
  auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(std::atof(argv[1]));
  while (std::chrono::steady_clock::now() < end) engine.step();
  engine.report();
}
