// Lathe and ONNX Runtime on the same ONNX file, in turn, in one experiment; prints the ratio of their times.
//   ./run bench vs-onnxruntime --models resnet18,path.onnx [--threads N] [--shape NAME=1x3x48x192] [--db FILE | --untuned] [--max-relative-error E] [--rounds R] [--json]
// A ratio is peer / ours: above 1, Lathe is faster. Its interval is the 95% confidence interval of the median over rounds.
// Errors are the largest difference of an output over its largest value: ours from the peer's (max_rel_error), and of
// both sides from the model computed in float64 on the same inputs. A model that cannot be raced is a row that says why,
// and makes the exit code 1.
'use strict';
const path = require('path');
const { errorText, exitWith, parseArguments, printRows, raceAll } = require('./race.js');

const usage = 'vs-onnxruntime --models A,B [--threads N] [--shape NAME=1x3x48x192] [--db FILE | --untuned] [--max-relative-error E] [--rounds R] [--json]';

function rowOf({ peers, pytorch_variant, ...row }) {
  if (row.error) return row;
  const { onnxruntime: peer } = peers, { model, threads, ours_ms, ...errors } = row;
  return { model, threads, ours_ms, peer_ms: peer.ms, ratio: peer.ratio, ratio_low: peer.low, ratio_high: peer.high, ...errors };
}

async function main() {
  const options = parseArguments(process.argv.slice(2), usage);
  const header = 'model                threads   lathe ms   ONNX Runtime ms   ratio  95% interval     max rel error  from float64: Lathe  ONNX Runtime';
  printRows((await raceAll(options)).map(rowOf), options, [header], (r) => (
    `${path.basename(r.model).padEnd(20)} ${String(r.threads).padStart(7)} ${r.ours_ms.toFixed(3).padStart(10)} ${r.peer_ms.toFixed(3).padStart(17)}   ${r.ratio.toFixed(3)}  ${r.ratio_low.toFixed(3)} .. ${r.ratio_high.toFixed(3)}   ${errorText(r.max_rel_error).padStart(13)}  ${errorText(r.error_float64).padStart(19)}  ${errorText(r.peer_error_float64).padStart(12)}`));
}

main().catch(exitWith);
