// node screenshots.mjs TUNE MODULES OUT [TRIALS [MODEL]]: watches a job live from its start to its end in the browser
// and writes the pictures of docs/pages.md. What they show are real runs on this machine.
import { mkdirSync } from 'node:fs';
import path from 'node:path';
import { launch, loadPackages } from './browser.mjs';
import { eventually, Service } from './service.mjs';

const [tune, modules, out, trials = '2000', model = 'resnet18'] = process.argv.slice(2);
const { chromium } = loadPackages(modules);
mkdirSync(out, { recursive: true });
const service = await new Service(tune).start({ users: ['ada', 'ben'] });
const browser = await launch(chromium);

async function open(scheme) {
  const context = await browser.newContext({ colorScheme: scheme, viewport: { width: 1280, height: 860 } });
  const page = await context.newPage();
  await page.addInitScript((token) => sessionStorage.setItem('lathe-token', token), service.tokens[0]);
  await page.goto(service.url);
  return page;
}

async function picture(page, place, name, height = 860) {
  await page.setViewportSize({ width: 1280, height });
  await page.goto(`${service.url}/#${place}`);
  await page.getByText('asking the tracker').waitFor({ state: 'detached', timeout: 60_000 });
  await page.waitForTimeout(2500); // for figures and charts
  await page.screenshot({ path: path.join(out, `${name}.png`) });
}

try {
  const light = await open('light');
  const dark = await open('dark');
  // Some history for the views that need it, of another user.
  for (const seed of ['1', '2', '3'])
    await service.ended(service.submit(['--model', 'dqn', '--trials', '48', '--threads', '1', '--seed', seed], 1));

  const job = service.submit(['--model', model, '--trials', trials, '--threads', '1', '--seed', '7']);
  const other = service.submit(['--model', 'dqn', '--trials', '80', '--threads', '1', '--seed', '9'], 1);
  const live = await open('light'); // never loaded again: what it shows at the end came by events
  await live.goto(`${service.url}/#/jobs/${job}`);
  const shown = async () => Number((await live.locator('.figures .bar').innerText()).split('/')[0].replace(/\D/g, ''));
  const begun = Date.now();
  for (const [name, share] of [['start', 0.2], ['middle', 0.5]]) {
    await eventually(`${share} of the trials`, async () => (await shown()) >= share * Number(trials), 3600);
    console.log(`${Math.round((Date.now() - begun) / 1000)} s: ${await shown()} trials on the page`);
    await live.screenshot({ path: path.join(out, `job-${name}.png`) });
    if (name === 'start') {
      await picture(light, '/jobs', 'jobs', 700);
      await picture(dark, '/fleet', 'fleet', 660);
    }
  }
  await service.ended(job);
  await live.locator('h1 + .badge.done').waitFor({ timeout: 20_000 });
  await live.waitForTimeout(1000);
  console.log(`${Math.round((Date.now() - begun) / 1000)} s: done, ${await shown()} trials on the page`);
  await live.screenshot({ path: path.join(out, 'job-end.png') });
  await service.ended(other);

  await picture(light, `/jobs/${job}/tasks`, 'tasks', 1160);
  await picture(light, `/jobs/${job}/trials`, 'trials');
  await picture(light, `/jobs/${job}/model`, 'cost-model', 1000);
  await picture(dark, `/jobs/${job}/schedules`, 'schedules');
  await light.goto(`${service.url}/#/jobs/${job}/schedules`);
  await light.getByLabel('Show').selectOption('code');
  await light.locator('.diff tbody tr').first().waitFor();
  await light.screenshot({ path: path.join(out, 'machine-code.png') });
  await picture(dark, `/jobs/${job}`, 'job-dark');
  await picture(light, `/jobs/${job}/report`, 'report');
  // Of some candidates the samples are another trial's by now, which has measured them again.
  const { trials: ok } = await service.get(`/v1/jobs/${job}/trials?outcome=ok&limit=20`);
  await picture(light, `/trials/${ok.find(({ seconds }) => seconds !== null).id}`, 'trial', 1000);
  await picture(light, '/history/dqn', 'history');
} finally {
  await browser.close();
  await service.stop();
}
