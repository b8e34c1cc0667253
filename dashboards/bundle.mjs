// node bundle.mjs MODULES OUT: bundles src/ with the packages in MODULES (a node_modules folder) into
// OUT/app.js and OUT/app.css, and copies the page itself beside them.
import { createRequire } from 'node:module';
import { copyFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const [modules, out] = process.argv.slice(2).map((folder) => path.resolve(folder));
const here = path.dirname(fileURLToPath(import.meta.url));
const esbuild = createRequire(path.join(modules, 'any.js'))('esbuild');
await esbuild.build({
  entryPoints: { app: path.join(here, 'src/main.tsx') },
  outdir: out,
  bundle: true,
  minify: true,
  format: 'esm',
  target: 'es2022',
  jsx: 'automatic',
  jsxImportSource: 'preact',
  nodePaths: [modules],
  legalComments: 'none',
  logLevel: 'warning',
});
for (const file of ['index.html', 'icon.svg']) copyFileSync(path.join(here, 'src', file), path.join(out, file));
