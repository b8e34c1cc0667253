// Lathe and ONNX Runtime on the same ONNX file, in turn, in one experiment; prints the ratio of their times.
//   ./run bench vs-onnxruntime --models resnet18,path.onnx [--threads N] [--db FILE | --untuned] [--rounds R] [--json]
// A ratio is peer / ours: above 1, Lathe is faster. Its interval is the 95% confidence interval of the median over rounds;
// a round is one turn each, in an order that alternates, and compares the medians of the two turns.
'use strict';
const fs = require('fs'), os = require('os'), path = require('path');
const { execFileSync, spawn } = require('child_process');
const readline = require('readline');
const { readNpy, writeNpy, maxRelativeError, randomTensor } = require('./npy.js');

const root = path.join(__dirname, '..'), bin = path.join(root, 'build/release/bin');
const cache = process.env.LATHE_CACHE || path.join(process.env.XDG_CACHE_HOME || path.join(os.homedir(), '.cache'), 'lathe');

function usage(message) {
  console.error(`error: ${message}\nusage: ./run bench vs-onnxruntime --models A,B [--threads N] [--db FILE | --untuned] [--rounds R] [--json]`);
  process.exit(2);
}

function parseArguments(list) {
  const options = { models: [], threads: 1, rounds: 15, json: false, tuning: [] };
  for (let i = 0; i < list.length; i++) {
    const value = () => (i + 1 < list.length ? list[++i] : usage(`${list[i]} needs a value`));
    switch (list[i]) {
      case '--models': options.models = value().split(',').filter(Boolean); break;
      case '--threads': options.threads = Number(value()); break;
      case '--rounds': options.rounds = Number(value()); break;
      case '--db': options.tuning = ['--db', path.resolve(value())]; break;
      case '--untuned': options.tuning = ['--untuned']; break;
      case '--json': options.json = true; break;
      default: usage(`unknown option ${list[i]}`);
    }
  }
  if (!options.models.length) usage('--models is missing');
  if (!(options.threads >= 1) || !(options.rounds >= 6)) usage('--threads must be at least 1 and --rounds at least 6');
  return options;
}

/** The ONNX file of a zoo model (exported once a run) or the path given. */
function onnxFile(model, folder) {
  if (model.endsWith('.onnx')) return path.resolve(model);
  const file = path.join(folder, `${model}.onnx`);
  execFileSync(path.join(bin, 'tune'), ['export', '--model', model, '--out', file], { stdio: ['ignore', 'ignore', 'inherit'] });
  return file;
}

class OurTurn {
  constructor(module, threads, inputs) {
    this.child = spawn(path.join(bin, 'lathe-module-server'), [module, String(threads), ...inputs], { stdio: ['pipe', 'pipe', 'inherit'] });
    this.lines = readline.createInterface({ input: this.child.stdout })[Symbol.asyncIterator]();
  }
  async answer() {
    const { value, done } = await this.lines.next();
    if (done) throw new Error('lathe-module-server ended early');
    return JSON.parse(value);
  }
  async ask(line) {
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

async function race(ort, model, options, folder) {
  const onnx = onnxFile(model, folder), name = path.basename(onnx, '.onnx');
  const module = path.join(folder, `${name}.lathe`);
  execFileSync(path.join(bin, 'tune'), ['compile', '--model', onnx, '--target', 'cpu', '--threads', String(options.threads), ...options.tuning, '--out', module], { stdio: ['ignore', 'ignore', 'inherit'] });
  const session = await ort.InferenceSession.create(onnx, {
    intraOpNumThreads: options.threads, interOpNumThreads: 1, graphOptimizationLevel: 'all', executionMode: 'sequential', logSeverityLevel: 3,
  });
  const feeds = {}, bindings = [];
  session.inputMetadata.forEach((input, i) => {
    const shape = input.shape.map((dim) => (typeof dim === 'number' && dim > 0 ? dim : 1));
    const tensor = randomTensor(input.type, shape, 7 + i);
    const file = path.join(folder, `${name}_input_${i}.npy`);
    writeNpy(file, tensor);
    bindings.push(`${input.name}=${file}`);
    feeds[input.name] = new ort.Tensor(tensor.type, tensor.data, tensor.shape);
  });
  const ours = new OurTurn(module, options.threads, bindings);
  await ours.answer();

  const peerTurn = async (n) => {
    const times = [];
    for (let i = 0; i < n; i++) {
      const start = process.hrtime.bigint();
      await session.run(feeds);
      times.push(Number(process.hrtime.bigint() - start) / 1e6);
    }
    return times;
  };
  // A turn lasts about 0.25 s; two turns of warm-up.
  const probe = median(await peerTurn(3));
  const count = Math.max(3, Math.min(400, Math.round(250 / probe)));
  await peerTurn(count);
  await ours.ask(`run ${count}`);
  const oursMs = [], peerMs = [], ratios = [];
  for (let round = 0; round < options.rounds; round++) {
    let a, b;
    // The pause lets the threads of the side that just ran go to sleep before the other is timed.
    const runPeer = async () => { await pause(30); b = median(await peerTurn(count)); };
    const runOurs = async () => { await pause(30); a = median(await ours.ask(`run ${count}`)); };
    if (round % 2) { await runPeer(); await runOurs(); } else { await runOurs(); await runPeer(); }
    oursMs.push(a); peerMs.push(b); ratios.push(b / a);
  }
  const results = await session.run(feeds);
  const outputs = path.join(folder, `${name}_outputs`);
  fs.mkdirSync(outputs, { recursive: true });
  await ours.ask(`outputs ${outputs}`);
  ours.close();
  const errors = session.outputNames.map((output, i) => maxRelativeError(readNpy(path.join(outputs, `output_${i}.npy`)), results[output]));
  const [low, high] = medianInterval(ratios);
  return {
    model, threads: options.threads, ours_ms: median(oursMs), peer_ms: median(peerMs), ratio: median(ratios),
    ratio_low: low, ratio_high: high, max_rel_error: Math.max(...errors),
  };
}

async function main() {
  const options = parseArguments(process.argv.slice(2));
  const ort = require(path.join(cache, 'peers/node_modules/onnxruntime-node'));
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'lathe-bench-'));
  const rows = [];
  try {
    for (const model of options.models) {
      if (!options.json) console.error(`${model} ...`);
      rows.push(await race(ort, model, options, folder));
    }
  } finally {
    fs.rmSync(folder, { recursive: true, force: true });
  }
  if (options.json) {
    console.log(JSON.stringify(rows));
    return;
  }
  console.log('model                threads   lathe ms   ONNX Runtime ms   ratio  95% interval     max rel error');
  for (const r of rows)
    console.log(`${path.basename(r.model).padEnd(20)} ${String(r.threads).padStart(7)} ${r.ours_ms.toFixed(3).padStart(10)} ${r.peer_ms.toFixed(3).padStart(17)}   ${r.ratio.toFixed(3)}  ${r.ratio_low.toFixed(3)} .. ${r.ratio_high.toFixed(3)}   ${r.max_rel_error.toExponential(1)}`);
}

main().catch((error) => { console.error(`error: ${error.message}`); process.exit(2); });
