#include "cli/command.h"

#include <fmt/core.h>

#include "cli/commands/commands.h"

namespace lathe::cli {
namespace {

constexpr Command kCommands[] = {
    {
        "",
        "--model M --target T [--shape NAME=1x3x224x224]... [--trials N] [--time 10m] [--threads N] "
        "[--seed S] [--db FILE] [--out DIR] [--decide] [--json] [--tracker URL]",
        "tune a model on this machine or by a tracker, report, and save a module to deploy",
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
        "cancel",
        "JOB --tracker URL [--token-file FILE]",
        "end a tracker's job for good",
        {"tune cancel 3f2a91c0 --tracker http://farm:9191",
         "tune cancel 3f2a91c0 --tracker https://farm:9191 --token-file alice.token --ca farm.pem"},
        cancel_command,
    },
    {
        "compile",
        "--model M [--shape NAME=DIMS]... [--open DIM]... [--target T] [--db FILE | --untuned] [--native] "
        "[--out FILE]",
        "compile a model with the best known schedules into a module file, or a library and a C header",
        {"tune compile --model resnet18 --target cpu --out resnet18.lathe",
         "tune compile --model net.onnx --open batch --open length=1..512 --untuned"},
        compile_command,
    },
    {
        "completion",
        "bash|zsh|fish",
        "print the completions of a shell, to be kept where it looks for them",
        {"tune completion bash > ~/.local/share/bash-completion/completions/tune",
         "tune completion fish > ~/.config/fish/completions/tune.fish"},
        completion_command,
        /*takes_config=*/false,
    },
    {
        "config",
        "show [--origin] [--json] [COMMAND [-- FLAG...]]",
        "the values that flags have, and which of command line, environment and files they come from",
        {"tune config show --origin", "tune config show bench --origin -- --threads 2"},
        config_command,
        /*takes_config=*/false,
    },
    {
        "db",
        "export|import|backup|check|migrate [PATH] [--model M] [--target T] [--db FILE] [--json]",
        "share, copy and check a tuning database",
        {"tune db export resnet18.pack --model resnet18", "tune db backup nightly.db --db tuning.db"},
        db_command,
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
        "drain",
        "WORKER --tracker URL [--undo] [--token-file FILE]",
        "have a tracker's worker finish what it holds and take no more; for administrators",
        {"tune drain node7/0 --tracker http://farm:9191",
         "tune drain node7/0 --undo --tracker https://farm:9191 --token-file admin.token --ca farm.pem"},
        drain_command,
    },
    {
        "eval",
        "FILE [--expr EXPR | --input NAME=FILE...] [--library FILE.so]... [--compiled | --code]",
        "run a program of Relay text by the interpreter, and print its value",
        {"tune eval program.relay --input x=x.npy",
         "tune eval lists.relay --expr '@map(fn (%x: int32) { %x * %x }, Cons(2, Cons(3, Nil)))'"},
        eval_command,
    },
    {
        "export",
        "--model M [--shape NAME=DIMS]... --out FILE.onnx",
        "write a model as an ONNX file, weights included",
        {"tune export --model resnet18 --out resnet18.onnx", "tune export --model net.relay --out net.onnx"},
        export_command,
    },
    {
        "fetch",
        "JOB --tracker URL [--out DIR]",
        "get the module of a tracker's job that is done",
        {"tune fetch 3f2a91c0 --tracker http://farm:9191",
         "tune fetch 3f2a91c0 --tracker http://farm:9191 --out modules"},
        fetch_command,
    },
    {
        "gate",
        "--baseline FILE|DIR --candidate FILE|DIR | --baseline DB [--candidate DB] --model M...  "
        "[--margin SHARE] [--json] [--junit FILE] [--sarif FILE] [--markdown FILE]",
        "is the candidate slower than the baseline? exit code 0 no, 1 yes, 3 too noisy to tell",
        {"tune gate --baseline main/resnet18.lathe --candidate resnet18.lathe",
         "tune gate --baseline main.db --candidate branch.db --model resnet18 --model dqn --junit gate.xml"},
        gate_command,
    },
    {
        "help",
        "[COMMAND | exit-codes | environment]",
        "explain a command, the exit codes, or the variables of the environment",
        {"tune help bench", "tune help exit-codes"},
        help_command,
        /*takes_config=*/false,
    },
    {
        "jobs",
        "--tracker URL [--state STATE] [--owner NAME] [--limit N] [--devices] [--json]",
        "what a tracker works on, and on which devices",
        {"tune jobs --tracker http://farm:9191 --state running",
         "tune jobs --tracker http://farm:9191 --devices"},
        jobs_command,
    },
    {
        "keygen",
        "[--out FILE]",
        "make a key pair for a tracker or a worker; prints the public key",
        {"tune keygen --out tracker.key", "tune keygen --out worker.key >> allowed-workers"},
        keygen_command,
    },
    {
        "man",
        "[COMMAND] [--out DIR]",
        "print the manual page of `tune` or of a command, or write all of them",
        {"tune man bench | man -l -", "tune man --out ~/.local/share/man/man1"},
        man_command,
        /*takes_config=*/false,
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
        "pause",
        "JOB --tracker URL [--token-file FILE]",
        "stop the search of a tracker's job for now; `tune resume` goes on",
        {"tune pause 3f2a91c0 --tracker http://farm:9191",
         "tune pause 3f2a91c0 --tracker https://farm:9191 --token-file alice.token --ca farm.pem"},
        pause_command,
    },
    {
        "quantize",
        "--model M [--shape NAME=DIMS]... --out FILE.onnx [--calibrate NAME=FILE]... [--samples N] [--seed "
        "S]",
        "quantize a model to 8 bits, calibrated on given or random inputs, and write it as an ONNX file "
        "(QDQ)",
        {"tune quantize --model resnet50 --out resnet50-int8.onnx --samples 32",
         "tune quantize --model net.onnx --out net-int8.onnx --calibrate data=images.npy"},
        quantize_command,
    },
    {
        "query",
        "best|below-limit|coverage|history|transfer|foreign|jobs|devices [--model M] [--target T] [--strict] "
        "[--db FILE] [--json]",
        "what the tuning database knows",
        {"tune query best --model resnet18 --target cpu", "tune query jobs --limit 5 --json"},
        query_command,
    },
    {
        "resume",
        "JOB [--db FILE] [--out DIR] [--decide] [--json] | JOB --tracker URL",
        "go on with a job that was stopped or whose tracker died, or with one that a tracker holds",
        {"tune resume 3f2a91c0 --db tuning.db", "tune resume 3f2a91c0 --tracker http://farm:9191"},
        resume_command,
    },
    {
        "retune",
        "[--db FILE] [--device NAME] [--target T] [--trials N] [--time T] [--threads N] [--seed S] [--json]",
        "measure and tune on this machine what the database knows of other devices",
        {"tune retune --db tuning.db --trials 32",
         "tune retune --device node7 --time 30m --threads 2 --json"},
        retune_command,
    },
    {
        "run",
        "--model M [--shape NAME=DIMS]... [--target T] [--db FILE | --untuned] [--input NAME=FILE.npy]... "
        "[--library FILE.so]... [--out DIR]",
        "run a model once on given or random inputs and write its outputs",
        {"tune run --model resnet18.lathe --input data=cat.npy --out results",
         "tune run --model resnet18 --target cpu --untuned --threads 2"},
        run_model_command,
    },
    {
        "submit",
        "--model M --tracker URL [the flags of tune] [--device NAME] [--priority N] [--key KEY]",
        "hand a job to a tracker and print its id",
        {"tune submit --model resnet18 --trials 512 --tracker http://farm:9191",
         "tune submit --model net.onnx --time 10m --device EPYC --tracker https://farm:9191 --token-file "
         "my.token"},
        submit_command,
    },
    {
        "timeline",
        "FILE [--unit NAME] [--least-change SHARE] [--json]",
        "where the times that `tune gate --history` kept changed their level; annotates, never gates",
        {"tune timeline gate.jsonl", "tune timeline gate.jsonl --unit resnet18 --json"},
        timeline_command,
    },
    {
        "token",
        "--name NAME [--role ROLE] [--weight W] [--jobs N] [--out FILE]",
        "make a token for a user of a tracker; prints the line for its --principals file",
        {"tune token --name alice --out alice.token >> principals",
         "tune token --name ci --role viewer --out ci.token >> principals"},
        token_command,
    },
    {
        "tracker",
        "[--listen ENDPOINT] [--http HOST:PORT] [--db FILE] [--key FILE --allow FILE] [--principals FILE] "
        "[--tls-certificate FILE --tls-key FILE] [--searches N]",
        "serve workers, and jobs that users submit over HTTP",
        {"tune tracker --db tuning.db",
         "tune tracker --listen 'tcp://*:9190' --key tracker.key --allow allowed-workers "
         "--http '*:9191' --principals principals"},
        tracker_command,
    },
    {
        "trust",
        "WORKER --tracker URL [--token-file FILE]",
        "believe a tracker's suspect worker again, and measure its canaries anew; for administrators",
        {"tune trust node7/0 --tracker http://farm:9191",
         "tune trust node7/0 --tracker https://farm:9191 --token-file admin.token --ca farm.pem"},
        trust_command,
    },
    {
        "version",
        "[--json]",
        "print the version and the revision it was built from",
        {"tune version", "tune version --json"},
        version_command,
        /*takes_config=*/false,
    },
    {
        "watch",
        "JOB --tracker URL [--token-file FILE]",
        "see a tracker's job live, and its report",
        {"tune watch 3f2a91c0 --tracker http://farm:9191",
         "tune watch 3f2a91c0 --tracker https://farm:9191 --token-file alice.token --ca farm.pem"},
        watch_command,
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

/// Every row has what help and manual pages show of it.
constexpr bool rows_are_complete() {
  for (const Command& command : kCommands) {
    if (command.summary.empty()) return false;
    for (std::string_view example : command.examples)
      if (!example.starts_with("tune ")) return false;
  }
  return true;
}
static_assert(rows_are_complete(), "a command lacks its summary or one of two examples");

}  // namespace

const Program& program() {
  static constexpr Program kProgram = {"tune", "compile deep-learning models and tune them on this hardware",
                                       kCommands,
                                       "`tune help tune` explains the flags of the main job.\n"
                                       "`tune help` also knows: exit-codes, environment."};
  return kProgram;
}

}  // namespace lathe::cli
