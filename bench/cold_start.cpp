// One cold start: loads a module file, binds zeros, runs it once.
//   lathe-cold-start MODULE.lathe THREADS
// prints {"ms": from main() to the first result, "load_ms": of these before the run, "peak_bytes": of the
// whole process}. Links the runtime alone.
#include <sys/resource.h>

#include <chrono>
#include <iostream>
#include <string>

#include "core/runtime/executor.h"
#include "core/runtime/thread_pool.h"

namespace lathe {
namespace {

int start(int argc, char** argv) {
  using Clock = std::chrono::steady_clock;
  auto milliseconds = [](auto spent) { return std::chrono::duration<double, std::milli>(spent).count(); };
  if (argc != 3) fail("usage: lathe-cold-start MODULE.lathe THREADS");
  auto begin = Clock::now();
  runtime::ThreadPool pool(std::stoi(argv[2]));
  runtime::Executor executor(runtime::Module::open(argv[1]), pool.parallel());
  const runtime::Plan& plan = executor.plan();
  for (size_t i = 0; i < plan.inputs.size(); ++i) {
    const runtime::Value& value = plan.values[static_cast<size_t>(plan.inputs[i].value)];
    executor.set_input(i, zeros(value.shape, value.dtype));
  }
  auto loaded = Clock::now();
  executor.run();
  auto end = Clock::now();
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  fmt::print("{{\"ms\": {:.3f}, \"load_ms\": {:.3f}, \"peak_bytes\": {}}}\n", milliseconds(end - begin),
             milliseconds(loaded - begin), usage.ru_maxrss * 1024);
  return 0;
}

}  // namespace
}  // namespace lathe

int main(int argc, char** argv) {
  try {
    return lathe::start(argc, argv);
  } catch (const std::exception& e) {
    std::cerr << "error: " << e.what() << "\n";
    return 2;
  }
}
