// Lathe in float32, in bfloat16 and in 8 bits on the same float32 model, in turn, in one experiment; prints the ratios of their times.
//   ./run bench precisions --models resnet50,path.onnx [--threads 1,2] [--shape NAME=1x3x48x192] [--db FILE | --untuned] [--max-relative-error E] [--rounds R] [--json]
// A ratio is that of float32 / the other: above 1, the other is faster. Its interval is the 95% confidence interval of
// the median over rounds. Errors are the largest difference of an output over its largest value, from the model
// computed in float64 on the same inputs, which ONNX Runtime's process makes.
'use strict';
const fs = require('fs'), os = require('os'), path = require('path');
const { bin, compileModule, errorText, exitWith, folderError, median, onnxFile, parseArguments, ratioOf, Side, startOnnxRuntime, takeTurns, truthOf } = require('./race.js');

const usage = 'precisions --models A,B [--threads N,M] [--shape NAME=1x3x48x192] [--db FILE | --untuned] [--max-relative-error E] [--rounds R] [--json]';
const precisions = { float32: 'given', bfloat16: 'bf16', int8: 'int8' };

/** A row a precision: {model, threads, precision, ms, ratio, ratio_low, ratio_high, error_float64}. */
async function racePrecisions(model, options, folder) {
  const onnx = onnxFile(model, folder), sides = [];
  const { side: peer, inputs } = await startOnnxRuntime(onnx, options.threads, folder, options.shapes);
  peer.close(); // it made the inputs
  try {
    for (const [name, flag] of Object.entries(precisions)) {
      const module = path.join(folder, `${name}.lathe`);
      compileModule(onnx, { ...options, tuning: [...options.tuning, '--precision', flag] }, module);
      const side = new Side(name, path.join(bin, 'lathe-module-server'), [module, options.threads, ...inputs]);
      sides.push(side);
      await side.answer();
    }
    const times = await takeTurns(sides, options.rounds), truth = truthOf(onnx, inputs, folder), rows = [];
    for (const side of sides) {
      const outputs = fs.mkdtempSync(path.join(folder, 'outputs_'));
      await side.ask(`outputs ${outputs}`);
      const { ratio, low, high } = ratioOf(times[side.name], times.float32);
      rows.push({
        model, threads: options.threads, precision: side.name, ms: median(times[side.name]), ratio, ratio_low: low, ratio_high: high,
        error_float64: truth ? folderError(outputs, truth) : null,
      });
    }
    return rows;
  } finally {
    for (const side of sides) side.close();
  }
}

async function main() {
  const options = parseArguments(process.argv.slice(2), usage), rows = [];
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'lathe-bench-'));
  try {
    for (const threads of options.threads)
      for (const model of options.models) {
        if (!options.json) console.error(`${model}, ${threads} thread${threads > 1 ? 's' : ''} ...`);
        rows.push(...await racePrecisions(model, { ...options, threads }, folder));
      }
  } finally {
    fs.rmSync(folder, { recursive: true, force: true });
  }
  if (options.json) {
    console.log(JSON.stringify(rows));
    return;
  }
  console.log('| model | threads | precision | ms | float32 / it | 95% interval | error from float64 |');
  console.log('|---|---|---|---|---|---|---|');
  for (const r of rows)
    console.log(`| ${path.basename(r.model)} | ${r.threads} | ${r.precision} | ${r.ms.toFixed(2)} | ${r.ratio.toFixed(3)} | ${r.ratio_low.toFixed(3)} .. ${r.ratio_high.toFixed(3)} | ${errorText(r.error_float64)} |`);
}

main().catch(exitWith);
