// One build with open dimensions of each model that has them, against builds for each size alone and ONNX Runtime, in turn:
// a table for each model, as open-shapes prints them.
//   ./run bench dynamic-models [--models ppocr_v4_det,silero_vad_v5,gpt2_2l_kv,llama_2l_kv,bilstm2] [--threads N] [--rounds R] [--json]
// Text detection at 20 sizes of images; a detector of speech (its 8 kHz side) at batches; two language models, whose caches grow
// from 1 to 511, one token at a time and many at once; a recurrent network at batches and lengths. Trained models are fetched
// (bench/fetch_models.sh), the others made (bench/dynamic_models.py).
'use strict';
const { execFileSync, spawnSync } = require('child_process');
const path = require('path');
const { exitWith, parseArguments } = require('./race.js');

const usage = 'dynamic-models [--models NAME,...] [--threads N] [--rounds R] [--json]';

const images = [
  [32, 32], [32, 96], [64, 64], [64, 160], [96, 96], [96, 320], [128, 128], [128, 256], [160, 160], [160, 736],
  [192, 192], [224, 224], [256, 320], [288, 160], [320, 320], [352, 480], [480, 480], [640, 480], [640, 640], [736, 736],
];
/** [tokens, past] */
const texts = [[1, 1], [1, 16], [1, 64], [1, 200], [1, 511], [7, 1], [16, 16], [64, 64], [100, 1], [256, 256], [512, 1]];
const caches = (heads) => texts.map(([t, p]) => `ids=1x${t},pos=1x${t},past_k=2x1x${heads}x${p}x64,past_v=2x1x${heads}x${p}x64`);

const models = {
  ppocr_v4_det: { fetched: true, sizes: images.map(([h, w]) => `x=1x3x${h}x${w}`) },
  silero_vad_v5: { fetched: true, sizes: [1, 2, 8].map((b) => `input=${b}x256,state=2x${b}x128`) },
  gpt2_2l_kv: { sizes: caches(12) },
  llama_2l_kv: { sizes: caches(2) },
  bilstm2: { sizes: [[1, 1], [1, 7], [1, 64], [1, 300], [1, 512], [3, 20], [8, 64], [32, 10], [64, 1]].map(([b, t]) => `x=${b}x${t}x64`) },
};

function main() {
  const options = parseArguments(process.argv.slice(2), usage, {}, { models: Object.keys(models), rounds: 6 });
  for (const name of options.models) if (!(name in models)) throw new Error(`no model is named ${name} (models: ${Object.keys(models).join(', ')})`);
  const fetched = execFileSync(path.join(__dirname, 'fetch_models.sh'), { encoding: 'utf8' }).trim().split('\n').pop();
  const made = path.join(path.dirname(fetched), 'dynamic');
  const missing = options.models.filter((name) => !models[name].fetched);
  if (missing.length) execFileSync('/usr/bin/python3', ['-W', 'ignore', path.join(__dirname, 'dynamic_models.py'), made, ...missing]);
  let status = 0;
  for (const name of options.models) {
    const file = path.join(models[name].fetched ? fetched : made, `${name}.onnx`);
    if (!options.json) console.log(`\n${name}`);
    const args = ['--model', file, '--sizes', models[name].sizes.join(';'), '--threads', options.threads[0], '--rounds', options.rounds];
    const run = spawnSync(process.execPath, [path.join(__dirname, 'open_shapes.js'), ...args, ...(options.json ? ['--json'] : [])], { stdio: 'inherit' });
    status = status || run.status || 0;
  }
  process.exitCode = status;
}

try {
  main();
} catch (error) {
  exitWith(error);
}
