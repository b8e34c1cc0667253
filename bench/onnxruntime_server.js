// ONNX Runtime as one side of a race (race.js):  node onnxruntime_server.js MODEL.onnx THREADS FOLDER [NAME=1x3x224x224 | NAME=FILE.npy ...]
// Makes a seeded random input for each of the model's inputs but those given as files, writes them to FOLDER and first prints the
// array of "NAME=FILE.npy". Inputs with open dimensions must be given. Times are less what a run of a model that does nothing takes: Node's
// binding, which a program in C++ would not pay (and a little of the runtime itself). "memory" answers [bytes]: how much more was
// resident during the first run than before it.
'use strict';
const fs = require('fs'), os = require('os'), path = require('path'), readline = require('readline');
const { inputShapes, randomTensor, readNpy, writeNpy } = require('./npy.js');

const cache = process.env.LATHE_CACHE || path.join(process.env.XDG_CACHE_HOME || path.join(os.homedir(), '.cache'), 'lathe');
const ort = require(path.join(cache, 'peers/node_modules/onnxruntime-node'));

// y = x, one number.
const nothing = Buffer.from('CAcSADo3ChAKAXgSAXkiCElkZW50aXR5EgFnWg8KAXgSCgoICAESBAoCCAFiDwoBeRIKCggIARIECgIIAUIECgAQDQ==', 'base64');

async function timedRuns(session, feeds, fetches, count, overhead = 0) {
  const times = [];
  for (let i = 0; i < count; i++) {
    const start = process.hrtime.bigint();
    await session.run(feeds, fetches);
    times.push(Math.max(1e-4, Number(process.hrtime.bigint() - start) / 1e6 - overhead)); // never nothing, nor less
  }
  return times;
}

/**
 * Tensors for the session's results to be written to, as our own are: a result that is allocated in each run touches new pages each
 * time, until garbage is collected, which takes some models longer than their arithmetic.
 */
async function fetchesOf(session, feeds) {
  const results = Object.entries(await session.run(feeds));
  return Object.fromEntries(results.map(([name, { type, data, dims }]) => [name, new ort.Tensor(type, new data.constructor(data.length), dims)]));
}

/** A function that tells what a run of a model that does nothing takes now: clocks drift, and a small model takes no longer. */
async function bindingTimer() {
  const session = await ort.InferenceSession.create(nothing, { intraOpNumThreads: 1 });
  const feeds = { x: new ort.Tensor('float32', new Float32Array(1), [1]) };
  const fetches = await fetchesOf(session, feeds);
  await timedRuns(session, feeds, fetches, 2000);
  return async () => (await timedRuns(session, feeds, fetches, 201)).sort((a, b) => a - b)[100];
}

/** A line of what Linux says of this process, in bytes. */
const statusOf = (name) => 1024 * Number(new RegExp(`${name}:\\s+(\\d+)`).exec(fs.readFileSync('/proc/self/status'))[1]);

/** What f gives, and by how many bytes the memory that was resident grew meanwhile, at its peak. */
async function withPeak(f) {
  fs.writeFileSync('/proc/self/clear_refs', '5'); // the peak begins anew
  const before = statusOf('VmRSS'), result = await f();
  return [result, Math.max(0, statusOf('VmHWM') - before)];
}

async function main() {
  const [onnx, threads, folder, ...given] = process.argv.slice(2);
  const session = await ort.InferenceSession.create(onnx, {
    intraOpNumThreads: Number(threads), interOpNumThreads: 1, graphOptimizationLevel: 'all', executionMode: 'sequential', logSeverityLevel: 3,
    // Without VNNI its products of bytes are sums that saturate, and wrong by much, unless it is asked for right ones.
    extra: { session: { x64quantprecision: '1' } },
  });
  const files = new Map(given.filter((text) => text.endsWith('.npy')).map((text) => [text.slice(0, text.indexOf('=')), text]));
  const made = session.inputMetadata.filter(({ name }) => !files.has(name));
  const feeds = {}, bindings = [...files.values()], shapes = inputShapes(made, given.filter((text) => !text.endsWith('.npy')));
  for (const [name, text] of files) {
    const { type, dims, data } = readNpy(text.slice(name.length + 1));
    feeds[name] = new ort.Tensor(type, data, dims);
  }
  made.forEach((input, i) => {
    const tensor = randomTensor(input.type, shapes.get(input.name), 7 + i);
    const file = path.join(folder, `input_${i}.npy`);
    writeNpy(file, tensor);
    bindings.push(`${input.name}=${file}`);
    feeds[input.name] = new ort.Tensor(tensor.type, tensor.data, tensor.shape);
  });
  const [fetches, peak] = await withPeak(() => fetchesOf(session, feeds)), bindingTime = await bindingTimer();
  console.log(JSON.stringify(bindings));
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [verb, argument] = line.split(' ');
    if (verb === 'run') {
      console.log(JSON.stringify(await timedRuns(session, feeds, fetches, Number(argument), await bindingTime())));
    } else if (verb === 'memory') {
      console.log(JSON.stringify([peak]));
    } else {
      const results = await session.run(feeds);
      session.outputNames.forEach((name, i) => {
        const { type, dims, data } = results[name];
        writeNpy(path.join(argument, `output_${i}.npy`), { type, shape: dims, data });
      });
      console.log('[]');
    }
  }
}

main().catch((error) => { console.error(`error: ONNX Runtime: ${error.message}`); process.exit(2); });
