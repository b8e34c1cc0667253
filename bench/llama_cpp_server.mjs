// llama.cpp as one side of a race (race.js):  node llama_cpp_server.mjs MODEL.gguf THREADS PAST NEW IDS.npy
// The cache holds the first PAST of the ids; a run takes the NEW ids behind them at once and gives the last one's logits, after
// which the cache is cut back to what it was. Cache in float32; all else is what llama.cpp chooses for this machine. Needs
// node-llama-cpp in the folder of peers, and Node 20.
import os from 'os';
import path from 'path';
import readline from 'readline';
import { createRequire } from 'module';
import { pathToFileURL } from 'url';

const { readNpy, writeNpy } = createRequire(import.meta.url)('./npy.js');
const cache = process.env.LATHE_CACHE || path.join(process.env.XDG_CACHE_HOME || path.join(os.homedir(), '.cache'), 'lathe');
const { getLlama } = await import(pathToFileURL(path.join(cache, 'peers/llama/node_modules/node-llama-cpp/dist/index.js')));

const [gguf, threads, past, fresh, file] = process.argv.slice(2);
const ids = Uint32Array.from(readNpy(file).data, Number), end = Number(past) + Number(fresh), batch = 512;

/** Its binding, below the classes that choose batches and samplers: those would be timed, too. */
const { _bindings: binding } = await getLlama({ gpu: false, build: 'never', logLevel: 'error', maxThreads: Number(threads) });
const model = new binding.AddonModel(gguf, { addonExports: binding, gpuLayers: 0, useMmap: true });
if (!await model.init()) throw new Error(`${gguf} cannot be loaded`);
const kFloat32 = 0;
const context = new binding.AddonContext(model, {
  contextSize: Math.ceil((end + 1) / 256) * 256, batchSize: batch, sequences: 1, threads: Number(threads), flashAttention: 'auto',
  kvCacheKeyType: kFloat32, kvCacheValueType: kFloat32,
});
if (!await context.init()) throw new Error('no context');

/** Takes ids [begin, end); the logits of the last. */
async function take(begin, stop) {
  context.initBatch(stop - begin);
  context.addToBatch(0, begin, ids.subarray(begin, stop), Uint32Array.of(stop - begin - 1));
  await context.decodeBatch();
  return stop - begin - 1;
}

async function timedRun() {
  const start = process.hrtime.bigint();
  await take(Number(past), end);
  const ms = Number(process.hrtime.bigint() - start) / 1e6;
  context.removeTokenCellsFromSequence(0, Number(past), -1);
  return ms;
}

async function logits() {
  const sampler = new binding.AddonSampler(model);
  sampler.applyConfig({ temperature: 0 });
  const pairs = (await context.sampleToken(await take(Number(past), end), sampler, false, false, true))[3];
  context.removeTokenCellsFromSequence(0, Number(past), -1);
  const data = new Float32Array(pairs.length / 2); // token, logit, token, logit, ...
  for (let i = 0; i < pairs.length; i += 2) data[pairs[i]] = pairs[i + 1];
  return { type: 'float32', shape: [1, 1, data.length], data };
}

for (let begin = 0; begin < Number(past); begin += batch) await take(begin, Math.min(begin + batch, Number(past)));
console.log('[]');
for await (const line of readline.createInterface({ input: process.stdin })) {
  const [verb, argument] = line.split(' '), times = [];
  if (verb === 'run') for (let i = 0; i < Number(argument); i++) times.push(await timedRun());
  else writeNpy(path.join(argument, 'output_0.npy'), await logits());
  console.log(JSON.stringify(times));
}
process.exit(0);
