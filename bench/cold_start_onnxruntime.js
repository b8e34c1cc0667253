// One cold start of ONNX Runtime:  node cold_start_onnxruntime.js MODEL.onnx THREADS [NAME=1x3x224x224 ...]
// prints {"ms", "load_ms", "peak_bytes"} as lathe-cold-start does, but leaves out what is Node's: the clock starts when
// the library is loaded, and the memory that the process holds at that moment is subtracted from its peak.
'use strict';
const fs = require('fs'), os = require('os'), path = require('path');
const { inputShapes } = require('./npy.js');

const cache = process.env.LATHE_CACHE || path.join(process.env.XDG_CACHE_HOME || path.join(os.homedir(), '.cache'), 'lathe');
const ort = require(path.join(cache, 'peers/node_modules/onnxruntime-node'));
const now = () => Number(process.hrtime.bigint()) / 1e6;

/** A line of /proc/self/status, in bytes. */
function memory(line) {
  return 1024 * Number(fs.readFileSync('/proc/self/status', 'utf8').match(new RegExp(`${line}:\\s+(\\d+)`))[1]);
}

async function main() {
  const [onnx, threads, ...given] = process.argv.slice(2), before = memory('VmRSS'), begin = now();
  const session = await ort.InferenceSession.create(onnx, {
    intraOpNumThreads: Number(threads), interOpNumThreads: 1, graphOptimizationLevel: 'all', executionMode: 'sequential', logSeverityLevel: 3,
  });
  const feeds = {}, shapes = inputShapes(session.inputMetadata, given);
  for (const { name, type } of session.inputMetadata) {
    const dims = shapes.get(name);
    if (type !== 'float32') throw new Error(`input ${name} is ${type}; only float32 is known here`);
    feeds[name] = new ort.Tensor(type, new Float32Array(dims.reduce((a, b) => a * b, 1)), dims);
  }
  const loaded = now();
  await session.run(feeds);
  const end = now();
  console.log(JSON.stringify({ ms: end - begin, load_ms: loaded - begin, peak_bytes: memory('VmHWM') - before }));
}

main().catch((error) => { console.error(`error: ONNX Runtime: ${error.message}`); process.exit(2); });
