// Random small models, Lathe (untuned unless --db is given) and ONNX Runtime in turn on each; prints the ratios of their times.
//   ./run bench random-models --seed S [--count N] [--kinds classic|rare|networks|odd|quantized|all | --kind K] [--sizes any|round] [--dtype float32|float16] [--threads N]
//                             [--precision bf16|int8] [--rounds R] [--db FILE] [--max-relative-error E] [--json]
// A ratio is peer / ours: above 1, Lathe is faster. --dtype is that of the models' real numbers. With --precision it is the
// time of our own float32 over that of the precision, and errors are from our float32. Errors are the largest difference of
// an output over its largest value: from the peer, or, where that is beyond the bound, from the model computed in float64.
// A block that fails, or whose result is wrong, is a row that says so; the ratios of the others make up the summary.
// Exit code 1 when a block failed on our side or was wrong, or when none could be raced. To have the files of a seed:
//   python3 bench/random_models.py FOLDER --seed S [--count N] [--kinds classic|rare|networks|odd|quantized|all | --kind K] [--sizes any|round] [--dtype float32|float16]
'use strict';
const fs = require('fs'), os = require('os'), path = require('path');
const { spawnSync } = require('child_process');
const { errorText, exitWith, parseArguments, raceModel, racePrecisions, reasonIn, rowOrReason } = require('./race.js');

const usage = 'random-models --seed S [--count N] [--kinds classic|rare|networks|odd|quantized|all | --kind K] [--sizes any|round] [--dtype float32|float16] [--threads N] [--precision bf16|int8] [--rounds R] [--db FILE] [--max-relative-error E] [--json]';
const mostRatio = 10; // what a ratio counts at most: one block that a peer does badly should not carry the mean
const turn = { ms: 90, fewestRuns: 3, mostRuns: 8000 }; // 9 rounds of both sides take some two seconds; a block of 10 us gets thousands of runs

// What results may be off by. In fewer bits a block differs by what rounding its operands gives: a wrong kernel is off
// by far more, and a good one of bfloat16 by some 1e-2, of 8 bits by some 1e-1 where sums are small beside their terms.
const bounds = { float32: 1e-3, float16: 1e-2, bfloat16: 5e-2, int8: 0.3 };
const precisionNames = { bf16: 'bfloat16', int8: 'int8' };

/** Writes the models into `folder`; exits with the generator's complaint. */
function generate({ seed, count, kinds, kind, sizes, dtype }, folder) {
  const args = [path.join(__dirname, 'random_models.py'), folder, '--seed', seed, '--count', count, '--kinds', kinds, '--sizes', sizes, '--dtype', dtype, ...(kind ? ['--kind', kind] : [])];
  const { status, stdout, stderr, error } = spawnSync('/usr/bin/python3', args.map(String), { encoding: 'utf8', maxBuffer: 1 << 26 });
  if (status !== 0) throw error || new Error(reasonIn(stderr));
  return stdout.split('\n').filter(Boolean);
}

/** {ours_ms, peer_ms, ratio, ratio_low, ratio_high, max_rel_error} of a model; the peer of fewer bits is our float32. */
async function race(model, options, folder) {
  if (!options.precision) {
    const { ours_ms, peers: { onnxruntime: peer }, error_float64, ...row } = await raceModel(model, { ...options, float64From: bounds[options.dtype] }, folder);
    const max_rel_error = error_float64 ?? row.max_rel_error; // where the two differ, the float64 result says who is off
    return { ours_ms, peer_ms: peer.ms, ratio: peer.ratio, ratio_low: peer.low, ratio_high: peer.high, max_rel_error };
  }
  const [float32, ours] = await racePrecisions(model, { ...options, precisions: ['float32', options.precision] }, folder);
  return { ours_ms: ours.ms, peer_ms: float32.ms, ratio: ours.ratio, ratio_low: ours.ratio_low, ratio_high: ours.ratio_high, max_rel_error: ours.error_float32 };
}

/** 'ok', 'wrong: ...', 'failed: ...' (our side) or 'peer failed: ...'. */
function statusOf(row, bound) {
  if (row.error) return `${row.error_is_ours ? 'failed' : 'peer failed'}: ${row.error}`;
  return row.max_rel_error <= bound ? 'ok' : `wrong: off by more than ${bound}`;
}

async function raceBlock(file, options) {
  const model = path.basename(file, '.onnx'), folder = fs.mkdtempSync(path.join(path.dirname(file), 'race_'));
  try {
    const row = { model, ...await rowOrReason({}, () => race(file, options, folder)) };
    return { ...row, status: statusOf(row, bounds[options.precision || options.dtype]) };
  } finally {
    fs.rmSync(folder, { recursive: true, force: true });
    fs.rmSync(file);
  }
}

/** Over the blocks that are right. The tenth percentile is a ratio of the list: a tenth of them are as low or lower. */
function summaryOf(rows) {
  const good = rows.filter((row) => row.status === 'ok').sort((a, b) => a.ratio - b.ratio), ratios = good.map((row) => row.ratio);
  const count = (status) => rows.filter((row) => row.status.startsWith(status)).length;
  const logs = ratios.map((ratio) => Math.log(Math.min(ratio, mostRatio)));
  return {
    blocks: rows.length, raced: good.length, failed: count('failed'), wrong: count('wrong'), peer_failed: count('peer failed'),
    geometric_mean: good.length ? Math.exp(logs.reduce((a, b) => a + b, 0) / logs.length) : null,
    tenth_percentile: good.length ? ratios[Math.ceil(good.length / 10) - 1] : null,
    least: good.length ? ratios[0] : null,
    worst: good.slice(0, 5).map(({ model, ratio }) => ({ model, ratio })),
  };
}

const cell = (value, digits) => (value === undefined ? '-' : value.toFixed(digits));
const line = (r) => `${r.model.padEnd(52)} ${cell(r.ours_ms, 4).padStart(9)} ${cell(r.peer_ms, 4).padStart(9)} ${cell(r.ratio, 3).padStart(7)}  ${(r.error ? '-' : errorText(r.max_rel_error)).padStart(13)}  ${r.status}`;

function printSummary(s) {
  const text = (value) => (value === null ? '-' : value.toFixed(3));
  console.log(`\n${s.raced} of ${s.blocks} blocks raced; failed: ${s.failed}, wrong: ${s.wrong}, peer failed: ${s.peer_failed}`);
  console.log(`ratio: geometric mean ${text(s.geometric_mean)} (each counted as ${mostRatio} at most), tenth percentile ${text(s.tenth_percentile)}, least ${text(s.least)}`);
  console.log(`worst: ${s.worst.map(({ model, ratio }) => `${model} ${text(ratio)}`).join(', ') || '-'}`);
}

const flags = {
  '--seed': (options, text) => /^\d{1,15}$/.test(text) && ((options.seed = Number(text)), true),
  '--count': (options, text) => /^[1-9]\d{0,4}$/.test(text) && ((options.count = Number(text)), true),
  '--kinds': (options, text) => ['classic', 'rare', 'networks', 'odd', 'quantized', 'all'].includes(text) && ((options.kinds = text), true),
  '--kind': (options, text) => ((options.kind = text), true),
  '--sizes': (options, text) => ['any', 'round'].includes(text) && ((options.sizes = text), true),
  '--dtype': (options, text) => ['float32', 'float16'].includes(text) && ((options.dtype = text), true),
  '--precision': (options, text) => (options.precision = precisionNames[text]) !== undefined,
};

async function main() {
  const options = parseArguments(process.argv.slice(2), usage, flags, { models: null, rounds: 9, count: 50, kinds: 'all', sizes: 'any', dtype: 'float32', turn, float64From: Infinity });
  if (options.seed === undefined) throw new Error('--seed is missing');
  if (options.threads.length > 1) throw new Error('--threads is one number here');
  options.threads = options.threads[0];
  if (!options.tuning.includes('--db')) options.tuning.push('--untuned');
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'lathe-random-')), rows = [];
  const [ours, peer] = options.precision ? [options.precision, 'float32'] : ['lathe', 'peer'];
  try {
    const files = generate(options, folder);
    if (!options.json) console.log(`${'model'.padEnd(52)} ${`${ours} ms`.padStart(9)} ${`${peer} ms`.padStart(9)}   ratio  max rel error  status`);
    for (const file of files) {
      rows.push(await raceBlock(file, options));
      if (!options.json) console.log(line(rows[rows.length - 1]));
      else if (process.stderr.isTTY) console.error(line(rows[rows.length - 1]));
    }
  } finally {
    fs.rmSync(folder, { recursive: true, force: true });
  }
  const summary = summaryOf(rows), { seed, count, kinds, kind, sizes, threads, precision, rounds } = options;
  if (options.json) console.log(JSON.stringify({ seed, count, kinds, kind, sizes, threads, precision: precision || 'float32', rounds, rows, summary }));
  else printSummary(summary);
  if (summary.failed || summary.wrong || !summary.raced) process.exitCode = 1;
}

main().catch(exitWith);
