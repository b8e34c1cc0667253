// Tuning jobs beside other work: busy loops, a compiler. What each job's report said, and what is so: the modules
// raced in turn with the quiet job's and the untuned build once the loads are gone.
//   ./run bench noise --models A [--time 60s] [--loads quiet,1,3,compiler] [--threads N] [--shape NAME=1x3x48x192] [--rounds R] [--json]
// said: before / after in the job's report. is: the untuned build's time over the module's, in the race; of quiet: the
// quiet job's module over it (1: as good). A job that says "not decided" makes no claim. Exit code 1 when a job failed,
// or claims a gain that the race does not find (the intervals are apart by more than 5%).
'use strict';
const fs = require('fs'), os = require('os'), path = require('path');
const { spawn, spawnSync } = require('child_process');
const { bin, compileModule, exitWith, median, onnxFile, parseArguments, printRows, raceModules, ratioOf, reasonIn, rowOrReason } = require('./race.js');

const usage = 'noise --models A [--time 60s] [--loads quiet,1,3,compiler] [--threads N] [--shape NAME=1x3x48x192] [--rounds R] [--json]';
const claimed = 1.05; // a report may be this far beyond what the race finds

// What a compiler is to its neighbours: bursts of allocation, cache misses and branches, one process after another.
const sourceOfCompiler = 'while :; do echo "#include <regex>\nstd::regex r(\\"a*b\\");" | c++ -std=c++20 -O2 -x c++ -c -o /dev/null -; done';

/** The processes of a load: 'quiet', a number of busy loops, or 'compiler', as many compilers as cores. */
function startLoad(load) {
  const loops = load === 'quiet' ? 0 : load === 'compiler' ? os.cpus().length : Number(load);
  const command = load === 'compiler' ? sourceOfCompiler : 'while :; do :; done';
  return Array.from({ length: loops }, () => spawn('bash', ['-c', command], { stdio: 'ignore', detached: true }));
}

function stopLoad(processes) {
  for (const { pid } of processes) {
    try {
      process.kill(-pid, 'SIGKILL');
    } catch (error) {
      if (error.code !== 'ESRCH') throw error; // ended by itself
    }
  }
}

/** Runs a job beside the load, in a database of its own: {module, report} (the report as `tune --json` prints it). */
function tuneBeside(load, onnx, options, folder) {
  const own = path.join(folder, `job_${load}`), out = path.join(own, 'out');
  fs.mkdirSync(own);
  const processes = startLoad(load);
  try {
    const { status, stdout, stderr } = spawnSync(path.join(bin, 'tune'), ['--model', onnx, '--target', 'cpu', '--time', options.time, '--threads', String(options.threads), '--db', path.join(own, 'tuning.db'),
      '--out', out, '--json', ...options.shapes.flatMap((shape) => ['--shape', shape])], { encoding: 'utf8', maxBuffer: 1 << 28 });
    if (status !== 0) throw new Error(`lathe: the job ended with exit code ${status}: ${reasonIn(stderr)}`);
    const report = JSON.parse(stdout);
    return { load, module: report.module, report };
  } finally {
    stopLoad(processes);
  }
}

/** A row for each load. */
async function raceJobs(model, options, folder) {
  const onnx = onnxFile(model, folder), jobs = [];
  for (const load of options.loads) {
    if (!options.json) console.error(`${model}: a job of ${options.time} beside: ${load} ...`);
    jobs.push(tuneBeside(load, onnx, options, folder));
  }
  const untuned = path.join(folder, 'untuned.lathe');
  compileModule(onnx, { ...options, tuning: ['--untuned'] }, untuned);
  const times = await raceModules(onnx, [{ name: 'untuned', module: untuned }, ...jobs.map(({ load, module }) => ({ name: load, module }))], options, folder);
  return jobs.map(({ load, report }) => {
    const is = ratioOf(times[load], times.untuned), quiet = ratioOf(times[load], times[options.loads[0]]);
    const { verdict, ratio: said, low, high } = report.race;
    return { model, threads: options.threads, load, verdict, said, said_low: low, said_high: high, disturbed: report.disturbance.share, ms: median(times[load]),
      is: is.ratio, is_low: is.low, is_high: is.high, of_quiet: quiet.ratio, false_claim: low > claimed * Math.max(is.high, 1) };
  });
}

const isLoad = (load) => load === 'quiet' || load === 'compiler' || Number(load) >= 1;

async function main() {
  const options = parseArguments(process.argv.slice(2), usage, {
    '--time': (o, value) => { o.time = value; return /^\d+(ms|s|m|h)$/.test(value); },
    '--loads': (o, value) => { o.loads = value.split(','); return o.loads.every(isLoad); },
  }, { time: '60s', loads: ['quiet', '1', '3', 'compiler'] });
  options.threads = options.threads[0];
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'lathe-noise-')), rows = [];
  try {
    for (const model of options.models) rows.push(await rowOrReason({ model, threads: options.threads }, () => raceJobs(model, options, folder)));
  } finally {
    fs.rmSync(folder, { recursive: true, force: true });
  }
  const header = ['| model | load | the report said | 95% interval | disturbed samples | untuned / module, raced | 95% interval | quiet job / module |', '|---|---|---|---|---|---|---|---|'];
  printRows(rows.flat(), options, header, (r) => (
    `| ${path.basename(r.model)} | ${r.load} | ${r.verdict}, ${r.said.toFixed(3)} | ${r.said_low.toFixed(3)} .. ${r.said_high.toFixed(3)} | ${(100 * r.disturbed).toFixed(0)}% | `
    + `${r.is.toFixed(3)} | ${r.is_low.toFixed(3)} .. ${r.is_high.toFixed(3)} | ${r.of_quiet.toFixed(3)} |${r.false_claim ? ' claimed too much' : ''}`));
  if (rows.flat().some((row) => row.false_claim)) process.exitCode = 1;
}

main().catch(exitWith);
