// One build with open dimensions against a build for each size alone, in turn, and what memory each takes.
//   ./run bench open-shapes --model encoder.onnx --sizes "x=1x1x128;x=1x17x128" [--threads N] [--rounds R] [--json]
//                           [--db FILE] [--open "batch=1..8;length=1..512"] [--against alone|untuned]
// With a database both are built from what it knows of them, else both have default schedules; against `untuned` the other side
// is one build with open dimensions and default schedules. What --open says (all) is what
// `tune compile --open` takes, once for each `;`.
// Sizes are separated by `;`, the shapes of several inputs in one by `,`. A ratio is open / alone: above 1, the open build
// is slower; its interval is the 95% confidence interval of the median over rounds. Memory is the plan's arena, in bytes.
'use strict';
const { execFileSync } = require('child_process');
const fs = require('fs');
const os = require('os');
const path = require('path');

const usage = 'usage: open-shapes --model FILE --sizes "x=1x1x128;x=1x17x128" [--threads N] [--rounds R] [--json] [--db FILE] [--open "n=1..64;m"] [--against alone|untuned]';
const tune = path.join(__dirname, '..', 'build', 'release', 'bin', 'tune');

function parse(args) {
  const options = { threads: '1', rounds: 11, json: false, open: 'all', against: 'alone' };
  for (let i = 0; i < args.length; ++i) {
    const name = args[i].replace(/^--/, '');
    if (name === 'json') options.json = true;
    else if (['model', 'sizes', 'threads', 'rounds', 'db', 'open', 'against'].includes(name) && i + 1 < args.length) options[name] = args[++i];
    else throw new Error(`unknown argument \`${args[i]}\`\n${usage}`);
  }
  if (!options.model || !options.sizes || !(Number(options.rounds) >= 1) || !['alone', 'untuned'].includes(options.against)) throw new Error(usage);
  return options;
}

const run = (args) => execFileSync(tune, [...args, '--quiet'], { encoding: 'utf8', maxBuffer: 1 << 26 });
const shapes = (size) => size.split(',').filter(Boolean).flatMap((shape) => ['--shape', shape.trim()]);
const middle = (values) => [...values].sort((a, b) => a - b)[values.length >> 1];

/// The interval of the median by order statistics: the ranks that hold it with 95% at least.
function interval(values) {
  const sorted = [...values].sort((a, b) => a - b), n = sorted.length;
  let tail = 0, term = 0.5 ** n, rank = 0;
  while (rank < n >> 1 && tail + term <= 0.025) {
    tail += term;
    term *= (n - rank) / (rank + 1);
    ++rank;
  }
  const low = Math.max(rank - 1, 0);
  return [sorted[low], sorted[n - 1 - low]];
}

function measure(module, size, threads) {
  return JSON.parse(run(['bench', '--model', module, ...shapes(size), '--threads', threads, '--time', '0.1', '--json']));
}

function printRow(row, first) {
  const column = (value, digits, width) => value.toFixed(digits).padStart(width);
  if (first) console.log('size                              open us   other us  ratio  95% interval    arena KB: open     other');
  console.log([
    row.size.padEnd(30), column(row.open_ms * 1e3, 1, 10), column(row.alone_ms * 1e3, 1, 10), ` ${column(row.ratio, 2, 5)}`,
    ` ${row.ratio_low.toFixed(2)} .. ${row.ratio_high.toFixed(2)}`, ` ${column(row.open_arena / 1e3, 0, 15)}`,
    column(row.alone_arena / 1e3, 0, 9),
  ].join(' '));
}

function main() {
  const options = parse(process.argv.slice(2));
  const schedules = options.db ? ['--db', options.db, '--threads', options.threads] : ['--untuned'];
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'open-shapes-'));
  try {
    const open = path.join(folder, 'open.lathe'), rows = [];
    const dims = options.open.split(';').flatMap((dim) => ['--open', dim]), untuned = options.against === 'untuned';
    run(['compile', '--model', options.model, ...dims, ...schedules, '--out', open]);
    if (untuned) run(['compile', '--model', options.model, ...dims, '--untuned', '--out', path.join(folder, 'alone.lathe')]);
    for (const size of options.sizes.split(';').map((s) => s.trim()).filter(Boolean)) {
      const alone = path.join(folder, 'alone.lathe');
      if (!untuned) run(['compile', '--model', options.model, ...shapes(size), ...schedules, '--out', alone]);
      const times = { open: [], alone: [] };
      let memory = {};
      for (let round = 0; round < Number(options.rounds); ++round)
        for (const side of round % 2 ? ['open', 'alone'] : ['alone', 'open']) {
          const report = side === 'open' ? measure(open, size, options.threads) : measure(alone, untuned ? size : '', options.threads);
          times[side].push(report.median_ms);
          memory[side] = report.arena_bytes;
        }
      const ratios = times.open.map((ms, i) => ms / times.alone[i]), [low, high] = interval(ratios);
      const row = {
        size, open_ms: middle(times.open), alone_ms: middle(times.alone), ratio: middle(ratios), ratio_low: low, ratio_high: high,
        open_arena: memory.open, alone_arena: memory.alone,
      };
      rows.push(row);
      if (options.json) console.log(JSON.stringify(row));
      else printRow(row, rows.length === 1);
    }
    const ratios = rows.map((r) => r.ratio), median = middle(ratios), worst = Math.max(...ratios);
    console.log(options.json ? JSON.stringify({ median, worst })
      : `median ${median.toFixed(2)}, worst ${worst.toFixed(2)} of ${rows.length} sizes`);
  } finally {
    fs.rmSync(folder, { recursive: true });
  }
}

try {
  main();
} catch (error) {
  console.error(`error: ${error.stderr || error.message}`);
  process.exit(2);
}
