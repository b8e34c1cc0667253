// node types_test.mjs DASHBOARDS MODULES: the types of the pages' sources; esbuild only strips them.
import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

const [dashboards, modules] = process.argv.slice(2).map((folder) => path.resolve(folder));
const compiler = path.join(modules, 'typescript/bin/tsc');
if (!existsSync(compiler)) {
  console.log(`skipped: no ${compiler}`);
  process.exit(77);
}
// The compiler looks for packages beside the sources: here they meet.
const folder = mkdtempSync(path.join(tmpdir(), 'lathe-types-'));
cpSync(path.join(dashboards, 'src'), path.join(folder, 'src'), { recursive: true });
cpSync(path.join(dashboards, 'tsconfig.json'), path.join(folder, 'tsconfig.json'));
symlinkSync(modules, path.join(folder, 'node_modules'));
const { status } = spawnSync(process.execPath, [compiler, '-p', folder], { stdio: 'inherit' });
rmSync(folder, { recursive: true });
process.exit(status ?? 1);
