// One build with open dimensions, a build for each size alone and ONNX Runtime, in turn, and what memory each plan takes.
//   ./run bench open-shapes --model encoder.onnx --sizes "x=1x1x128;x=1x17x128" [--open "H=32..1024;W"] [--threads N] [--rounds R] [--json]
// Sizes are separated by `;`, the shapes of several inputs in one by `,`. Without --open all dimensions stay open, without bounds.
// A ratio is open / alone: above 1, the open build is slower; the peer's is ONNX Runtime / open: above 1, the open build is faster.
// Intervals are the 95% confidence intervals of medians over rounds. The error is the open build's from ONNX Runtime, the largest
// difference of an output over its largest value. Memory is the plan's arena, in bytes.
'use strict';
const { execFileSync } = require('child_process');
const fs = require('fs');
const os = require('os');
const path = require('path');
const { Side, bin, errorOf, exitWith, median, outputsOf, parseArguments, ratioOf, startOnnxRuntime, takeTurns } = require('./race.js');

const usage = 'open-shapes --model FILE --sizes "x=1x1x128;x=1x17x128" [--open "H=32..1024;W"] [--threads N] [--rounds R] [--json]';
const turn = { ms: 100, fewestRuns: 3, mostRuns: 400 };

const tune = (args) => execFileSync(path.join(bin, 'tune'), [...args, '--quiet'], { encoding: 'utf8', maxBuffer: 1 << 26 });
const parts = (text, separator) => text.split(separator).map((part) => part.trim()).filter(Boolean);
const given = (flag, values) => values.flatMap((value) => [flag, value]);

/** The arena of a module; `shapes` are those of a run where dimensions are open. */
function arenaOf(module, shapes) {
  return JSON.parse(tune(['bench', '--model', module, ...given('--shape', shapes), '--time', '0.01', '--json'])).arena_bytes;
}

async function race(open, shapes, options, folder) {
  const alone = path.join(folder, 'alone.lathe');
  tune(['compile', '--model', options.model, ...given('--shape', shapes), '--untuned', '--out', alone]);
  const { side: peer, inputs } = await startOnnxRuntime(options.model, options.threads, folder, shapes);
  const sides = [peer];
  try {
    for (const [name, module] of [['open', open], ['alone', alone]]) {
      sides.push(new Side(name, path.join(bin, 'lathe-module-server'), [module, options.threads, ...inputs]));
      await sides[sides.length - 1].answer();
    }
    const times = await takeTurns(sides, options.rounds, turn);
    const own = ratioOf(times.alone, times.open), other = ratioOf(times.open, times.onnxruntime);
    return {
      size: shapes.join(', '), open_ms: median(times.open), alone_ms: median(times.alone), onnxruntime_ms: median(times.onnxruntime),
      ratio: own.ratio, ratio_low: own.low, ratio_high: own.high, peer_ratio: other.ratio, peer_ratio_low: other.low, peer_ratio_high: other.high,
      max_rel_error: errorOf(await outputsOf(sides[1], folder), await outputsOf(peer, folder)),
      open_arena: arenaOf(open, shapes), alone_arena: arenaOf(alone, []),
    };
  } finally {
    for (const side of sides) side.close();
  }
}

function printRow(row, first) {
  const column = (value, digits, width) => value.toFixed(digits).padStart(width);
  if (first) console.log('size                         open us  alone us  ratio  95% interval   ORT us  ORT/open    error   arena KB: open     alone');
  console.log([
    row.size.padEnd(26), column(row.open_ms * 1e3, 0, 9), column(row.alone_ms * 1e3, 0, 9), ` ${column(row.ratio, 2, 5)}`,
    ` ${row.ratio_low.toFixed(2)} .. ${row.ratio_high.toFixed(2)}`, column(row.onnxruntime_ms * 1e3, 0, 8), column(row.peer_ratio, 2, 9),
    row.max_rel_error.toExponential(1).padStart(8), column(row.open_arena / 1e3, 0, 16), column(row.alone_arena / 1e3, 0, 9),
  ].join(' '));
}

async function main() {
  const options = parseArguments(process.argv.slice(2), usage, {
    '--model': (into, value) => { into.model = path.resolve(value); return true; },
    '--sizes': (into, value) => { into.sizes = parts(value, ';'); return into.sizes.length > 0; },
    '--open': (into, value) => { into.open = parts(value, ';'); return into.open.length > 0; },
  }, { models: null, open: ['all'], rounds: 11 });
  if (!options.model || !options.sizes) throw new Error(`usage: ${usage}`);
  options.threads = options.threads[0];
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'open-shapes-'));
  try {
    const open = path.join(folder, 'open.lathe'), rows = [], start = Date.now();
    tune(['compile', '--model', options.model, ...given('--open', options.open), '--untuned', '--out', open]);
    const seconds = (Date.now() - start) / 1e3;
    for (const size of options.sizes) {
      rows.push(await race(open, parts(size, ','), options, folder));
      if (options.json) console.log(JSON.stringify(rows[rows.length - 1]));
      else printRow(rows[rows.length - 1], rows.length === 1);
    }
    const ratios = rows.map((r) => r.ratio), summary = {
      median: median(ratios), worst: Math.max(...ratios), peer_median: median(rows.map((r) => r.peer_ratio)), compile_s: seconds,
    };
    console.log(options.json ? JSON.stringify(summary)
      : `open / alone: median ${summary.median.toFixed(2)}, worst ${summary.worst.toFixed(2)} of ${rows.length} sizes; `
        + `ONNX Runtime / open: median ${summary.peer_median.toFixed(2)}; the open build was compiled in ${seconds.toFixed(0)} s`);
  } finally {
    fs.rmSync(folder, { recursive: true });
  }
}

main().catch((error) => {
  if (error.stderr) error.message = String(error.stderr).trim().replace(/^error: /, '');
  exitWith(Object.assign(error, { status: undefined }));
});
