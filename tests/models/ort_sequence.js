// What ONNX Runtime computes for a model over a sequence of chunks, of which each gets the state that the one before gave:
//   node ort_sequence.js RUNTIME_FOLDER MODEL.onnx OUT STEPS INPUT=2x3x4 ... INPUT:=NUMBER ... INPUT<OUTPUT=2x1x128 ...
// An input of N(0, 1) for each chunk, a number that stays, or an input that begins as zeros and is then that output. Writes
// OUT/<step>_input_<i>.npy and OUT/<step>_output_<i>.npy in the model's order.
'use strict';
const path = require('path');
const { writeNpy, randomTensor } = require('../../bench/npy.js');

/** "a=1x2", "a:=3" or "a<b=1x2": what makes the input of a step from the results of the one before. */
function source(text, type) {
  const number = /^(.*):=(-?\d+)$/.exec(text);
  if (number) return { name: number[1], make: () => ({ type, shape: [], data: type === 'int64' ? BigInt64Array.of(BigInt(number[2])) : Float32Array.of(Number(number[2])) }) };
  const [, name, , output, dims] = /^([^<=]*)(<([^=]*))?=([0-9x]+)$/.exec(text), shape = dims.split('x').map(Number);
  if (!output) return { name, make: (step) => randomTensor(type, shape, 7 + step) };
  const zeros = { type, shape, data: new Float32Array(shape.reduce((a, b) => a * b, 1)) };
  return { name, make: (step, last) => (last ? { type, shape: last[output].dims, data: last[output].data } : zeros) };
}

async function main([runtime, model, out, steps, ...given]) {
  const ort = require(path.join(runtime, 'node_modules/onnxruntime-node'));
  const session = await ort.InferenceSession.create(model, { intraOpNumThreads: 1, logSeverityLevel: 3 });
  const inputs = session.inputMetadata.map(({ name, type }) => source(given.find((text) => text.split(/[<:=]/)[0] === name), type));
  let last = null;
  for (let step = 0; step < Number(steps); step++) {
    const feeds = {};
    inputs.forEach(({ name, make }, i) => {
      const input = make(step, last);
      writeNpy(path.join(out, `${step}_input_${i}.npy`), input);
      feeds[name] = new ort.Tensor(input.type, input.data, input.shape);
    });
    last = await session.run(feeds);
    session.outputNames.forEach((name, i) => writeNpy(path.join(out, `${step}_output_${i}.npy`), { type: last[name].type, shape: last[name].dims, data: last[name].data }));
  }
}

main(process.argv.slice(2)).catch((error) => { console.error(`error: ${error.message}`); process.exit(1); });
