// One build with open dimensions, another build of ours and, of an ONNX file, ONNX Runtime, in turn, and what memory each plan takes.
//   ./run bench open-shapes --model encoder.onnx --sizes "x=1x1x128;x=1x17x128" [--open "H=32..1024;W"] [--db FILE] [--against alone|untuned]
//                           [--threads N] [--rounds R] [--json]
// Sizes are separated by `;`, the shapes of several inputs in one by `,`. Without --open all dimensions stay open, without bounds.
// The other build is for that size alone; against `untuned` it is one with open dimensions and default schedules. With a database both,
// or the one that is not untuned, are built from what it knows, else they have default schedules. Models that are no ONNX file get float32.
// A ratio is open / other: above 1, the open build is slower; the peer's is ONNX Runtime / open: above 1, the open build is faster.
// Intervals are the 95% confidence intervals of medians over rounds. The error is the open build's from ONNX Runtime, the largest
// difference of an output over its largest value. Memory, in KB: the arena of either plan (of a program, all that it has taken), the
// tensors of the open one if none took another's place, and what ONNX Runtime's process grew by in its first run.
'use strict';
const { execFileSync } = require('child_process');
const fs = require('fs');
const os = require('os');
const path = require('path');
const { Side, bin, errorOf, exitWith, median, outputsOf, parseArguments, ratioOf, startOnnxRuntime, takeTurns } = require('./race.js');
const { randomTensor, writeNpy } = require('./npy.js');

const usage = 'open-shapes --model FILE --sizes "x=1x1x128;x=1x17x128" [--open "H=32..1024;W"] [--db FILE] [--against alone|untuned] [--threads N] [--rounds R] [--json]';
const turn = { ms: 100, fewestRuns: 3, mostRuns: 400 };

const tune = (args) => execFileSync(path.join(bin, 'tune'), [...args, '--quiet'], { encoding: 'utf8', maxBuffer: 1 << 26 });
const parts = (text, separator) => text.split(separator).map((part) => part.trim()).filter(Boolean);
const given = (flag, values) => values.flatMap((value) => [flag, value]);

/** Bytes of the tensors of a module, {arena, tensors (of a program: undefined)}; `shapes` are those of a run where dimensions are open. */
function memoryOf(module, shapes) {
  const told = JSON.parse(tune(['bench', '--model', module, ...given('--shape', shapes), '--time', '0.01', '--json']));
  return { arena: told.arena_bytes, tensors: told.tensor_bytes };
}

/** Random inputs, as "NAME=FILE.npy", of shapes "NAME=1x3". */
function randomInputs(shapes, folder) {
  return shapes.map((text, i) => {
    const [name, dims] = text.split('='), file = path.join(folder, `input_${i}.npy`);
    writeNpy(file, randomTensor('float32', dims.split('x').map(Number), 7 + i));
    return `${name}=${file}`;
  });
}

async function race(open, untuned, shapes, options, folder) {
  const other = untuned || path.join(folder, 'other.lathe');
  if (!untuned) tune(['compile', '--model', options.model, ...given('--shape', shapes), ...options.schedules, '--out', other]);
  const peer = options.model.endsWith('.onnx') ? await startOnnxRuntime(options.model, options.threads, folder, shapes) : null;
  const inputs = peer ? peer.inputs : randomInputs(shapes, folder), sides = peer ? [peer.side] : [];
  try {
    for (const [name, module] of [['open', open], ['other', other]]) {
      sides.push(new Side(name, path.join(bin, 'lathe-module-server'), [module, options.threads, ...inputs]));
      await sides[sides.length - 1].answer();
    }
    const times = await takeTurns(sides, options.rounds, turn), own = ratioOf(times.other, times.open), memory = memoryOf(open, shapes);
    const row = {
      size: shapes.join(', '), open_ms: median(times.open), other_ms: median(times.other), ratio: own.ratio, ratio_low: own.low, ratio_high: own.high,
      open_arena: memory.arena, other_arena: memoryOf(other, untuned ? shapes : []).arena, tensor_bytes: memory.tensors,
    };
    if (!peer) return row;
    const against = ratioOf(times.open, times.onnxruntime);
    return {
      ...row, onnxruntime_bytes: (await peer.side.ask('memory'))[0], onnxruntime_ms: median(times.onnxruntime), peer_ratio: against.ratio, peer_ratio_low: against.low, peer_ratio_high: against.high,
      max_rel_error: errorOf(await outputsOf(sides[1], folder), await outputsOf(peer.side, folder)),
    };
  } finally {
    for (const side of sides) side.close();
  }
}

function printRow(row, first) {
  const column = (value, digits, width) => (value === undefined ? '-' : value.toFixed(digits)).padStart(width);
  const kilobytes = (bytes, width) => column(bytes && bytes / 1e3, 0, width);
  if (first) console.log('size                         open us  other us  ratio  95% interval   KB: open   other  tensors       ORT   ORT us  ORT/open    error');
  console.log([
    row.size.padEnd(26), column(row.open_ms * 1e3, 0, 9), column(row.other_ms * 1e3, 0, 9), ` ${column(row.ratio, 2, 5)}`,
    ` ${row.ratio_low.toFixed(2)} .. ${row.ratio_high.toFixed(2)}`, kilobytes(row.open_arena, 10), kilobytes(row.other_arena, 7), kilobytes(row.tensor_bytes, 8), kilobytes(row.onnxruntime_bytes, 9),
    ...('peer_ratio' in row ? [column(row.onnxruntime_ms * 1e3, 0, 8), column(row.peer_ratio, 2, 9), row.max_rel_error.toExponential(1).padStart(8)] : []),
  ].join(' '));
}

async function main() {
  const options = parseArguments(process.argv.slice(2), usage, {
    '--model': (into, value) => { into.model = path.resolve(value); return true; },
    '--sizes': (into, value) => { into.sizes = parts(value, ';'); return into.sizes.length > 0; },
    '--open': (into, value) => { into.open = parts(value, ';'); return into.open.length > 0; },
    '--db': (into, value) => { into.db = path.resolve(value); return true; },
    '--against': (into, value) => { into.against = value; return ['alone', 'untuned'].includes(value); },
  }, { models: null, open: ['all'], against: 'alone', rounds: 11 });
  if (!options.model || !options.sizes) throw new Error(`usage: ${usage}`);
  options.threads = options.threads[0];
  options.schedules = options.db ? ['--db', options.db, '--threads', options.threads] : ['--untuned'];
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'open-shapes-'));
  try {
    const open = path.join(folder, 'open.lathe'), rows = [], start = Date.now();
    const build = (schedules, out) => tune(['compile', '--model', options.model, ...given('--open', options.open), ...schedules, '--out', out]);
    build(options.schedules, open);
    const seconds = (Date.now() - start) / 1e3;
    const untuned = options.against === 'untuned' ? path.join(folder, 'untuned.lathe') : null;
    if (untuned) build(['--untuned'], untuned);
    for (const size of options.sizes) {
      rows.push(await race(open, untuned, parts(size, ','), options, folder));
      if (options.json) console.log(JSON.stringify(rows[rows.length - 1]));
      else printRow(rows[rows.length - 1], rows.length === 1);
    }
    const ratios = rows.map((r) => r.ratio), summary = { median: median(ratios), worst: Math.max(...ratios), compile_s: seconds };
    if ('peer_ratio' in rows[0]) summary.peer_median = median(rows.map((r) => r.peer_ratio));
    const told = 'peer_median' in summary ? `ONNX Runtime / open: median ${summary.peer_median.toFixed(2)}; ` : '';
    console.log(options.json ? JSON.stringify(summary)
      : `open / other: median ${summary.median.toFixed(2)}, worst ${summary.worst.toFixed(2)} of ${rows.length} sizes; ${told}`
        + `the open build was compiled in ${seconds.toFixed(0)} s`);
  } finally {
    fs.rmSync(folder, { recursive: true });
  }
}

main().catch((error) => {
  if (error.stderr) error.message = String(error.stderr).trim().replace(/^error: /, '');
  exitWith(Object.assign(error, { status: undefined }));
});
