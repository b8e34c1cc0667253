// From a file on disk to the first result: Lathe's runtime and ONNX Runtime in fresh processes, in turn.
//   ./run bench cold-start [--models resnet50,...] [--threads 1,2] [--shape NAME=1x3x48x192] [--rounds R]
//                        [--db FILE | --untuned] [--max-relative-error E] [--json]
// Prints milliseconds (loading plus the first inference), the part that is loading, and the peak of the resident memory;
// ratios are peer / ours, medians over the rounds. The files are in the page cache. Ours is charged for its whole
// process from main() on; the peer not for Node's memory, nor for loading its library.
'use strict';
const fs = require('fs'), os = require('os'), path = require('path');
const { execFileSync } = require('child_process');
const { bin, compileModule, exitWith, median, onnxFile, parseArguments, ratioOf } = require('./race.js');

const start = (command, args) => JSON.parse(execFileSync(command, args.map(String), { stdio: ['ignore', 'pipe', 'inherit'] }));

function race(model, threads, options, folder) {
  const onnx = onnxFile(model, folder), module = path.join(folder, `${path.basename(onnx, '.onnx')}.lathe`);
  compileModule(onnx, { ...options, threads }, module);
  const sides = {
    lathe: () => start(path.join(bin, 'lathe-cold-start'), [module, threads]),
    onnxruntime: () => start(process.execPath, [path.join(__dirname, 'cold_start_onnxruntime.js'), onnx, threads, ...options.shapes]),
  };
  const samples = { lathe: [], onnxruntime: [] }, names = Object.keys(sides);
  for (const name of names) sides[name](); // the files come into the page cache
  for (let round = 0; round < options.rounds; round++)
    for (const name of round % 2 ? names : [...names].reverse()) samples[name].push(sides[name]());
  const column = (name, key) => samples[name].map((sample) => sample[key]);
  const time = ratioOf(column('lathe', 'ms'), column('onnxruntime', 'ms'));
  const memory = ratioOf(column('lathe', 'peak_bytes'), column('onnxruntime', 'peak_bytes'));
  return {
    model: path.basename(onnx, '.onnx'), threads, time, memory,
    ours: { ms: median(column('lathe', 'ms')), load_ms: median(column('lathe', 'load_ms')), peak_mb: median(column('lathe', 'peak_bytes')) / 1e6 },
    peer: { ms: time.ms, load_ms: median(column('onnxruntime', 'load_ms')), peak_mb: memory.ms / 1e6 },
  };
}

function main() {
  const list = process.argv.slice(2);
  if (!list.includes('--models')) list.push('--models', 'resnet50');
  const options = parseArguments(list, 'cold-start [--models A,B] [--threads 1,2] [--shape NAME=1x3x48x192] [--db FILE | --untuned] [--max-relative-error E] [--rounds R] [--json]');
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'lathe-cold-')), rows = [];
  try {
    for (const threads of options.threads) for (const model of options.models) rows.push(race(model, threads, options, folder));
  } finally {
    fs.rmSync(folder, { recursive: true, force: true });
  }
  if (options.json) return console.log(JSON.stringify(rows));
  console.log('model          threads  lathe ms (load)   peer ms (load)   ratio  95% interval     lathe MB  peer MB  ratio');
  for (const { model, threads, ours, peer, time, memory } of rows)
    console.log(`${model.padEnd(14)} ${String(threads).padStart(7)}  ${ours.ms.toFixed(1).padStart(7)} (${ours.load_ms.toFixed(1)})    ${peer.ms.toFixed(1).padStart(8)} (${peer.load_ms.toFixed(1)})   ${time.ratio.toFixed(2)}  ${time.low.toFixed(2)} .. ${time.high.toFixed(2)}   ${ours.peak_mb.toFixed(1).padStart(8)} ${peer.peak_mb.toFixed(1).padStart(8)}   ${memory.ratio.toFixed(2)}`);
}

try {
  main();
} catch (error) {
  exitWith(error);
}
