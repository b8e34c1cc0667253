// What ONNX Runtime computes for a model on seeded random inputs:
//   node ort_reference.js RUNTIME_FOLDER MODEL.onnx OUT [INPUT=2x3x4[*SCALE]]...
// writes OUT/input_<i>.npy and OUT/output_<i>.npy in the model's order. An input with open dimensions must be
// given; SCALE is the deviation of its numbers, 1 unless given. In 8 bits it computes exactly: by default its sums
// of two products overflow 16 bits on processors that have AVX2 and no VNNI, and a result is 6 to 8% off.
'use strict';
const path = require('path');
const { inputShapes, writeNpy, randomTensor } = require('../../bench/npy.js');

async function main([runtime, model, out, ...given]) {
  const ort = require(path.join(runtime, 'node_modules/onnxruntime-node'));
  const session = await ort.InferenceSession.create(model, {
    intraOpNumThreads: 1, logSeverityLevel: 3, extra: { session: { x64quantprecision: '1' } },
  });
  const parts = given.map((text) => /^(.*)=([0-9x]+)(?:\*(.+))?$/.exec(text));
  const scales = new Map(parts.map(([, name, , scale]) => [name, Number(scale || 1)]));
  const shapes = inputShapes(session.inputMetadata, parts.map(([, name, dims]) => `${name}=${dims}`)), feeds = {};
  session.inputMetadata.forEach(({ name, type }, i) => {
    const dims = shapes.get(name), scale = scales.get(name) || 1;
    const input = randomTensor(type, dims, 7 + i);
    if (scale !== 1) input.data = input.data.map((x) => x * scale);
    writeNpy(path.join(out, `input_${i}.npy`), input);
    feeds[name] = new ort.Tensor(type, input.data, dims);
  });
  const results = await session.run(feeds);
  session.outputNames.forEach((name, i) => {
    const { type, dims, data } = results[name];
    writeNpy(path.join(out, `output_${i}.npy`), { type, shape: dims, data });
  });
}

main(process.argv.slice(2)).catch((error) => { console.error(`error: ${error.message}`); process.exit(1); });
