// node pages_test.mjs TUNE MODULES: the pages in a real browser, on a real tracker with a worker and a job.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { launch, loadPackages } from './browser.mjs';
import { eventually, Service } from './service.mjs';

const [tune, modules] = process.argv.slice(2);
const { chromium, axe } = loadPackages(modules);
const kMostBytes = 150 * 1024; // of all files together, gzipped
const kMostDelay = 2000; // ms from a commit to the page, on a machine that also compiles candidates

const service = new Service(tune);
const browser = await launch(chromium);
let failures = 0;

async function test(name, body) {
  const begun = Date.now();
  try {
    await body();
    console.log(`ok      ${name} (${Date.now() - begun} ms)`);
  } catch (error) {
    failures++;
    console.log(`FAILED  ${name}\n${error.stack}`);
  }
}

/** A page that fails the test when anything but the tracker is asked, or when its console has something to complain of. */
async function open(place, { scheme = 'light', token = service.tokens[0], prepare = () => {} } = {}) {
  const context = await browser.newContext({ colorScheme: scheme, viewport: { width: 1280, height: 900 }, acceptDownloads: true });
  const page = await context.newPage();
  page.complaints = [];
  page.on('request', (request) => {
    if (!request.url().startsWith(service.url + '/') && !request.url().startsWith('blob:')) page.complaints.push(`asks ${request.url()}`);
  });
  // The console says the status alone; what was wrong is in the answer.
  page.on('response', async (response) => {
    if (response.status() >= 500) page.complaints.push(`${response.url()}: ${await response.text().catch(String)}`);
  });
  page.on('pageerror', (error) => page.complaints.push(String(error)));
  page.on('console', (message) => {
    if (message.type() === 'error' && !/status of 40[14]/.test(message.text())) page.complaints.push(message.text());
  });
  await prepare(page);
  if (token) await page.addInitScript((text) => sessionStorage.setItem('lathe-token', text), token);
  await page.goto(`${service.url}/#${place}`);
  return page;
}

async function close(page) {
  assert.deepEqual(page.complaints, []);
  await page.context().close();
}

async function savedText(page, click) {
  const [download] = await Promise.all([page.waitForEvent('download'), click()]);
  return readFileSync(await download.path(), 'utf8');
}

/** Past the page's policy, which forbids a script of another origin. */
async function loadAxe(page) {
  const session = await page.context().newCDPSession(page);
  await session.send('Runtime.evaluate', { expression: readFileSync(axe, 'utf8') });
}

async function seriousFaults(page) {
  const found = await page.evaluate(() => axe.run());
  return found.violations
    .filter((one) => one.impact === 'serious' || one.impact === 'critical')
    .map((one) => `${one.id}: ${one.nodes.map((node) => node.html.slice(0, 120)).join(' | ')}`);
}

try {
  await service.start({ users: ['ada', 'ben'] });
  const job = service.submit(['--model', 'dqn', '--trials', '64', '--threads', '1']);

  await test('a wrong token is refused and a right one opens the page', async () => {
    const page = await open('/jobs', { token: '' });
    await page.getByLabel('Your token').fill('wrong');
    await page.getByRole('button', { name: 'Open' }).click();
    await page.getByRole('alert').filter({ hasText: 'not known' }).waitFor();
    await page.getByLabel('Your token').fill(service.tokens[0]);
    await page.getByRole('button', { name: 'Open' }).click();
    await page.getByRole('link', { name: 'dqn' }).waitFor();
    assert.equal(await page.evaluate(() => localStorage.length), 0);
    await close(page);
  });

  await test('a trial is on the page soon after its commit', async () => {
    const page = await open(`/jobs/${job}/trials`);
    const seen = new Map(); // by trial: when the page first showed a latency
    const rows = page.locator('table tbody tr');
    await eventually('ten trials on the page', async () => {
      const now = Date.now();
      for (const [id, , state] of await rows.evaluateAll((list) => list.map((row) => [...row.cells].map((cell) => cell.innerText))))
        if (state === 'ok' && !seen.has(id)) seen.set(id, now);
      return seen.size >= 10;
    });
    const { trials } = await service.get(`/v1/jobs/${job}/trials`);
    const first = Math.min(...seen.values()); // those were there when the page came
    const delays = trials.filter(({ id }) => seen.get(String(id)) > first).map(({ id, ended_ms }) => seen.get(String(id)) - ended_ms);
    console.log(`        ${delays.length} trials, the slowest after ${Math.max(...delays)} ms`);
    assert.ok(Math.max(...delays) < kMostDelay, `${delays}`);
    await close(page);
  });

  await test('the job is followed to its end, without loading the page again', async () => {
    const page = await open(`/jobs/${job}`);
    await page.getByRole('heading', { name: 'dqn' }).waitFor();
    await service.ended(job);
    await page.locator('h1 + .badge.done').waitFor({ timeout: 10_000 });
    await page.locator('.figures').getByText('64 / 64').waitFor();
    await page.locator('canvas').first().waitFor();
    await close(page);
  });

  const done = await service.ended(job);

  await test('the table twin of a chart and its CSV hold the numbers of the API', async () => {
    const page = await open(`/jobs/${job}`);
    const chart = page.locator('figure').filter({ hasText: 'Best so far' });
    await chart.getByRole('button', { name: /^Table/ }).click();
    const { points } = await service.get(`/v1/jobs/${job}/curve?points=1000`);
    await eventually('a row for each point', async () => (await chart.locator('tbody tr').count()) === points.length, 5);
    const lines = (await savedText(page, () => chart.getByRole('button', { name: /^CSV/ }).click())).trim().split('\r\n');
    assert.equal(lines[0], 'seconds,trials,model_seconds');
    assert.deepEqual(lines.slice(1).map((line) => line.split(',').map(Number)), points.map((row) => row.slice(0, 3)));
    await close(page);
  });

  await test('every chart has a table twin and CSV', async () => {
    for (const tab of ['overview', 'tasks', 'trials', 'model']) {
      const page = await open(`/jobs/${job}/${tab}`);
      const charts = page.locator('figure.chart');
      await charts.first().waitFor();
      for (const chart of await charts.all())
        for (const name of [/^Table/, /^CSV/]) assert.equal(await chart.getByRole('button', { name }).count(), 1, tab);
      await close(page);
    }
  });

  await test('where the time goes: a row a task, shares that add up, a roofline', async () => {
    const page = await open(`/jobs/${job}/tasks`);
    const rows = page.locator('section tbody tr');
    await rows.first().waitFor();
    assert.equal(await rows.count(), done.tasks.tasks.length);
    const text = await savedText(page, () => page.getByRole('button', { name: 'CSV: Tasks' }).click());
    const [head, ...lines] = text.trim().split('\r\n').map((line) => line.split(','));
    const shares = lines.map((line) => Number(line[head.indexOf('share')]));
    assert.ok(Math.abs(shares.reduce((a, b) => a + b) - 1) < 1e-9, `${shares}`);
    await page.locator('figure').filter({ hasText: 'Roofline' }).locator('canvas').waitFor();
    await close(page);
  });

  await test('trials are filtered by task', async () => {
    const page = await open(`/jobs/${job}/trials`);
    const name = done.tasks.tasks.at(-1).name;
    await page.getByLabel('Task').selectOption({ label: name });
    const expected = (await service.get(`/v1/jobs/${job}/trials?workload=${done.workloads.at(-1)}&limit=50`)).trials.length;
    assert.ok(expected > 0);
    const tasks = page.locator('main > .table tbody tr td:nth-child(2)');
    await eventually('rows of that task alone', async () => {
      const names = await tasks.allInnerTexts();
      return names.length === expected && names.every((one) => one === name);
    }, 10);
    await close(page);
  });

  await test('default and best schedule stand side by side', async () => {
    const page = await open(`/jobs/${job}/schedules`);
    await page.locator('.diff').getByText('get_block').first().waitFor();
    await page.getByLabel('Show').selectOption('program');
    await page.locator('.diff').getByText('func ').first().waitFor();
    await page.getByLabel('Show').selectOption('code');
    await page.locator('.diff').getByText('main.compute:').first().waitFor();
    await close(page);
  });

  await test('one trial’s life: leases, samples, schedule', async () => {
    const { trials } = await service.get(`/v1/jobs/${job}/trials?outcome=ok`);
    const life = await service.get(`/v1/trials/${trials[0].id}`);
    assert.equal(life.job, job);
    const page = await open(`/trials/${life.id}`);
    await page.getByText('attempt 1: with a result').waitFor();
    const samples = page.locator('figure').filter({ hasText: 'Samples' });
    await samples.getByRole('button', { name: /^Table/ }).click();
    assert.equal(await samples.locator('tbody tr').count(), life.samples.length);
    await page.getByText('get_block').first().waitFor();
    // What it was measured under came all the way from the worker.
    assert.ok(life.clock_hz > 0 && life.canary >= 1 && life.timer_seconds > 0, JSON.stringify(life));
    assert.match(life.driver, /^Linux /);
    await page.getByText(`driven by ${life.driver}`).waitFor();
    const timer = page.locator('dl.figures > *').filter({ hasText: 'Reading the clock' });
    assert.match(await timer.innerText(), / ns/);
    await close(page);
  });

  await test('a trial whose candidate another one has measured says so', async () => {
    const { trials } = await service.get(`/v1/jobs/${job}/trials?outcome=ok`);
    const { id } = trials.findLast((trial) => trial.purpose === 'search' && trial.seconds !== null);
    execFileSync('python3', [
      '-c',
      'import sqlite3, sys\nwith sqlite3.connect(sys.argv[1], timeout=10) as db: db.execute("UPDATE measurement SET trial = NULL WHERE trial = ?", sys.argv[2:])',
      path.join(service.folder, 't.db'),
      `${id}`,
    ]);
    const page = await open(`/trials/${id}`);
    await page.getByText('the samples that count are with that one').waitFor();
    await close(page);
  });

  await test('a trial’s texts are texts, whatever its worker says', async () => {
    const { trials } = await service.get(`/v1/jobs/${job}/trials?outcome=ok`);
    const { id } = trials[0];
    execFileSync('python3', [fileURLToPath(new URL('hostile.py', import.meta.url)), path.join(service.folder, 't.db'), `${id}`]);
    const life = await service.get(`/v1/trials/${id}`);
    assert.match(life.driver, /^<img src=x/);
    const page = await open(`/trials/${id}`);
    await page.getByText('driven by <img src=x').waitFor();
    assert.equal(await page.locator('main img, main script').count(), 0);
    assert.equal(await page.evaluate(() => window.owned), undefined);
    assert.doesNotMatch(await page.locator('main').innerText(), /NaN|undefined/);
    // Of four samples, that of the two in the middle.
    await page.getByText('Fastest 2.00 µs, median 4.00 µs,').waitFor();
    await close(page);
  });

  await test('an address that is cut off within a character is a page', async () => {
    const page = await open('/%E2%82');
    await page.getByRole('link', { name: 'Fleet' }).waitFor();
    await close(page);
  });

  await test('why a job failed is a line of the list and whole on its page, on a telephone too', async () => {
    const model = path.join(service.folder, 'a-model-with-a-name-that-is-longer-than-a-telephone-is-wide.relay');
    writeFileSync(model, 'def @main(%x: Tensor[(8, 8), float32]) { nn.relo(%x) }\n');
    const broken = service.submit(['--model', model, '--trials', '8', '--threads', '1']);
    const { message } = await service.ended(broken);
    const lines = message.split('\n');
    assert.ok(lines.length > 1, message);
    const page = await open('/');
    await page.setViewportSize({ width: 360, height: 800 });
    const row = page.getByRole('region', { name: 'Jobs', exact: true }).locator('tbody tr').filter({ hasText: 'a-model-with' });
    assert.equal(await row.locator('.message').innerText(), lines[0]);
    assert.ok((await row.boundingBox()).height < 120, 'the row is as high as a page');
    const width = () => page.evaluate(() => document.documentElement.scrollWidth);
    assert.equal(await width(), 360);
    await row.getByRole('link').click();
    assert.equal(await page.locator('pre.failed').innerText(), message);
    assert.equal(await width(), 360);
    await close(page);
  });

  await test('report and module come with the token', async () => {
    const page = await open(`/jobs/${job}/report`);
    await page.getByText('GFLOP/s').first().waitFor();
    const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'Download module' }).click()]);
    assert.equal(download.suggestedFilename(), 'dqn.lathe');
    await close(page);
  });

  await test('fleet, its clocks and its poison list, and history', async () => {
    execFileSync('python3', [fileURLToPath(new URL('quarantined.py', import.meta.url)), path.join(service.folder, 't.db')]);
    const page = await open('/fleet');
    const { workers } = await service.get('/v1/workers');
    const [{ clock }] = workers;
    assert.ok(clock.measurements > 10 && clock.lowest_hz <= clock.latest_hz && clock.latest_hz <= clock.highest_hz, JSON.stringify(clock));
    assert.ok(clock.highest_hz > 1e8 && clock.highest_hz < 1e10, JSON.stringify(clock));
    const table = (name) => page.getByRole('region', { name, exact: true }).locator('tbody tr');
    await table('Workers').filter({ hasText: workers[0].name }).waitFor();
    await table('Clocks').filter({ hasText: workers[0].name }).filter({ hasText: 'GHz' }).waitFor();
    const poison = table('Poison list').filter({ hasText: 'its last words' });
    await poison.waitFor();
    assert.deepEqual((await poison.locator('td').allInnerTexts()).slice(4, 7), ['3', `${workers[0].name} lost/1`, '11']);
    await poison.getByRole('link', { name: 'dqn' }).waitFor();
    await page.getByRole('link', { name: 'History' }).click();
    await page.getByRole('heading', { name: 'dqn over time' }).waitFor();
    await close(page);
  });

  await test('jobs beyond the newest hundred', async () => {
    const { jobs } = await service.get('/v1/jobs');
    const id = (number) => `${String(number).padStart(8, '0')}-0000-4000-8000-000000000000`;
    const all = Array.from({ length: 250 }, (_, i) => ({ ...jobs[0], id: id(250 - i), model: `net${250 - i}` }));
    const page = await open('/jobs', {
      prepare: (page) =>
        page.route('**/v1/jobs?*', (route) => {
          const query = new URL(route.request().url()).searchParams;
          const first = query.get('before') ? all.findIndex((one) => one.id === query.get('before')) + 1 : 0;
          return route.fulfill({ json: { jobs: all.slice(first, first + Number(query.get('limit'))) } });
        }),
    });
    const rows = page.locator('main > .table tbody tr');
    const older = page.getByRole('button', { name: 'Older jobs' });
    for (const shown of [100, 200, 250]) {
      await page.getByRole('link', { name: `net${251 - shown}`, exact: true }).waitFor();
      assert.equal(await rows.count(), shown);
      if (shown < 250) await older.click();
    }
    assert.equal(await older.count(), 0);
    await page.getByLabel('State').selectOption('done');
    await older.waitFor();
    assert.equal(await rows.count(), 100);
    await close(page);
  });

  await test('the keyboard alone: skip, sort, a tab', async () => {
    const page = await open('/jobs');
    await page.getByRole('link', { name: 'dqn' }).waitFor();
    await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    assert.equal(await page.evaluate(() => document.activeElement.id), 'main');
    await page.getByRole('button', { name: 'Best' }).focus();
    await page.keyboard.press('Enter');
    assert.equal(await page.getByRole('columnheader', { name: 'Best' }).getAttribute('aria-sort'), 'descending');
    await page.getByRole('link', { name: 'dqn' }).focus();
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'dqn' }).waitFor();
    await close(page);
  });

  await test('axe finds nothing serious, light or dark', async () => {
    const places = ['/jobs', '/fleet', '/history', '/trials/1', ...['overview', 'tasks', 'trials', 'model', 'schedules', 'report'].map((tab) => `/jobs/${job}/${tab}`)];
    for (const scheme of ['light', 'dark']) {
      const page = await open('/jobs', { scheme });
      await loadAxe(page);
      for (const place of places) {
        await page.evaluate((hash) => (location.hash = hash), place);
        await page.locator('h1').waitFor();
        await page.waitForTimeout(400); // for what the view asks
        assert.deepEqual(await seriousFaults(page), [], `${scheme} ${place}`);
      }
      await close(page);
    }
  });

  await test('a tracker that comes back is followed again', async () => {
    // Long enough to be seen running: it must not be over before the page is there.
    const again = service.submit(['--model', 'dqn', '--trials', '240', '--threads', '1', '--seed', '3']);
    const page = await open(`/jobs/${again}`);
    await page.locator('h1 + .badge.running').waitFor();
    await service.killTracker();
    await page.getByRole('status').filter({ hasText: /\S/ }).waitFor();
    await service.startTracker();
    await service.ended(again);
    await page.locator('h1 + .badge.done').waitFor();
    await page.locator('.figures').getByText('240 / 240').waitFor();
    // What a browser says of a server that went away, depending on where it was in a request.
    const gone = /ERR_CONNECTION_REFUSED|ERR_INCOMPLETE|ERR_EMPTY|ERR_CONNECTION_RESET|ERR_SOCKET_NOT_CONNECTED/;
    assert.ok(page.complaints.every((text) => gone.test(text)), `${page.complaints}`);
    await page.context().close();
  });

  await test('a page whose first answers are lost follows its job all the same', async () => {
    const again = service.submit(['--model', 'dqn', '--trials', '20', '--threads', '1', '--seed', '5']);
    // The tracker goes away before any one of the first questions, or has an error of its own.
    const losses = [(route) => route.abort(), (route) => route.fulfill({ status: 503, json: { error: 'it starts' } })];
    const lose = (pattern) => async (page) => {
      const left = [...losses];
      await page.route(pattern, (route) => (left.length ? left.shift()(route) : route.fallback()));
    };
    const patterns = [`**/jobs/${again}`, '**/curve?*', `**/jobs/${again}/events`];
    const pages = await Promise.all([
      ...patterns.map((pattern) => open(`/jobs/${again}`, { prepare: lose(pattern) })),
      open('/jobs', { prepare: lose('**/v1/jobs?*') }),
    ]);
    await service.ended(again);
    for (const page of pages.slice(0, -1)) await page.locator('h1 + .badge.done').waitFor();
    for (const page of pages.slice(0, -1)) await page.locator('.figures').getByText('20 / 20').waitFor();
    await pages.at(-1).locator(`a[href$="${again}"]`).first().waitFor();
    for (const page of pages) {
      assert.equal(await page.getByText('it starts').count(), 0);
      assert.ok(page.complaints.every((text) => /ERR_FAILED|status of 503|it starts/.test(text)), `${page.complaints}`);
      await page.context().close();
    }
  });

  await test('dark where the system is dark', async () => {
    const page = await open('/jobs', { scheme: 'dark' });
    await page.locator('h1').waitFor();
    const ground = await page.evaluate(() => getComputedStyle(document.body).backgroundColor.match(/\d+/g).map(Number));
    assert.ok(Math.max(...ground) < 60, `${ground}`);
    await close(page);
  });

  await test('all files together are small', async () => {
    let bytes = 0;
    for (const file of ['/', '/app.js', '/app.css', '/icon.svg']) bytes += gzipSync(Buffer.from(await (await fetch(service.url + file)).arrayBuffer())).length;
    console.log(`        ${bytes} bytes gzipped`);
    assert.ok(bytes < kMostBytes);
  });
} finally {
  await browser.close();
  await service.stop();
}
process.exit(failures ? 1 : 0);
