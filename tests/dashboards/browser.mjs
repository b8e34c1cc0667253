// Debian's Chromium, driven by playwright-core from the folder that `./run test` installs dashboards/package.json into.
import { createRequire } from 'node:module';
import { existsSync } from 'node:fs';
import path from 'node:path';

export const kSkipped = 77;

/** Ends the program as skipped where there is no browser. */
export function loadPackages(modules) {
  const missing = [path.join(modules, 'playwright-core'), '/usr/bin/chromium'].filter((file) => !existsSync(file));
  if (missing.length) {
    console.log(`skipped: no ${missing.join(', no ')}`);
    process.exit(kSkipped);
  }
  const require = createRequire(path.resolve(modules, 'any.js'));
  return { chromium: require('playwright-core').chromium, axe: require.resolve('axe-core') };
}

export function launch(chromium) {
  return chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--no-sandbox', '--disable-gpu'] });
}
