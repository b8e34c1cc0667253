// Several implementations of one model in turn, in one experiment, and the ratios of their times.
//
// Each side is a process of its own that holds the model ready and obeys lines on stdin: "run N" runs N times and
// answers a JSON array of milliseconds, "outputs FOLDER" writes output_<i>.npy and answers []. The first line a side
// prints says that it is ready. docs/decisions/008-benchmarks.md says why it is done this way and what the figures mean.
'use strict';
const fs = require('fs'), os = require('os'), path = require('path');
const { execFileSync, spawn, spawnSync } = require('child_process');
const readline = require('readline');
const { readNpy, maxRelativeError } = require('./npy.js');

const bin = path.join(__dirname, '../build/release/bin');
const quietly = { stdio: ['ignore', 'ignore', 'inherit'] };

/** A process that runs a model on request. */
class Side {
  constructor(name, command, args) {
    this.name = name;
    this.child = spawn(command, args.map(String), { stdio: ['pipe', 'pipe', 'inherit'] });
    this.child.on('error', (error) => { console.error(`error: ${command}: ${error.message}`); process.exit(2); });
    this.lines = readline.createInterface({ input: this.child.stdout })[Symbol.asyncIterator]();
  }
  async answer() {
    const { value, done } = await this.lines.next();
    if (done) throw new Error(`the process of ${this.name} ended early`);
    return JSON.parse(value);
  }
  ask(line) {
    this.child.stdin.write(line + '\n');
    return this.answer();
  }
  close() { this.child.stdin.end(); }
}

const median = (values) => {
  const sorted = [...values].sort((a, b) => a - b), n = sorted.length;
  return n % 2 ? sorted[(n - 1) / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
};

/** Order statistics that cover the median with 95% confidence (binomial). */
function medianInterval(values) {
  const sorted = [...values].sort((a, b) => a - b), n = sorted.length;
  let k = 0, below = 0, term = Math.pow(0.5, n);
  while (below + term <= 0.025 && k < n / 2) { below += term; term = term * (n - k) / (k + 1); k++; }
  const low = Math.max(0, k - 1);
  return [sorted[low], sorted[n - 1 - low]];
}

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/**
 * Milliseconds of each side in each round: {side name: [median of its turn, ...]}. A turn lasts about a quarter of a
 * second; the order of the sides rotates, and turns round every other time. One turn each warms up.
 */
async function takeTurns(sides, rounds) {
  const count = new Map(), times = Object.fromEntries(sides.map((side) => [side.name, []]));
  for (const side of sides) {
    const probe = median(await side.ask('run 3'));
    count.set(side, Math.max(3, Math.min(400, Math.round(250 / probe))));
    await side.ask(`run ${count.get(side)}`);
  }
  for (let round = 0; round < rounds; round++) {
    const start = round % sides.length;
    const order = [...sides.slice(start), ...sides.slice(0, start)];
    if (Math.floor(round / sides.length) % 2) order.reverse();
    for (const side of order) {
      await pause(30); // the threads of the side that just ran go to sleep
      times[side.name].push(median(await side.ask(`run ${count.get(side)}`)));
    }
  }
  return times;
}

/** peer / ours over the rounds: above 1, ours is faster. */
function ratioOf(ours, peer) {
  const ratios = peer.map((ms, round) => ms / ours[round]), [low, high] = medianInterval(ratios);
  return { ms: median(peer), ratio: median(ratios), low, high };
}

/** The ONNX file of a zoo model (exported here) or the path given. */
function onnxFile(model, folder) {
  if (model.endsWith('.onnx')) return path.resolve(model);
  const file = path.join(folder, `${model}.onnx`);
  execFileSync(path.join(bin, 'tune'), ['export', '--model', model, '--out', file], quietly);
  return file;
}

/** Compiles for the options' threads and shapes, with the schedules that its `tuning` says. */
function compileModule(onnx, { threads, shapes, tuning }, module) {
  execFileSync(path.join(bin, 'tune'), ['compile', '--model', onnx, '--target', 'cpu', '--threads', String(threads),
    ...shapes.flatMap((shape) => ['--shape', shape]), ...tuning, '--out', module], quietly);
}

/** The inputs that the process of ONNX Runtime made, as NAME=FILE.npy. */
async function startOnnxRuntime(onnx, threads, folder, shapes) {
  const side = new Side('onnxruntime', process.execPath, [path.join(__dirname, 'onnxruntime_server.js'), onnx, threads, folder, ...shapes]);
  return { side, inputs: await side.answer() };
}

/** PyTorch's own definition of a zoo model, as {side, variant}; null for models that it does not have. */
async function startPyTorch(model, threads, inputs) {
  if (model.endsWith('.onnx')) return null;
  const files = inputs.map((binding) => binding.slice(binding.indexOf('=') + 1));
  const side = new Side('pytorch', '/usr/bin/python3', [path.join(__dirname, 'pytorch_server.py'), model, threads, ...files]);
  const ready = await side.answer();
  if (ready.variant) return { side, variant: ready.variant };
  side.close();
  return null;
}

/** The largest error of the outputs in a folder, each of its largest value in `truth`. */
function folderError(outputs, truth) {
  return Math.max(...fs.readdirSync(truth).map((file) => maxRelativeError(...[outputs, truth].map((folder) => readNpy(path.join(folder, file))))));
}

const truths = new Map(); // by ONNX file

/** The folder with what the model computes in float64 on the inputs; null, with the reason printed, where it cannot. */
function truthOf(onnx, inputs, folder) {
  if (!truths.has(onnx)) truths.set(onnx, computeTruth(onnx, inputs, path.join(folder, `float64_${truths.size}`)));
  return truths.get(onnx); // inputs are the same each time: their seed is
}

function computeTruth(onnx, inputs, truth) {
  const { status, stderr } = spawnSync(path.join(bin, 'tune'), ['run', '--model', onnx, '--target', 'cpu', '--untuned', '--precision', 'float64',
    '--threads', String(os.cpus().length), ...inputs.flatMap((binding) => ['--input', binding]), '--out', truth], { stdio: ['ignore', 'ignore', 'pipe'] });
  if (status === 0) return truth;
  console.error(`no errors against float64: ${String(stderr).trim()}`);
  return null;
}

/**
 * Ours against ONNX Runtime and, if wanted, PyTorch: {model, threads, ours_ms, peers: {name: {ms, ratio, low, high}},
 * pytorch_variant (which of PyTorch's ways was the fastest), max_rel_error, error_float64, peer_error_float64}: our error against ONNX Runtime's outputs, and of either against
 * the model computed in float64 (null where it cannot be).
 * options: threads, rounds, shapes (NAME=1x3x224x224, of inputs with open dimensions), tuning (flags of `tune compile`),
 * pytorch.
 */
async function raceModel(model, options, folder) {
  const onnx = onnxFile(model, folder), module = path.join(folder, `${path.basename(onnx, '.onnx')}.lathe`);
  compileModule(onnx, options, module);
  const sides = [];
  try {
    const { side: peer, inputs } = await startOnnxRuntime(onnx, options.threads, folder, options.shapes);
    sides.push(peer);
    const ours = new Side('lathe', path.join(bin, 'lathe-module-server'), [module, options.threads, ...inputs]);
    sides.push(ours);
    await ours.answer();
    const torch = options.pytorch ? await startPyTorch(model, options.threads, inputs) : null;
    if (torch) sides.push(torch.side);

    const times = await takeTurns(sides, options.rounds);
    const outputs = [ours, peer].map((side) => path.join(folder, `${side.name}_outputs`));
    for (const output of outputs) fs.rmSync(output, { recursive: true, force: true }), fs.mkdirSync(output);
    await ours.ask(`outputs ${outputs[0]}`);
    await peer.ask(`outputs ${outputs[1]}`);
    const truth = truthOf(onnx, inputs, folder), [errorOfOurs, errorOfPeer] = outputs.map((output) => (truth ? folderError(output, truth) : null));
    const peers = Object.fromEntries(sides.filter((side) => side !== ours).map((side) => [side.name, ratioOf(times.lathe, times[side.name])]));
    return {
      model, threads: options.threads, ours_ms: median(times.lathe), peers, pytorch_variant: torch && torch.variant,
      max_rel_error: folderError(...outputs), error_float64: errorOfOurs, peer_error_float64: errorOfPeer,
    };
  } finally {
    for (const side of sides) side.close();
  }
}

/** The flags of a race. `threads` is a list. */
function parseArguments(list, command) {
  const usage = (message) => {
    console.error(`error: ${message}\nusage: ./run bench ${command}`);
    process.exit(2);
  };
  const options = { models: [], threads: [1], rounds: 15, json: false, shapes: [], tuning: [], pytorch: false };
  for (let i = 0; i < list.length; i++) {
    const flag = list[i], value = () => (i + 1 < list.length ? list[++i] : usage(`${flag} needs a value`));
    switch (flag) {
      case '--models': options.models = value().split(',').filter(Boolean); break;
      case '--threads': options.threads = value().split(',').map(Number); break;
      case '--rounds': options.rounds = Number(value()); break;
      case '--shape': options.shapes.push(value()); break;
      case '--db': options.tuning.push('--db', path.resolve(value())); break;
      case '--untuned': options.tuning.push('--untuned'); break;
      case '--max-relative-error': options.tuning.push(flag, value()); break;
      case '--json': options.json = true; break;
      default: usage(`unknown option ${flag}`);
    }
  }
  if (!options.models.length) usage('--models is missing');
  if (!options.threads.every((n) => n >= 1) || !(options.rounds >= 6)) usage('--threads must be at least 1 and --rounds at least 6');
  return options;
}

/** Races every model on every number of threads; returns raceModel's results. */
async function raceAll(options) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'lathe-bench-')), rows = [];
  try {
    for (const threads of options.threads) {
      for (const model of options.models) {
        if (!options.json) console.error(`${model}, ${threads} thread${threads > 1 ? 's' : ''} ...`);
        rows.push(await raceModel(model, { ...options, threads }, folder));
      }
    }
  } finally {
    fs.rmSync(folder, { recursive: true, force: true });
  }
  return rows;
}

/** Ends the process; what a command that failed had to say is on stderr already. */
function exitWith(error) {
  if (!error.status) console.error(`error: ${error.message}`);
  process.exit(2);
}

/** An error in a table. */
const errorText = (error) => (error === null ? '-' : error.toExponential(1));

module.exports = {
  bin, compileModule, errorText, exitWith, folderError, median, onnxFile, parseArguments, raceAll, ratioOf, Side, startOnnxRuntime, takeTurns, truthOf,
};
