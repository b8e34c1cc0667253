// Lathe, ONNX Runtime and PyTorch on the same model, in turn, in one experiment; prints the ratio to the best peer.
//   ./run bench vs-peers --models resnet18,path.onnx [--threads 1,2] [--shape NAME=1x3x48x192] [--db FILE | --untuned] [--max-relative-error E] [--rounds R] [--json]
// A ratio is peer / ours: above 1, Lathe is faster. Its interval is the 95% confidence interval of the median over
// rounds. ONNX Runtime reads our file; PyTorch runs torchvision's definition of the same network (dqn: one of our
// own, in its modules) in the way that is fastest for it, and is left out where there is none. Errors are the largest difference of an output over its largest value: ours from ONNX
// Runtime's (max_rel_error), and of both from the model computed in float64 on the same inputs. PyTorch has none: its
// weights are other ones. A model that cannot be raced is a row that says why, and makes the exit code 1.
'use strict';
const path = require('path');
const { errorText, exitWith, parseArguments, printRows, raceAll } = require('./race.js');

const usage = 'vs-peers --models A,B [--threads N,M] [--shape NAME=1x3x48x192] [--db FILE | --untuned] [--max-relative-error E] [--rounds R] [--json]';

function rowOf(raced) {
  if (raced.error) return raced;
  const { model, threads, ours_ms, peers, pytorch_variant, ...errors } = raced;
  const [best, race] = Object.entries(peers).reduce((a, b) => (b[1].ms < a[1].ms ? b : a));
  return {
    model, threads, ours_ms, onnxruntime_ms: peers.onnxruntime.ms, pytorch_ms: peers.pytorch ? peers.pytorch.ms : null, pytorch_variant,
    best_peer: best, ratio: race.ratio, ratio_low: race.low, ratio_high: race.high, ...errors,
  };
}

async function main() {
  const options = parseArguments(process.argv.slice(2), usage);
  const header = [
    '| model | threads | Lathe ms | ONNX Runtime ms | PyTorch ms | its way | best peer / ours | 95% interval | max rel. error | error from float64 | of ONNX Runtime |',
    '|---|---|---|---|---|---|---|---|---|---|---|',
  ];
  const ms = (value) => (value === null ? '-' : value.toFixed(2));
  printRows((await raceAll({ ...options, pytorch: true })).map(rowOf), options, header, (r) => (
    `| ${path.basename(r.model)} | ${r.threads} | ${ms(r.ours_ms)} | ${ms(r.onnxruntime_ms)} | ${ms(r.pytorch_ms)} | ${r.pytorch_variant || '-'} | ${r.ratio.toFixed(3)} | ${r.ratio_low.toFixed(3)} .. ${r.ratio_high.toFixed(3)} | ${errorText(r.max_rel_error)} | ${errorText(r.error_float64)} | ${errorText(r.peer_error_float64)} |`));
}

main().catch(exitWith);
