// A real tracker with a worker, in a folder of its own, for tests of the pages.
import { spawn, execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';

/** Until `ask` returns something true. */
export async function eventually(what, ask, seconds = 60) {
  for (const end = Date.now() + seconds * 1000; Date.now() < end; ) {
    const found = await ask();
    if (found) return found;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error(`after ${seconds} s still not: ${what}`);
}

function freePort() {
  return new Promise((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

export class Service {
  #tune;
  #children = [];
  #tracker;
  #trackerArgs;
  tokens = [];

  constructor(tune) {
    this.#tune = tune;
    this.folder = mkdtempSync(path.join(tmpdir(), 'lathe-pages-'));
  }

  /** With names of `users`, each gets a token and nobody comes in without one. */
  async start({ users = [], worker = true } = {}) {
    const endpoint = `ipc://${this.folder}/workers`;
    this.tokens = users.map((name, i) => this.#makeToken(name, i));
    const principals = users.length ? ['--principals', path.join(this.folder, 'principals')] : [];
    const place = `127.0.0.1:${await freePort()}`;
    this.url = `http://${place}`;
    this.#trackerArgs = ['tracker', '--db', path.join(this.folder, 't.db'), '--listen', endpoint, '--http', place, ...principals];
    await this.startTracker();
    if (!worker) return this;
    this.#spawn(['worker', '--tracker', endpoint]);
    await eventually('worker connects', async () => (await this.get('/v1/status')).workers === 1);
    return this;
  }

  async startTracker() {
    this.#tracker = this.#spawn(this.#trackerArgs);
    await eventually('tracker serves', () => this.#tracker.said.includes('jobs and pages at'));
  }

  async killTracker() {
    this.#tracker.kill('SIGKILL');
    await this.#tracker.ended;
  }

  /** Returns the job's id. `user` counts from 0, where there are users. */
  submit(flags, user = 0) {
    const token = this.tokens.length ? ['--token-file', path.join(this.folder, `token-${user}`)] : [];
    return execFileSync(this.#tune, ['submit', '--tracker', this.url, ...token, ...flags], { encoding: 'utf8' }).trim();
  }

  async get(what) {
    const headers = this.tokens.length ? { Authorization: `Bearer ${this.tokens[0]}` } : {};
    const response = await fetch(this.url + what, { headers });
    if (!response.ok) throw new Error(`${what}: ${response.status} ${await response.text()}`);
    return response.headers.get('content-type') === 'application/json' ? response.json() : response.text();
  }

  /** For as long as it gets on: a busy machine takes its time, and one that is stuck has no new trial, state or message. */
  async ended(job, stillness = 120) {
    let seen = '';
    for (let since = Date.now(); Date.now() - since < stillness * 1000; ) {
      const now = await this.get(`/v1/jobs/${job}`);
      if (['done', 'failed', 'cancelled'].includes(now.state)) return now;
      const standing = JSON.stringify([now.state, now.message, now.crashes, now.trials, now.outcomes]);
      if (standing !== seen) [seen, since] = [standing, Date.now()];
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    throw new Error(`job ${job} has stood still for ${stillness} s: ${seen}`);
  }

  async stop() {
    for (const child of this.#children.reverse()) {
      child.kill('SIGTERM');
      await Promise.race([child.ended, new Promise((resolve) => setTimeout(resolve, 10_000))]);
      child.kill('SIGKILL');
    }
    rmSync(this.folder, { recursive: true, force: true });
  }

  #makeToken(name, number) {
    const file = path.join(this.folder, `token-${number}`);
    const row = execFileSync(this.#tune, ['token', '--name', name, '--out', file]);
    writeFileSync(path.join(this.folder, 'principals'), row, { flag: 'a' });
    return readFileSync(file, 'utf8').trim();
  }

  #spawn(args) {
    const child = spawn(this.#tune, args, { stdio: ['ignore', 'ignore', 'pipe'] });
    child.said = '';
    child.stderr.on('data', (text) => (child.said += text));
    child.ended = new Promise((resolve) => child.once('exit', resolve));
    this.#children.push(child);
    return child;
  }
}
