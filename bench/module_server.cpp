// Runs a compiled module on request, so that a comparison can interleave it with a peer in one experiment:
//   lathe-module-server MODULE.lathe THREADS [NAME=FILE.npy ...]
// reads lines from stdin: "run N" runs N times and answers a JSON array of milliseconds; "outputs FOLDER"
// writes output_<i>.npy and answers []. Links the runtime alone.
#include <chrono>
#include <iostream>
#include <string>

#include "core/runtime/executor.h"
#include "core/runtime/thread_pool.h"

namespace lathe {
namespace {

std::string timed_runs(runtime::Executor& executor, int count) {
  std::string answer = "[";
  for (int i = 0; i < count; ++i) {
    auto start = std::chrono::steady_clock::now();
    executor.run();
    std::chrono::duration<double, std::milli> spent = std::chrono::steady_clock::now() - start;
    answer += fmt::format("{}{:.5f}", i ? "," : "", spent.count());
  }
  return answer + "]";
}

int serve(int argc, char** argv) {
  if (argc < 3) fail("usage: lathe-module-server MODULE.lathe THREADS [NAME=FILE.npy ...]");
  runtime::ThreadPool pool(std::stoi(argv[2]));
  runtime::Executor executor(runtime::Module::open(argv[1]), pool.parallel());
  for (int i = 3; i < argc; ++i) {
    std::string binding = argv[i];
    size_t equals = binding.find('=');
    if (equals == std::string::npos) fail("`{}` is not NAME=FILE.npy", binding);
    executor.set_input(runtime::find_input(executor.plan(), binding.substr(0, equals)),
                       load_npy(binding.substr(equals + 1)));
  }
  executor.run();
  std::cout << "[]" << std::endl;
  for (std::string verb, argument; std::cin >> verb >> argument;) {
    if (verb == "run") {
      std::cout << timed_runs(executor, std::stoi(argument)) << std::endl;
    } else if (verb == "outputs") {
      for (size_t i = 0; i < executor.plan().outputs.size(); ++i)
        save_npy(fmt::format("{}/output_{}.npy", argument, i), executor.output(i));
      std::cout << "[]" << std::endl;
    } else {
      fail("unknown request `{}`", verb);
    }
  }
  return 0;
}

}  // namespace
}  // namespace lathe

int main(int argc, char** argv) {
  try {
    return lathe::serve(argc, argv);
  } catch (const std::exception& e) {
    std::cerr << "error: " << e.what() << "\n";
    return 2;
  }
}
