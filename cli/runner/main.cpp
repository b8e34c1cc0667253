// lathe-runner: a worker for boards. It measures what builders elsewhere have built, and runs modules; it
// links no compiler.
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.h"
#include "cli/commands/commands.h"
#include "cli/interrupt.h"
#include "cli/libraries.h"
#include "cli/running_model.h"
#include "cli/shapes.h"
#include "cli/worker_flags.h"
#include "core/support/error.h"
#include "core/support/most_threads.h"
#include "workers/confine.h"
#include "workers/device.h"
#include "workers/measure.h"

namespace lathe::cli {
namespace {

int serve_command(Flags& flags) {
  WorkerFlags common;
  std::string emulator;
  common.add_to(flags);
  flags.add("--emulator PATH", emulator,
            "path of the program that runs this one, and is to run its children");
  if (!flags.parse()) return kSuccess;
  worker::require_confinement();
  worker::WorkerSettings settings = common.finish();
  settings.duty = worker::Duty::kRun;
  // To an emulator, /proc/self/exe would be itself.
  if (!emulator.empty())
    settings.sandbox = {emulator, std::filesystem::read_symlink("/proc/self/exe"), "internal-sandbox"};
  worker::DeviceInfo device = worker::probe_device();
  device.revision = revision();
  settings.device = worker::to_json(device);
  worker::serve(settings);
  return kSuccess;
}

int run_module_command(Flags& flags) {
  std::string model, folder;
  std::vector<std::string> shapes, inputs, libraries;
  int64_t seed = 0, threads = 1;
  flags.add("--model FILE", model, "a .lathe file for this machine", Flags::Need::kRequired);
  add_shape_flag(flags, shapes);
  flags.add("--input NAME=FILE", inputs, "a .npy file, once for each input; others are random");
  add_library_flag(flags, libraries);
  flags.add("--seed", seed, 0, INT64_MAX, "of the random inputs");
  flags.add("--threads", threads, 1, kMostThreads, "threads to run on");
  flags.add("--out DIR", folder, "folder for output_0.npy, output_1.npy, ... in the model's order");
  if (!flags.parse()) return kSuccess;
  const LibraryFunctions functions = load_libraries(libraries);
  const OutputFolder made(folder);
  RunningModel running =
      start_module(runtime::Module::open(model), open_inputs(inputs), static_cast<uint64_t>(seed),
                   static_cast<int>(threads), parse_shapes(shapes));
  give_functions(*running.executor, functions);
  run_and_print(running, folder);
  return kSuccess;
}

constexpr Command kCommands[] = {
    {
        "",
        "--tracker ENDPOINT [--name NAME] [--key FILE --tracker-key KEY] [--emulator PATH]",
        "measure on this machine, for a tracker, what its builders build",
        {"lathe-runner --tracker tcp://192.168.0.2:9190 --key board.key --tracker-key 'TRACKER PUBLIC KEY'",
         "lathe-runner --tracker tcp://127.0.0.1:9190 --name board/0"},
        serve_command,
        /*takes_config=*/false,
    },
    {
        "keygen",
        "[--out FILE]",
        "make a key pair for a connection to a tracker; prints the public key",
        {"lathe-runner keygen --out board.key", "lathe-runner keygen --out board.key >> allowed-workers"},
        keygen_command,
        /*takes_config=*/false,
    },
    {
        "run",
        "--model FILE.lathe [--shape NAME=DIMS]... [--input NAME=FILE.npy]... [--threads N] [--out DIR]",
        "run a module once, on given or random inputs",
        {"lathe-runner run --model resnet18.lathe",
         "lathe-runner run --model net.lathe --input x=x.npy --out ."},
        run_module_command,
        /*takes_config=*/false,
    },
    {
        "version",
        "",
        "print the version and the revision it was built from",
        {"lathe-runner version", "lathe-runner --version"},
        version_command,
        /*takes_config=*/false,
    },
};

}  // namespace

const Program& program() {
  static constexpr Program kProgram = {"lathe-runner", "run on this board what builders elsewhere build",
                                       kCommands};
  return kProgram;
}

}  // namespace lathe::cli

int main(int argc, char** argv) {
  using namespace lathe;
  return cli::exit_code_of([&] {
    // Not a command for people: the supervisor of measurements (workers/sandbox.h).
    constexpr worker::Role kRoles[] = {{"run", worker::Confinement::kRun, nullptr, worker::run_body}};
    if (argc > 1 && std::string_view(argv[1]) == "internal-sandbox")
      return worker::supervise(kRoles, {argv, argv + argc});
    cli::install_interrupt_handler();
    return cli::run_command(std::vector<std::string>(argv + 1, argv + argc));
  });
}
