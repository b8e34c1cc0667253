// Lathe in float32, in bfloat16 and in 8 bits on the same float32 model, in turn, in one experiment; prints the ratios of their times.
//   ./run bench precisions --models resnet50,path.onnx [--threads 1,2] [--shape NAME=1x3x48x192] [--db FILE | --untuned] [--max-relative-error E] [--rounds R] [--json]
// A ratio is that of float32 / the other: above 1, the other is faster. Its interval is the 95% confidence interval of
// the median over rounds. Errors are the largest difference of an output over its largest value, from the model
// computed in float64 on the same inputs, which ONNX Runtime's process makes. A model that cannot be raced is a row that
// says why, and makes the exit code 1.
'use strict';
const path = require('path');
const { errorText, exitWith, parseArguments, precisions, printRows, raceAll, racePrecisions } = require('./race.js');

const usage = 'precisions --models A,B [--threads N,M] [--shape NAME=1x3x48x192] [--db FILE | --untuned] [--max-relative-error E] [--rounds R] [--json]';

async function main() {
  const options = parseArguments(process.argv.slice(2), usage, {}, { precisions: Object.keys(precisions) });
  const header = ['| model | threads | precision | ms | float32 / it | 95% interval | error from float64 |', '|---|---|---|---|---|---|---|'];
  printRows(await raceAll(options, racePrecisions), options, header, (r) => (
    `| ${path.basename(r.model)} | ${r.threads} | ${r.precision} | ${r.ms.toFixed(2)} | ${r.ratio.toFixed(3)} | ${r.ratio_low.toFixed(3)} .. ${r.ratio_high.toFixed(3)} | ${errorText(r.error_float64)} |`));
}

main().catch(exitWith);
