// What ONNX Runtime computes for a model on seeded random inputs:
//   node ort_reference.js RUNTIME_FOLDER MODEL.onnx OUT [INPUT=2x3x4[*SCALE]]...
// writes OUT/input_<i>.npy and OUT/output_<i>.npy in the model's order. A dynamic dimension is 1 unless its input's
// shape is given; SCALE is the deviation of its numbers, 1 unless given.
'use strict';
const path = require('path');
const { writeNpy, randomTensor } = require('../../bench/npy.js');

async function main([runtime, model, out, ...given]) {
  const ort = require(path.join(runtime, 'node_modules/onnxruntime-node'));
  const session = await ort.InferenceSession.create(model, { intraOpNumThreads: 1, logSeverityLevel: 3 });
  const shapes = new Map(given.map((text) => {
    const [, name, dims, scale] = /^(.*)=([0-9x]+)(?:\*(.+))?$/.exec(text);
    return [name, { dims: dims.split('x').map(Number), scale: Number(scale || 1) }];
  }));
  const feeds = {};
  session.inputMetadata.forEach(({ name, type, shape }, i) => {
    const { dims, scale } = shapes.get(name) || { dims: shape.map((dim) => (typeof dim === 'number' && dim > 0 ? dim : 1)), scale: 1 };
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
