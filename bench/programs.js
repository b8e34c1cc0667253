// Programs with loops and recursion compiled by Lathe and by PyTorch in turn, in one experiment; prints the ratio of their times.
//   ./run bench programs [--models char_rnn,tree_lstm] [--threads N[,N]] [--db FILE] [--rounds R] [--json]
// program_models.py says what they are. PyTorch runs each in the way that is fastest for it; a tree is traced for that tree alone,
// where Lathe's module takes any. A ratio is PyTorch / ours: above 1, Lathe is faster.
'use strict';
const fs = require('fs'), path = require('path');
const { maxRelativeError, readNpy } = require('./npy.js');
const { Side, bin, compileModule, errorText, exitWith, median, parseArguments, printRows, raceAll, ratioOf, takeTurns } = require('./race.js');

const usage = 'programs [--models char_rnn,tree_lstm] [--threads N[,N]] [--db FILE] [--rounds R] [--json]';

/** The outputs of a side, as readNpy reads them. */
async function outputsOf(side, folder) {
  const outputs = fs.mkdtempSync(path.join(folder, `${side.name}_`));
  await side.ask(`outputs ${outputs}`);
  return fs.readdirSync(outputs).sort().map((file) => readNpy(path.join(outputs, file)));
}

async function race(program, options, folder) {
  const sides = [new Side('pytorch', '/usr/bin/python3', [path.join(__dirname, 'program_models.py'), program, options.threads, folder])];
  try {
    const { relay, inputs, variant } = await sides[0].answer(), module = path.join(folder, `${program}.lathe`);
    compileModule(relay, options, module);
    sides.push(new Side('lathe', path.join(bin, 'lathe-module-server'), [module, options.threads, ...inputs]));
    await sides[1].answer();
    const times = await takeTurns(sides, options.rounds);
    const wanted = await outputsOf(sides[0], folder), ours = await outputsOf(sides[1], folder);
    return {
      model: program, threads: options.threads, ours_ms: median(times.lathe), variant, ...ratioOf(times.lathe, times.pytorch),
      max_rel_error: Math.max(...wanted.map((output, i) => maxRelativeError(ours[i], output))),
    };
  } finally {
    for (const side of sides) side.close();
  }
}

async function main() {
  const options = parseArguments(process.argv.slice(2), usage, {}, { models: ['char_rnn', 'tree_lstm'] });
  const header = [
    '| program | threads | Lathe ms | PyTorch ms | its way | PyTorch / ours | 95% interval | max rel. error |', '|---|---|---|---|---|---|---|---|',
  ];
  printRows(await raceAll(options, race), options, header, (r) => (
    `| ${r.model} | ${r.threads} | ${r.ours_ms.toFixed(3)} | ${r.ms.toFixed(3)} | ${r.variant} `
    + `| ${r.ratio.toFixed(3)} | ${r.low.toFixed(3)} .. ${r.high.toFixed(3)} | ${errorText(r.max_rel_error)} |`));
}

main().catch(exitWith);
