// How often the performance gate alarms for nothing, and how often it misses a slowdown: real runs, on this machine.
//   ./run bench gate [--models dqn] [--gates 100] [--share 0.03] [--margin 0.02] [--time 0.1s] [--seed 0] [--minutes M] [--threads N] [--json]
// A gate of each kind in turn, so that both meet the same machine: "unchanged" compares a module with one of the same
// kernels under another name (other bytes, so it is measured), "slower" with one in which one kernel repeats until the
// whole model takes the share longer. The seed of gate i is the given one and i. After the minutes no new one is begun. Exit code 1 when
// more than 2% of the unchanged fail or more than 5% of the slower pass.
'use strict';
const fs = require('fs'), os = require('os'), path = require('path');
const { spawnSync } = require('child_process');
const { bin, exitWith, parseArguments, reasonIn } = require('./race.js');

const usage = 'gate [--models dqn] [--gates 100] [--share 0.03] [--margin 0.02] [--time 0.1s] [--seed 0] [--minutes M] [--threads N] [--json]';

/** The JSON that a binary prints; exit codes above 3 are errors of the run. */
function jsonOf(binary, args) {
  const { status, stdout, stderr } = spawnSync(path.join(bin, binary), args.map(String), { encoding: 'utf8', maxBuffer: 1 << 26 });
  if (status === null || status === 2 || status > 3) throw new Error(`${binary}: ${reasonIn(stderr)}`);
  return JSON.parse(stdout);
}

const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

/** What many gates do: the means of ten runs of each side are apart by 5%. */
function naiveAlarm({ baseline, candidate }) {
  return mean(candidate.samples_ms.slice(0, 10)) > 1.05 * mean(baseline.samples_ms.slice(0, 10));
}

/** One gate: {verdict, pairs, seconds, change, naive}. */
function gate(folder, candidate, seed, { margin, time, threads }) {
  const report = jsonOf('tune', ['gate', '--baseline', path.join(folder, 'as_is.lathe'), '--candidate', path.join(folder, `${candidate}.lathe`),
    '--margin', margin, '--time', time, '--threads', threads[0], '--seed', seed, '--json', '--quiet']);
  const [unit] = report.units;
  return { verdict: unit.verdict, pairs: unit.pairs, seconds: report.seconds, change: unit.ratio - 1, naive: naiveAlarm(unit) };
}

const quantile = (values, share) => [...values].sort((a, b) => a - b)[Math.floor(share * (values.length - 1))];

/** A row about the gates of one kind. */
function summary(kind, gates) {
  const count = (verdict) => gates.filter((each) => each.verdict === verdict).length, of = (key) => gates.map((each) => each[key]);
  return {
    kind, gates: gates.length, fail: count('FAIL'), pass: count('PASS'), improved: count('IMPROVED'), inconclusive: count('INCONCLUSIVE'),
    pairs: [0.1, 0.5, 0.9].map((share) => quantile(of('pairs'), share)), seconds: quantile(of('seconds'), 0.5),
    change: [0.1, 0.5, 0.9].map((share) => quantile(of('change'), share)), naive_alarms: gates.filter((each) => each.naive).length,
  };
}

const percent = (share) => `${(100 * share).toFixed(1)}%`;

function print(rows, planted, { margin }) {
  console.log(`planted: ${planted.kernel} ${planted.times} times more, slower by ${percent(planted.raced)} (${percent(planted.raced_low)} .. ${percent(planted.raced_high)}) in a race; margin ${percent(margin)}`);
  console.log('| candidate | gates | FAIL | PASS | IMPROVED | INCONCLUSIVE | pairs: 10th, 50th, 90th | seconds | change found: 10th, 50th, 90th | alarms of "mean of 10 > 5%" |\n|---|---|---|---|---|---|---|---|---|---|');
  for (const r of rows) console.log(`| ${r.kind} | ${r.gates} | ${r.fail} | ${r.pass} | ${r.improved} | ${r.inconclusive} | ${r.pairs.join(', ')} | ${r.seconds.toFixed(1)} | ${r.change.map(percent).join(', ')} | ${r.naive_alarms} |`);
}

function main() {
  const positive = (key) => (o, value) => { o[key] = Number(value); return o[key] > 0; };
  const options = parseArguments(process.argv.slice(2), usage, {
    '--gates': positive('gates'), '--seed': (o, value) => { o.seed = Number(value); return Number.isInteger(o.seed) && o.seed >= 0; },
    '--share': positive('share'), '--margin': positive('margin'), '--minutes': positive('minutes'),
    '--time': (o, value) => { o.time = value; return /^[\d.]+s$/.test(value); },
  }, { models: ['dqn'], gates: 100, seed: 0, share: 0.03, margin: 0.02, time: '0.1s', minutes: Infinity });
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'lathe-gate-')), unchanged = [], slower = [];
  try {
    const planted = jsonOf('lathe-planted-slowdown', ['--model', options.models[0], '--share', options.share, '--threads', options.threads[0], '--out', folder]);
    const begun = Date.now();
    for (let i = 0; i < options.gates && Date.now() - begun < options.minutes * 60e3; i++) {
      unchanged.push(gate(folder, 'again', options.seed + i, options));
      slower.push(gate(folder, 'slower', options.seed + i, options));
      if (!options.json) console.error(`${i + 1} of ${options.gates}: unchanged ${unchanged[i].verdict}, slower ${slower[i].verdict}`);
    }
    const rows = [summary('unchanged', unchanged), summary('slower', slower)];
    if (options.json) console.log(JSON.stringify({ planted, rows, unchanged, slower }));
    else print(rows, planted, options);
    if (rows[0].fail > 0.02 * rows[0].gates || rows[1].pass + rows[1].improved > 0.05 * rows[1].gates) process.exitCode = 1;
  } finally {
    fs.rmSync(folder, { recursive: true, force: true });
  }
}

try {
  main();
} catch (error) {
  exitWith(error);
}
