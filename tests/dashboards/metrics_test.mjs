// node metrics_test.mjs TUNE DASHBOARDS: promtool on /metrics and on the alert rules, and that these and the Grafana
// dashboard ask for nothing that a tracker does not tell.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { eventually, Service } from './service.mjs';

const [tune, dashboards] = process.argv.slice(2);
const service = new Service(tune);
try {
  await service.start();
  service.submit(['--model', 'dqn', '--trials', '5', '--threads', '1']);
  await eventually('a job in the metrics', async () => /lathe_jobs\{state="running"\} 1/.test(await service.get('/metrics')), 30);
  const metrics = await service.get('/metrics');
  const told = new Set([...metrics.matchAll(/^# TYPE (\S+)/gm)].map(([, name]) => name));
  const rules = path.join(dashboards, 'alerts.yml');
  const grafana = path.join(dashboards, 'grafana.json');
  JSON.parse(readFileSync(grafana, 'utf8'));
  for (const file of [rules, grafana])
    for (const [name] of readFileSync(file, 'utf8').matchAll(/\blathe_[a-z_]+/g)) assert.ok(told.has(name), `${file} asks for ${name}`);
  if (spawnSync('promtool', ['--version']).error) {
    console.log('skipped: no promtool (Debian: prometheus)');
    process.exitCode = 77;
  } else {
    execFileSync('promtool', ['check', 'metrics'], { input: metrics, stdio: ['pipe', 'inherit', 'inherit'] });
    execFileSync('promtool', ['check', 'rules', rules], { stdio: 'inherit' });
  }
} finally {
  await service.stop();
}
