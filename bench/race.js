// Several implementations of one model in turn, in one experiment, and the ratios of their times.
//
// Each side is a process of its own that holds the model ready and obeys lines on stdin: "run N" runs N times and
// answers a JSON array of milliseconds, "outputs FOLDER" writes output_<i>.npy and answers []. The first line a side
// prints says that it is ready. docs/decisions/008-benchmarks.md says why it is done this way and what the figures mean.
'use strict';
const fs = require('fs'), os = require('os'), path = require('path');
const { spawn, spawnSync } = require('child_process');
const readline = require('readline');
const { readNpy, maxRelativeError } = require('./npy.js');

const bin = process.env.LATHE_BIN || path.join(__dirname, '../build/release/bin'); // tests race what they built
const patience = 300e3; // ms; a compilation or an answer that takes longer never ends

/** What one side, by name, could not do; the message is one line. */
class SideError extends Error {
  constructor(side, message) {
    super(`${side}: ${message}`);
    this.side = side;
  }
  get ours() { return !['onnxruntime', 'pytorch', 'llama.cpp'].includes(this.side); }
}

/** The line of what a process wrote on stderr that says what went wrong; empty when it wrote nothing. */
function reasonIn(stderr) {
  const lines = stderr.split('\n').map((line) => line.trim()).filter(Boolean);
  const line = lines.find((each) => /^\w*error: /i.test(each)) || lines[lines.length - 1] || '';
  return line.replace(/^error: /, '');
}

/** How a process ended badly, in one line. */
function endText({ code, signal, error, overdue, stderr }) {
  if (error) return error.message;
  if (overdue) return `no answer within ${patience / 1e3} s`;
  const reason = reasonIn(stderr);
  if (signal) return `killed by ${signal}${reason && `: ${reason}`}`;
  return reason || `ended with exit code ${code}`;
}

// A peer that allocates in each run would get new pages each time: glibc keeps what is freed, as ours keeps its memory.
const keepFreedMemory = { MALLOC_TRIM_THRESHOLD_: '2000000000', MALLOC_MMAP_THRESHOLD_: '33554432' };

/** A process that runs a model on request. What it cannot do is a SideError of the request, never of this process. */
class Side {
  constructor(name, command, args) {
    this.name = name;
    this.end = { stderr: '' };
    this.child = spawn(command, args.map(String), { stdio: 'pipe', env: { ...process.env, ...keepFreedMemory } });
    this.child.stderr.on('data', (data) => { this.end.stderr = (this.end.stderr + data).slice(-65536); });
    this.child.stdin.on('error', () => {}); // it is gone: the answer that does not come says so
    this.closed = new Promise((resolve) => {
      this.child.on('error', (error) => { Object.assign(this.end, { error }); resolve(); });
      this.child.on('close', (code, signal) => { Object.assign(this.end, { code, signal }); resolve(); });
    });
    this.lines = readline.createInterface({ input: this.child.stdout })[Symbol.asyncIterator]();
  }
  async answer() {
    const timer = setTimeout(() => { this.end.overdue = true; this.child.kill('SIGKILL'); }, patience);
    const { value, done } = await this.lines.next();
    clearTimeout(timer);
    if (!done) return JSON.parse(value);
    await this.closed;
    throw new SideError(this.name, endText(this.end));
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

const quarterSecond = { ms: 250, fewestRuns: 3, mostRuns: 400 };

/**
 * Milliseconds of each side in each round: {side name: [median of its turn, ...]}. A turn lasts about `turn.ms`, and at
 * least `turn.fewestRuns`; the order of the sides rotates, and turns round every other time. One turn each warms up.
 */
async function takeTurns(sides, rounds, turn = quarterSecond) {
  const count = new Map(), times = Object.fromEntries(sides.map((side) => [side.name, []]));
  const runsOf = (ms) => Math.max(turn.fewestRuns, Math.min(turn.mostRuns, Math.round(turn.ms / ms)));
  for (const side of sides) {
    const cold = median(await side.ask(`run ${turn.fewestRuns}`));
    count.set(side, runsOf(median(await side.ask(`run ${runsOf(cold)}`))));
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
  tune(['export', '--model', model, '--out', file]);
  return file;
}

/** Runs `tune`; throws a SideError of lathe when it fails. What it says on success goes on to stderr. */
function tune(args) {
  const { status, signal, error, stderr } = spawnSync(path.join(bin, 'tune'), args, { stdio: ['ignore', 'ignore', 'pipe'], timeout: patience, maxBuffer: 1 << 26 });
  const text = String(stderr || ''), overdue = error && error.code === 'ETIMEDOUT';
  if (status !== 0) throw new SideError('lathe', `tune ${args[0]}: ${endText({ code: status, signal, error: overdue ? undefined : error, overdue, stderr: text })}`);
  process.stderr.write(text);
}

/** Compiles for the options' threads and shapes, with the schedules that its `tuning` says. */
function compileModule(onnx, { threads, shapes, tuning }, module) {
  tune(['compile', '--model', onnx, '--target', 'cpu', '--threads', String(threads),
    ...shapes.flatMap((shape) => ['--shape', shape]), ...tuning, '--out', module]);
}

/** The inputs that the process of ONNX Runtime made, as NAME=FILE.npy. */
async function startOnnxRuntime(onnx, threads, folder, shapes) {
  const side = new Side('onnxruntime', process.execPath, [path.join(__dirname, 'onnxruntime_server.js'), onnx, threads, folder, ...shapes]);
  return { side, inputs: await side.answer() };
}

const recurrentFile = /^(rnn|gru|lstm)_h\d+_t\d+_b\d+(_bidirectional)?(_l\d+)?\.onnx$/; // of recurrent_models.py

/** PyTorch's own definition of a zoo model, or of one recurrent operator, as {side, variant}; null for models that it does not have. */
async function startPyTorch(file, threads, inputs) {
  if (file.endsWith('.onnx') && !recurrentFile.test(path.basename(file))) return null;
  const model = path.basename(file, '.onnx');
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

/** The folder that a side has written its outputs to. */
async function outputsOf(side, folder) {
  const outputs = fs.mkdtempSync(path.join(folder, `${side.name}_outputs_`));
  await side.ask(`outputs ${outputs}`);
  return outputs;
}

/**
 * Ours against ONNX Runtime and, if wanted, PyTorch: {model, threads, ours_ms, peers: {name: {ms, ratio, low, high}},
 * pytorch_variant (which of PyTorch's ways was the fastest), max_rel_error, error_float64, peer_error_float64}: our
 * error against ONNX Runtime's outputs, and of either against the model computed in float64 (null where it cannot be or
 * is not wanted).
 * options: threads, rounds, shapes (NAME=1x3x224x224, of inputs with open dimensions), tuning (flags of `tune compile`),
 * pytorch, turn (takeTurns), float64From (the float64 result is computed from this difference of the two on). Throws
 * SideError.
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

    const times = await takeTurns(sides, options.rounds, options.turn);
    const outputs = [await outputsOf(ours, folder), await outputsOf(peer, folder)];
    const maxRelError = folderError(...outputs);
    const truth = !(maxRelError < options.float64From) ? truthOf(onnx, inputs, folder) : null, [errorOfOurs, errorOfPeer] = outputs.map((output) => (truth ? folderError(output, truth) : null));
    const peers = Object.fromEntries(sides.filter((side) => side !== ours).map((side) => [side.name, ratioOf(times.lathe, times[side.name])]));
    return {
      model, threads: options.threads, ours_ms: median(times.lathe), peers, pytorch_variant: torch && torch.variant,
      max_rel_error: maxRelError, error_float64: errorOfOurs, peer_error_float64: errorOfPeer,
    };
  } finally {
    for (const side of sides) side.close();
  }
}

const precisions = { float32: 'given', bfloat16: 'bf16', int8: 'int8' }; // as `tune --precision` calls them

/**
 * Ours in each of options.precisions (names of `precisions`, float32 first), in turn; a row each: {model, threads,
 * precision, ms, ratio (float32 / it), ratio_low, ratio_high, error_float32, error_float64 (null as in raceModel)}: its
 * errors. Options otherwise as raceModel's. Throws SideError.
 */
async function racePrecisions(model, options, folder) {
  const onnx = onnxFile(model, folder), sides = [];
  const { side: peer, inputs } = await startOnnxRuntime(onnx, options.threads, folder, options.shapes);
  peer.close(); // it made the inputs
  try {
    for (const name of options.precisions) {
      const module = path.join(folder, `${name}.lathe`);
      compileModule(onnx, { ...options, tuning: [...options.tuning, '--precision', precisions[name]] }, module);
      const side = new Side(name, path.join(bin, 'lathe-module-server'), [module, options.threads, ...inputs]);
      sides.push(side);
      await side.answer();
    }
    const times = await takeTurns(sides, options.rounds, options.turn), rows = [];
    const truth = options.float64From < Infinity ? truthOf(onnx, inputs, folder) : null, float32 = await outputsOf(sides[0], folder);
    for (const side of sides) {
      const outputs = await outputsOf(side, folder), { ratio, low, high } = ratioOf(times[side.name], times.float32);
      rows.push({
        model, threads: options.threads, precision: side.name, ms: median(times[side.name]), ratio, ratio_low: low, ratio_high: high,
        error_float32: folderError(outputs, float32), error_float64: truth ? folderError(outputs, truth) : null,
      });
    }
    return rows;
  } finally {
    for (const side of sides) side.close();
  }
}

/**
 * Compiled modules of one model in turn, on the same inputs: what takeTurns gives. Each is {name, module, server}; server:
 * the lathe-module-server that runs it, null for this build's. Throws SideError.
 */
async function raceModules(onnx, modules, options, folder) {
  const { side: peer, inputs } = await startOnnxRuntime(onnx, options.threads, folder, options.shapes);
  peer.close(); // it made the inputs
  const sides = [];
  try {
    for (const { name, module, server } of modules) {
      const side = new Side(name, server || path.join(bin, 'lathe-module-server'), [module, options.threads, ...inputs]);
      sides.push(side);
      await side.answer();
    }
    return await takeTurns(sides, options.rounds, options.turn);
  } finally {
    for (const side of sides) side.close();
  }
}

/**
 * The flags of a race. `threads` is a list. `more` has flags of one command alone: {'--flag': (options, value) => true
 * when the value will do}; `defaults` replaces those of the options; `models: null` for a command that takes none.
 */
function parseArguments(list, command, more = {}, defaults = {}) {
  const usage = (message) => {
    console.error(`error: ${message}\nusage: ./run bench ${command}`);
    process.exit(2);
  };
  const options = { models: [], threads: [1], rounds: 15, json: false, shapes: [], tuning: [], pytorch: false, float64From: 0, ...defaults };
  for (let i = 0; i < list.length; i++) {
    const flag = list[i], value = () => (i + 1 < list.length ? list[++i] : usage(`${flag} needs a value`));
    switch (flag) {
      case '--models':
        if (!options.models) usage(`unknown option ${flag}`);
        options.models = value().split(',').filter(Boolean);
        break;
      case '--threads': options.threads = value().split(',').map(Number); break;
      case '--rounds': options.rounds = Number(value()); break;
      case '--shape': options.shapes.push(value()); break;
      case '--db': options.tuning.push('--db', path.resolve(value())); break;
      case '--untuned': options.tuning.push('--untuned'); break;
      case '--max-relative-error': options.tuning.push(flag, value()); break;
      case '--json': options.json = true; break;
      case '-h': case '--help':
        console.log(`usage: ./run bench ${command}`);
        return process.exit(0);
      default: {
        if (!more[flag]) usage(`unknown option ${flag}`);
        const text = value();
        if (!more[flag](options, text)) usage(`${flag} cannot be ${text}`);
      }
    }
  }
  if (options.models && !options.models.length) usage('--models is missing');
  if (!options.threads.every((n) => n >= 1) || !(options.rounds >= 6)) usage('--threads must be at least 1 and --rounds at least 6');
  return options;
}

/** What a race gives; where it fails, {...what, error: the reason in one line, error_is_ours}. */
async function rowOrReason(what, race) {
  try {
    return await race();
  } catch (error) {
    return { ...what, error: error.message.split('\n')[0], error_is_ours: !(error instanceof SideError) || error.ours };
  }
}

/** Races every model on every number of threads; returns rows of `race`, or why there is none (rowOrReason). */
async function raceAll(options, race = raceModel) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'lathe-bench-')), rows = [];
  try {
    for (const threads of options.threads) {
      for (const model of options.models) {
        if (!options.json) console.error(`${model}, ${threads} thread${threads > 1 ? 's' : ''} ...`);
        rows.push(await rowOrReason({ model, threads }, () => race(model, { ...options, threads }, folder)));
      }
    }
  } finally {
    fs.rmSync(folder, { recursive: true, force: true });
  }
  return rows.flat();
}

/** Ends the process; what a command that failed had to say is on stderr already. */
function exitWith(error) {
  if (!error.status) console.error(`error: ${error.message}`);
  process.exit(2);
}

/** An error in a table. */
const errorText = (error) => (error === null ? '-' : error.toExponential(1));

/** Prints rows of raceAll as JSON, or as a table by `line`; exit code 1 when one of them says why there was no race. */
function printRows(rows, { json }, header, line) {
  if (json) console.log(JSON.stringify(rows));
  else for (const text of [...header, ...rows.map((row) => (row.error ? `${path.basename(row.model)}, ${row.threads} threads: failed: ${row.error}` : line(row)))]) console.log(text);
  if (rows.some((row) => row.error)) process.exitCode = 1;
}

module.exports = {
  Side, bin, compileModule, errorOf: folderError, errorText, exitWith, median, onnxFile, outputsOf, parseArguments, precisions, printRows, raceAll, raceModel, raceModules, racePrecisions,
  ratioOf, reasonIn, rowOrReason, startOnnxRuntime, takeTurns,
};
