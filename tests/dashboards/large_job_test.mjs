// node large_job_test.mjs TUNE MODULES: a job of 100,000 trials is on the page, and answers, in 1.5 s.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { launch, loadPackages } from './browser.mjs';
import { Service } from './service.mjs';

const [tune, modules] = process.argv.slice(2);
const { chromium } = loadPackages(modules);
const kTrials = 100_000;
const kMostMs = 1500;
const kTries = 40; // one in time is enough: other programs can only make it slower

const service = new Service(tune);
const browser = await launch(chromium);
try {
  await service.start({ worker: false });
  const job = execFileSync('python3', [fileURLToPath(new URL('large_job.py', import.meta.url)), path.join(service.folder, 't.db'), String(kTrials)], { encoding: 'utf8' }).trim();
  const page = await browser.newPage();
  await page.goto(`${service.url}/#/jobs`);
  await page.getByRole('link', { name: 'large' }).waitFor();
  for (const [tab, ready] of [
    ['overview', 'canvas'],
    ['trials', 'canvas'],
    ['trials', 'main > .table tbody tr >> nth=49'],
    ['tasks', 'section tbody tr >> nth=19'],
  ]) {
    const took = [];
    for (let i = 0; i < kTries && !(Math.min(...took) < kMostMs); i++) {
      await page.goto('about:blank');
      const begun = Date.now();
      await page.goto(`${service.url}/#/jobs/${job}/${tab}`);
      await page.locator(ready).first().waitFor();
      await page.evaluate(() => new Promise(requestAnimationFrame));
      took.push(Date.now() - begun);
    }
    console.log(`${tab} (${ready}): ${Math.min(...took)} ms of ${took}`);
    assert.ok(Math.min(...took) < kMostMs, `${tab} takes ${took} ms`);
  }
} finally {
  await browser.close();
  await service.stop();
}
