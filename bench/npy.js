// NumPy files and seeded tensors for the comparisons.
'use strict';
const fs = require('fs');

const types = {
  float32: [Float32Array, '<f4'], float64: [Float64Array, '<f8'], int64: [BigInt64Array, '<i8'], int32: [Int32Array, '<i4'],
  int16: [Int16Array, '<i2'], int8: [Int8Array, '|i1'], uint8: [Uint8Array, '|u1'], bool: [Uint8Array, '|b1'],
  uint16: [Uint16Array, '<u2'], uint32: [Uint32Array, '<u4'], uint64: [BigUint64Array, '<u8'],
  float16: [Uint16Array, '<f2'], // their bits: Node 20 has no Float16Array
};

/** The bits of the float16 nearest to x, ties to even. REQUIRES: |x| < 65520. */
function float16Bits(x) {
  const magnitude = Math.abs(x), exponent = Math.max(-14, Math.floor(Math.log2(magnitude || 1e-9))), unit = 2 ** (exponent - 10);
  const down = Math.floor(magnitude / unit), rest = magnitude / unit - down;
  const mantissa = down + (rest > 0.5 || (rest === 0.5 && down % 2 === 1) ? 1 : 0); // of 2048 it carries into the exponent
  return (x < 0 ? 0x8000 : 0) + (mantissa < 1024 ? 0 : (exponent + 14) << 10) + mantissa;
}

function float16Value(bits) {
  const exponent = (bits >> 10) & 31, mantissa = bits & 1023, sign = bits & 0x8000 ? -1 : 1;
  if (exponent === 31) return mantissa ? NaN : sign * Infinity;
  return sign * (exponent ? (1024 + mantissa) * 2 ** (exponent - 25) : mantissa * 2 ** -24);
}

function writeNpy(file, { type, shape, data }) {
  let header = `{'descr': '${types[type][1]}', 'fortran_order': False, 'shape': (${shape.join(', ')}${shape.length === 1 ? ',' : ''}), }`;
  header += ' '.repeat((64 - ((10 + header.length + 1) % 64)) % 64) + '\n';
  const start = Buffer.alloc(10);
  start.write('\x93NUMPY\x01\x00', 'latin1');
  start.writeUInt16LE(header.length, 8);
  fs.writeFileSync(file, Buffer.concat([start, Buffer.from(header, 'latin1'), Buffer.from(data.buffer, data.byteOffset, data.byteLength)]));
}

function readNpy(file) {
  const bytes = fs.readFileSync(file), length = bytes.readUInt16LE(8), header = bytes.slice(10, 10 + length).toString('latin1');
  const descr = /'descr': '([^']+)'/.exec(header)[1];
  const dims = /'shape': \(([^)]*)\)/.exec(header)[1].split(',').map((x) => x.trim()).filter(Boolean).map(Number);
  const type = Object.keys(types).find((name) => types[name][1] === descr);
  const body = bytes.slice(10 + length);
  return { type, dims, data: new types[type][0](body.buffer.slice(body.byteOffset, body.byteOffset + body.byteLength)) };
}

/** N(0, 1)-like floats, small integers; the same for the same seed. */
function randomTensor(type, shape, seed) {
  let state = seed >>> 0;
  const uniform = () => { // mulberry32
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
  const size = shape.reduce((a, b) => a * b, 1), data = new types[type][0](size);
  for (let i = 0; i < size; i++) {
    const real = (uniform() + uniform() + uniform() + uniform() - 2) * 1.7320508;
    const integer = () => Math.floor(uniform() * (type === 'bool' ? 2 : 10));
    data[i] = type === 'float16' ? float16Bits(real) : type.startsWith('float') ? real : type.endsWith('int64') ? BigInt(integer()) : integer();
  }
  return { type, shape, data };
}

/**
 * The shapes of a model's inputs by name: from the texts NAME=1x3x224x224 in `given`, else as declared, where a dimension's name
 * stands for what it is in an input that is given. Throws where that leaves one open.
 */
function inputShapes(inputs, given) {
  const shapes = new Map(given.map((text) => [text.slice(0, text.lastIndexOf('=')), text.slice(text.lastIndexOf('=') + 1).split('x').map(Number)]));
  const named = new Map(inputs.flatMap(({ name, shape }) => (shapes.has(name) ? shape.map((dim, i) => [dim, shapes.get(name)[i]]) : [])));
  const extent = (name, shape) => (dim) => {
    if (typeof dim === 'number' && dim > 0) return dim;
    if (typeof dim === 'string' && dim !== '' && named.has(dim)) return named.get(dim);
    throw new Error(`input ${name} has open dimensions (${shape.join(', ')}): give --shape ${name}=...`);
  };
  return new Map(inputs.map(({ name, shape }) => [name, shapes.get(name) || shape.map(extent(name, shape))]));
}

/** max |a-b| / max |b|; Infinity when the shapes differ. */
function maxRelativeError(a, b) {
  if (a.dims.join() !== b.dims.join()) return Infinity;
  const number = ({ type, data }, i) => (type === 'float16' ? float16Value(data[i]) : Number(data[i]));
  let difference = 0, largest = 0;
  for (let i = 0; i < b.data.length; i++) {
    const x = number(a, i), y = number(b, i);
    if (Number.isNaN(x) && Number.isNaN(y)) continue;
    if (x !== y) difference = Math.max(difference, Number.isFinite(x) && Number.isFinite(y) ? Math.abs(x - y) : Infinity);
    if (Number.isFinite(y)) largest = Math.max(largest, Math.abs(y));
  }
  return difference === 0 ? 0 : difference / (largest || 1);
}

module.exports = { inputShapes, writeNpy, readNpy, randomTensor, maxRelativeError };
