// Compiled modules of one model in turn, in one experiment: of two revisions, of two databases.
//   ./run bench modules --models A --modules [NAME=]MODULE.lathe[@SERVER],... [--threads N[,N]] [--shape NAME=1x3x48x192] [--rounds R] [--json]
// ratio: the time of the first module over it. SERVER: the lathe-module-server that runs it, of the build that it is
// from; without one, this build's. The model gives the inputs. Exit code 1 when a module does not run.
'use strict';
const fs = require('fs'), path = require('path');
const { exitWith, median, onnxFile, parseArguments, printRows, raceAll, raceModules, ratioOf } = require('./race.js');

const usage = 'modules --models A --modules [NAME=]MODULE.lathe[@SERVER],... [--threads N[,N]] [--shape NAME=1x3x48x192] [--rounds R] [--json]';

/** 'new=a.lathe@build/old/bin/lathe-module-server' as {name, module, server}; null when a file is not there. */
function moduleOf(text) {
  const [, name, module, server] = /^(?:([^=]*)=)?([^@]*)(?:@(.*))?$/.exec(text);
  if (![module, ...(server ? [server] : [])].every((file) => fs.existsSync(file))) return null;
  return { name: name || path.basename(module, '.lathe'), module: path.resolve(module), server: server && path.resolve(server) };
}

async function race(model, options, folder) {
  const times = await raceModules(onnxFile(model, folder), options.modules, options, folder);
  return options.modules.map(({ name }) => {
    const { ratio, low, high } = ratioOf(times[name], times[options.modules[0].name]);
    return { model, threads: options.threads, module: name, ms: median(times[name]), ratio, ratio_low: low, ratio_high: high };
  });
}

async function main() {
  const options = parseArguments(process.argv.slice(2), usage, {
    '--modules': (o, value) => {
      o.modules = value.split(',').map(moduleOf);
      return o.modules.every(Boolean) && o.modules.length >= 2 && new Set(o.modules.map(({ name }) => name)).size === o.modules.length;
    },
  });
  if (!options.modules || options.models.length !== 1) throw new Error('which modules, of which one model? --models A --modules B,C');
  const rows = await raceAll(options, race);
  const header = [`| model | threads | module | ms | ${options.modules[0].name} / it | 95% interval |`, '|---|---|---|---|---|---|'];
  printRows(rows, options, header, (r) => (
    `| ${path.basename(r.model)} | ${r.threads} | ${r.module} | ${r.ms.toFixed(3)} | ${r.ratio.toFixed(3)} | ${r.ratio_low.toFixed(3)} .. ${r.ratio_high.toFixed(3)} |`));
}

main().catch(exitWith);
