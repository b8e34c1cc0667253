// The jobs of one model over time: has it become faster, or slower?
import { estimatedSeconds, type Job } from '../api';
import { ago, day, digits, latency, latencyUnit, times } from '../format';
import { useAsked } from '../live';
import { to } from '../route';
import { Chart } from '../parts/chart';
import { Choice, Failed } from '../parts/pieces';
import type { Column } from '../parts/table';
import { Table } from '../parts/table';

export function History({ model }: { model: string }) {
  const { data: all, error } = useAsked<{ jobs: Job[] }>('/v1/jobs?state=done&limit=500');
  const models = [...new Set((all?.jobs ?? []).map((job) => job.model))].sort();
  const chosen = model || models[0] || '';
  const { data } = useAsked<{ jobs: Job[] }>(chosen ? `/v1/jobs?state=done&limit=500&model=${encodeURIComponent(chosen)}` : null);
  const jobs = (data?.jobs ?? []).filter((job) => job.progress && estimatedSeconds(job) > 0).sort((a, b) => a.created_ms - b.created_ms);
  return (
    <>
      <div class="title">
        <h1>History</h1>
        <Choice
          label="Model"
          value={chosen}
          onChange={(name) => {
            location.hash = to('history', name);
          }}
          choices={(models.includes(chosen) || !chosen ? models : [chosen, ...models]).map((one): [string, string] => [one, one])}
        />
      </div>
      <Failed text={error} />
      {all && models.length === 0 && <p class="empty">no job is done yet</p>}
      {jobs.length > 0 && <Timeline model={chosen} jobs={jobs} />}
    </>
  );
}

const kColumns: Column<Job>[] = [
  { head: 'Submitted', text: true, csv: 'created_ms', value: (job) => job.created_ms, show: (job) => <time title={ago(job.created_ms)}>{day(job.created_ms)}</time> },
  { head: 'Job', text: true, value: (job) => job.id, show: (job) => <a href={to('jobs', job.id)}><code>{job.id.slice(0, 8)}</code></a> },
  { head: 'Device', text: true, value: (job) => job.device_class },
  { head: 'Trials', value: (job) => job.trials },
  { head: 'Untuned', csv: 'untuned_seconds', value: (job) => job.progress!.default_model_seconds, show: (job) => latency(job.progress!.default_model_seconds) },
  { head: 'Best', csv: 'best_seconds', value: (job) => estimatedSeconds(job), show: (job) => <strong>{latency(estimatedSeconds(job))}</strong> },
  { head: 'Gain', csv: 'gain', value: (job) => job.progress!.default_model_seconds / estimatedSeconds(job), show: (job) => times(job.progress!.default_model_seconds / estimatedSeconds(job)) },
];

/** A line for each class of devices: their latencies are never compared. */
function Timeline({ model, jobs }: { model: string; jobs: Job[] }) {
  const classes = [...new Set(jobs.map((job) => job.device_class))].sort();
  const [scale, unit] = latencyUnit(estimatedSeconds(jobs[0]));
  return (
    <>
      <Chart
        title={`${model} over time`}
        note="What the winners of each job that is done took when they were measured again, by class of devices. Changes of a few percent are noise: tune gate decides, this shows."
        x={{ label: 'submitted', time: true }}
        y={{ label: `latency (${unit})`, show: (value) => digits(value, 4) }}
        xs={jobs.map((job) => job.created_ms)}
        series={classes.map((name, i) => ({
          label: name,
          kind: 'line',
          marks: true,
          color: (i % 3) + 1,
          values: jobs.map((job) => (job.device_class === name ? estimatedSeconds(job) * scale : null)),
        }))}
        rows={jobs}
        columns={kColumns}
        rowKey={(job) => job.id}
      />
      <Table name={`Jobs of ${model}`} columns={kColumns} rows={[...jobs].reverse()} rowKey={(job) => job.id} />
    </>
  );
}
