// A Llama, of random weights or a trained one, by Lathe, ONNX Runtime and llama.cpp in turn, in one experiment; prints the ratios of their times.
//   ./run bench llama [--points 512+1,768+1,1023+1,0+512] [--model '--layers 16 ...' | --folder DIR] [--precision int8]
//     [--threads N[,N]] [--db FILE] [--rounds R] [--json]
// A point is PAST+NEW: so many tokens in the cache, so many taken at once behind them. The weights are those of llama_model.py,
// in float32 on all sides, with --model its flags (`--weights FILE` takes a trained model's); --folder: where it was run already. --precision int8: Lathe's products are of
// 8 bits, activations too, calibrated on other tokens, llama.cpp's matrices are Q8_0, and ONNX Runtime stays as it is. The past is what ONNX Runtime computes of the tokens before; what Lathe and
// llama.cpp make of it is compared with ONNX Runtime's logits. A ratio is peer / ours: above 1, Lathe is faster. GB/s: the matrices, each
// read once, over our time; and its share of what one thread reads of a large block here (lathe-bench-bandwidth).
'use strict';
const fs = require('fs'), os = require('os'), path = require('path');
const { spawnSync } = require('child_process');
const { maxRelativeError, randomTensor, readNpy, writeNpy } = require('./npy.js');
const {
  Side, bin, compileModule, errorText, exitWith, median, parseArguments, printRows, ratioOf, reasonIn, rowOrReason, takeTurns,
} = require('./race.js');

const usage = "llama [--points 0+512,...] [--model '--layers 16 ...' | --folder DIR] [--precision int8] [--threads N[,N]] [--db FILE] [--rounds R] [--json]";
const turn = { ms: 1000, fewestRuns: 1, mostRuns: 100 };
const columns = [
  'past + new', 'threads', 'Lathe ms', 'ONNX Runtime ms', 'llama.cpp ms', 'ONNX Runtime / ours', '95% interval', 'llama.cpp / ours', '95% interval',
  'tokens/s', 'GB/s', 'of what is read', 'error', 'of llama.cpp',
];

/** Runs a command to its end; its standard output. Throws with what it said. */
function output(command, args) {
  const { status, stdout, stderr, error } = spawnSync(command, args, { encoding: 'utf8', maxBuffer: 1 << 26 });
  if (status !== 0) throw new Error(`${path.basename(args[0] || command)}: ${error ? error.message : reasonIn(stderr)}`);
  return stdout;
}

function makeModel(flags, folder) {
  output('/usr/bin/python3', [path.join(__dirname, 'llama_model.py'), folder, ...flags.split(' ').filter(Boolean)]);
}

/** What is raced at any point: {onnx, gguf, cache (the shape of p tokens), vocabulary, matrixBytes}. */
function modelIn(folder) {
  const { layers, kv_heads: heads, head, vocabulary, matrix_bytes: matrixBytes } = JSON.parse(fs.readFileSync(path.join(folder, 'llama.json')));
  const [onnx, gguf] = ['onnx', 'gguf'].map((end) => path.join(folder, `llama.${end}`));
  return { onnx, gguf, cache: (p) => [layers, 1, heads, p, head], vocabulary, matrixBytes };
}

/** GB/s that one thread reads: the most of several times, for it is the limit. */
function readBandwidth() {
  const flags = ['--benchmark_filter=read/huge_pages/400', '--benchmark_repetitions=9', '--benchmark_format=json'];
  const runs = JSON.parse(output(path.join(bin, 'lathe-bench-bandwidth'), flags)).benchmarks.filter((run) => run.run_type === 'iteration');
  return Math.max(...runs.map((run) => run.bytes_per_second)) / 1e9;
}

const int64 = (numbers) => ({ type: 'int64', shape: [1, numbers.length], data: BigInt64Array.from(numbers, BigInt) });

/** Writes the inputs that take ids [past, past + fresh) behind a cache; as NAME=FILE.npy. */
function writeInputs(ids, past, fresh, caches, folder) {
  const tensors = {
    ids: int64(ids.slice(past, past + fresh)), pos: int64([...Array(fresh).keys()].map((i) => past + i)), past_k: caches[0], past_v: caches[1],
  };
  return Object.entries(tensors).map(([name, tensor]) => {
    const file = path.join(folder, `${name}_${past}_${fresh}.npy`);
    writeNpy(file, tensor);
    return `${name}=${file}`;
  });
}

function onnxRuntime(model, threads, folder, inputs) {
  return new Side('onnxruntime', process.execPath, [path.join(__dirname, 'onnxruntime_server.js'), model.onnx, threads, folder, ...inputs]);
}

/** Keys and values of the first `past` ids. */
async function cachesOf(model, ids, past, folder) {
  const empty = { type: 'float32', shape: model.cache(0), data: new Float32Array(0) };
  if (!past) return [empty, empty];
  const side = onnxRuntime(model, os.cpus().length, folder, writeInputs(ids, 0, past, [empty, empty], folder));
  await side.answer();
  const results = fs.mkdtempSync(path.join(folder, 'past_'));
  await side.ask(`outputs ${results}`);
  side.close();
  return [1, 2].map((i) => {
    const { type, dims, data } = readNpy(path.join(results, `output_${i}.npy`));
    return { type, shape: dims, data };
  });
}

/** The logits that a side gives, as readNpy reads them. */
async function logitsOf(side, folder) {
  const results = fs.mkdtempSync(path.join(folder, `${side.name}_`));
  await side.ask(`outputs ${results}`);
  const logits = readNpy(path.join(results, 'output_0.npy'));
  fs.rmSync(results, { recursive: true });
  return logits;
}

/** `count` ids, others for each seed. */
const idsOf = (count, seed, vocabulary) => [...randomTensor('int32', [count], seed).data].map((x, i) => (x * 7919 + i * 104729) % vocabulary);

/** In 8 bits, calibrated on 4 other tokens or more. */
async function compileIn8Bits(model, { past, fresh }, options, module) {
  const folder = fs.mkdtempSync(`${module}-`), narrow = path.join(folder, 'llama-int8.onnx'), samples = [];
  for (let taken = 0, seed = 8; taken < 4; taken += fresh, seed++) {
    const ids = idsOf(past + fresh, seed, model.vocabulary), own = path.join(folder, String(seed));
    fs.mkdirSync(own);
    samples.push(...writeInputs(ids, past, fresh, await cachesOf(model, ids, past, folder), own));
  }
  output(path.join(bin, 'tune'), ['quantize', '--model', model.onnx, '--out', narrow,
    ...options.shapes.flatMap((shape) => ['--shape', shape]), ...samples.flatMap((sample) => ['--calibrate', sample])]);
  compileModule(narrow, { ...options, shapes: [] }, module);
  fs.rmSync(folder, { recursive: true });
}

async function racePoint(model, point, options, folder) {
  const { past, fresh } = point, { threads } = options, module = path.join(folder, 'llama.lathe');
  const ids = idsOf(past + fresh, 7, model.vocabulary);
  const caches = await cachesOf(model, ids, past, folder), inputs = writeInputs(ids, past, fresh, caches, folder);
  const shapes = [`ids=1x${fresh}`, `pos=1x${fresh}`, ...['past_k', 'past_v'].map((name) => `${name}=${model.cache(past).join('x')}`)];
  if (options.bytesPerWeight === 4) compileModule(model.onnx, { ...options, shapes }, module);
  else await compileIn8Bits(model, point, { ...options, shapes }, module);
  const all = path.join(folder, 'ids.npy');
  writeNpy(all, int64(ids));
  const sides = [
    new Side('lathe', path.join(bin, 'lathe-module-server'), [module, threads, ...inputs]),
    onnxRuntime(model, threads, folder, inputs),
    new Side('llama.cpp', process.execPath, [path.join(__dirname, 'llama_cpp_server.mjs'), model.gguf, threads, past, fresh, all]),
  ];
  try {
    for (const side of sides) await side.answer();
    const times = await takeTurns(sides, options.rounds, turn), logits = [];
    for (const side of sides) logits.push(await logitsOf(side, folder));
    const ms = median(times.lathe), gigabytes = (model.matrixBytes / 4) * options.bytesPerWeight / 1e6 / ms;
    return {
      point: `${past}+${fresh}`, threads, ours_ms: ms,
      onnxruntime: ratioOf(times.lathe, times.onnxruntime), llama_cpp: ratioOf(times.lathe, times['llama.cpp']),
      tokens_a_second: (fresh * 1e3) / ms, gigabytes, share: gigabytes / options.bandwidth,
      max_rel_error: maxRelativeError(logits[0], logits[1]), llama_cpp_error: maxRelativeError(logits[2], logits[1]),
    };
  } finally {
    for (const side of sides) side.close();
    fs.rmSync(module, { force: true });
  }
}

function pointOf(text) {
  const [, past, fresh] = /^(\d+)\+([1-9]\d*)$/.exec(text) || [];
  return fresh && { past: Number(past), fresh: Number(fresh) };
}

async function main() {
  const options = parseArguments(process.argv.slice(2), usage, {
    '--points': (o, value) => { o.points = value.split(',').map(pointOf); return o.points.every(Boolean); },
    '--model': (o, value) => { o.model = value; return true; },
    '--precision': (o, value) => {
      if (value !== 'int8') return false;
      o.bytesPerWeight = 1;
      return true;
    },
    '--folder': (o, value) => { o.folder = value; return fs.existsSync(path.join(value, 'llama.json')); },
  }, { models: null, points: ['512+1', '768+1', '1023+1', '0+512'].map(pointOf), model: '', rounds: 10, bytesPerWeight: 4 });
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'lathe-llama-')), rows = [];
  try {
    if (!options.folder) makeModel(options.bytesPerWeight === 1 ? `${options.model} --q8` : options.model, folder);
    const model = modelIn(options.folder || folder);
    options.bandwidth = readBandwidth();
    for (const threads of options.threads) {
      for (const point of options.points) {
        if (!options.json) console.error(`${point.past}+${point.fresh}, ${threads} thread${threads > 1 ? 's' : ''} ...`);
        const what = { model: `${point.past}+${point.fresh}`, threads };
        rows.push(await rowOrReason(what, () => racePoint(model, point, { ...options, threads }, folder)));
      }
    }
  } finally {
    fs.rmSync(folder, { recursive: true, force: true });
  }
  const header = [
    `one thread reads ${options.bandwidth.toFixed(1)} GB/s`,
    `| ${columns.join(' | ')} |`, `|${columns.map(() => '---|').join('')}`,
  ];
  const ratio = ({ ratio: r, low, high }) => `${r.toFixed(3)} | ${low.toFixed(3)} .. ${high.toFixed(3)}`;
  printRows(rows, options, header, (r) => (
    `| ${[
      r.point, r.threads, r.ours_ms.toFixed(1), r.onnxruntime.ms.toFixed(1), r.llama_cpp.ms.toFixed(1), ratio(r.onnxruntime), ratio(r.llama_cpp),
      r.tokens_a_second.toFixed(1), r.gigabytes.toFixed(1), `${(100 * r.share).toFixed(0)}%`, errorText(r.max_rel_error), errorText(r.llama_cpp_error),
    ].join(' | ')} |`));
}

main().catch(exitWith);
