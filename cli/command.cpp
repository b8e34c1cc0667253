#include "cli/command.h"

#include "cli/commands/commands.h"
#include "cli/program.h"

namespace lathe::cli {
namespace {

constexpr Command kCommands[] = {
    {
        "",
        "--model M --target T [--shape NAME=1x3x224x224]... [--trials N] [--time 10m] [--threads N] "
        "[--seed S] [--db FILE] [--out DIR] [--decide] [--json]",
        "tune a model on this machine, report, and save a module to deploy",
        {"tune --model resnet18 --target cpu --trials 512",
         "tune --model net.onnx --shape x=1x3x48x192 --target cpu --time 10m --threads 2"},
        tune_command,
    },
    {
        "bench",
        "--model M [--shape NAME=DIMS]... [--target T] [--db FILE | --untuned] [--threads N] [--json]",
        "time a model: median, confidence interval, and where the time goes",
        {"tune bench --model resnet18 --target cpu --threads 2",
         "tune bench --model resnet18.lathe --profile"},
        bench_command,
    },
    {
        "compile",
        "--model M [--shape NAME=DIMS]... [--target T] [--db FILE | --untuned] [--out FILE]",
        "compile a model with the best known schedules into a module file",
        {"tune compile --model resnet18 --target cpu --out resnet18.lathe",
         "tune compile --model net.onnx --untuned"},
        compile_command,
    },
    {
        "device",
        "[--target T] [--measure] [--db FILE] [--json]",
        "the numbers of the machine that schedules decide by: measured, by its kind, and used",
        {"tune device", "tune device --target cpu:mcpu=haswell,latency=5"},
        device_command,
    },
    {
        "doctor",
        "[--watch DURATION] [--json]",
        "whether this machine is fit to measure on, and what to do about it",
        {"tune doctor", "tune doctor --watch 10s --json"},
        doctor_command,
    },
    {
        "export",
        "--model M [--shape NAME=DIMS]... --out FILE.onnx",
        "write a model as an ONNX file, weights included",
        {"tune export --model resnet18 --out resnet18.onnx", "tune export --model net.relay --out net.onnx"},
        export_command,
    },
    {
        "keygen",
        "[--out FILE]",
        "make a key pair for a tracker or a worker; prints the public key",
        {"tune keygen --out tracker.key", "tune keygen --out worker.key >> allowed-workers"},
        keygen_command,
    },
    {
        "opt",
        "FILE [--passes=A,B,...] [--print-after-all] [--timing]",
        "run passes over a model or tensor programs, as text, and print the result",
        {"tune opt model.relay --passes=infer_type,fuse_ops --types",
         "tune opt program.tir --schedule --pipeline"},
        opt_command,
    },
    {
        "quantize",
        "--model M [--shape NAME=DIMS]... --out FILE.onnx [--samples N] [--seed S]",
        "quantize a model to 8 bits, calibrated on random inputs, and write it as an ONNX file (QDQ)",
        {"tune quantize --model resnet50 --out resnet50-int8.onnx",
         "tune quantize --model net.onnx --out net-int8.onnx --samples 32"},
        quantize_command,
    },
    {
        "query",
        "best|history|jobs|devices [--model M] [--target T] [--db FILE] [--json]",
        "what the tuning database knows",
        {"tune query best --model resnet18 --target cpu", "tune query jobs --limit 5 --json"},
        query_command,
    },
    {
        "resume",
        "JOB [--db FILE] [--out DIR] [--decide] [--json]",
        "go on with a job that was stopped or whose tracker died",
        {"tune resume 3f2a91c0", "tune resume 3f2a91c0 --db tuning.db --json"},
        resume_command,
    },
    {
        "run",
        "--model M [--shape NAME=DIMS]... [--target T] [--db FILE | --untuned] [--input NAME=FILE.npy]... "
        "[--out DIR]",
        "run a model once on given or random inputs and write its outputs",
        {"tune run --model resnet18.lathe --input data=cat.npy --out results",
         "tune run --model resnet18 --target cpu --untuned --threads 2"},
        run_model_command,
    },
    {
        "tracker",
        "[--listen ENDPOINT] [--db FILE] [--key FILE --allow FILE]",
        "serve workers from the jobs of a database",
        {"tune tracker --db tuning.db",
         "tune tracker --listen tcp://*:9190 --key tracker.key --allow allowed-workers"},
        tracker_command,
    },
    {
        "version",
        "",
        "print the version and the revision it was built from",
        {"tune version", "tune version --help"},
        version_command,
    },
    {
        "worker",
        "[--tracker ENDPOINT] [--name NAME] [--role ROLE] [--builders N] [--key FILE --tracker-key KEY]",
        "build and measure candidates for a tracker on this machine",
        {"tune worker --tracker tcp://127.0.0.1:9190",
         "tune worker --tracker tcp://farm:9190 --key worker.key --tracker-key 'TRACKER PUBLIC KEY'"},
        worker_command,
    },
};

}  // namespace

std::span<const Command> commands() { return kCommands; }

int run_command(const std::vector<std::string>& arguments) {
  return run_program({"tune", "compile deep-learning models and tune them on this hardware", kCommands},
                     arguments);
}

}  // namespace lathe::cli
