// How the model's latency came down, and how the trials ended.
import { type Columns, isFinal, type JobDetails } from '../api';
import { count, digits, duration, latency, latencyUnit } from '../format';
import { Chart } from '../parts/chart';
import { Badge, Bar } from '../parts/pieces';
import { type Column, CsvButton, Table } from '../parts/table';

interface Point {
  seconds: number;
  trials: number;
  model_seconds: number;
}

export function Overview({ job, curve }: { job: JobDetails; curve: Columns }) {
  const column = (name: string) => curve.columns.indexOf(name);
  const [seconds, trials, model] = [column('seconds'), column('trials'), column('model_seconds')];
  const points: Point[] = curve.points.map((row) => ({ seconds: row[seconds]!, trials: row[trials]!, model_seconds: row[model]! }));
  const untuned = job.progress?.default_model_seconds ?? 0;
  const [scale, unit] = latencyUnit(points.at(-1)?.model_seconds ?? 1e-3);
  const columns: Column<Point>[] = [
    { head: 'Searched for', csv: 'seconds', value: (point) => point.seconds, show: (point) => duration(point.seconds) },
    { head: 'Trials', csv: 'trials', value: (point) => point.trials },
    { head: 'Estimate', csv: 'model_seconds', value: (point) => point.model_seconds, show: (point) => latency(point.model_seconds) },
  ];
  return (
    <>
      <Chart
        title="Best so far: one run of the model"
        note={`Sum over the model’s kernels of calls × the best latency measured. ${untuned > 0 ? `Untuned: ${latency(untuned)}.` : ''}`}
        x={{ label: 'search time (s)', show: (value) => digits(value) }}
        y={{ label: `latency (${unit})`, show: (value) => digits(value, 4) }}
        xs={points.map((point) => point.seconds)}
        series={[
          { label: 'best so far', kind: 'step', color: 1, values: points.map((point) => point.model_seconds * scale) },
          { label: 'untuned', kind: 'line', color: 3, dashed: true, values: points.map(() => (untuned > 0 ? untuned * scale : null)) },
        ]}
        rows={points}
        columns={columns}
        rowKey={(point) => points.indexOf(point)}
        empty={isFinal(job) ? 'no estimate: not every task of the model was measured' : 'no estimate yet: it needs a measurement of each of the model’s tasks'}
      />
      <Outcomes job={job} />
    </>
  );
}

function Outcomes({ job }: { job: JobDetails }) {
  const rows = Object.entries(job.outcomes ?? {});
  if (rows.length === 0) return null;
  const all = rows.reduce((sum, [, number]) => sum + number, 0);
  const columns: Column<[string, number]>[] = [
    { head: 'Outcome', text: true, value: ([name]) => name, show: ([name]) => <Badge state={name} /> },
    { head: 'Trials', value: ([, number]) => number, show: ([, number]) => count(number) },
    { head: 'Share', csv: 'share', value: ([, number]) => number / all, show: ([, number]) => <Bar share={number / all} /> },
  ];
  return (
    <section class="narrow">
      <div class="title">
        <h2>How trials ended</h2>
        <CsvButton name="Outcomes" columns={columns} rows={rows} />
      </div>
      <Table name="How trials ended" columns={columns} rows={rows} rowKey={([name]) => name} />
    </section>
  );
}
