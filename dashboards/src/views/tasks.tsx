// Where the model's time goes: by task, against what the machine's limits allow.
import type { JobDetails, Task } from '../api';
import { digits, latency, percent, times } from '../format';
import { Chart, type Series } from '../parts/chart';
import { Bar, Best } from '../parts/pieces';
import { type Column, CsvButton, Table } from '../parts/table';

interface Row extends Task {
  index: number;
  trials: number;
  best: number; // seconds of one call; 0: not measured
  untuned: number;
  failed: number;
  exhausted: boolean;
  share: number; // of the model's time
  intensity: number; // operations a byte
}

function rowsOf(job: JobDetails): Row[] {
  const tasks = job.tasks?.tasks ?? [];
  const states = job.task_state ?? [];
  const confirmed = job.report?.tasks ?? [];
  const bestOf = (i: number) => {
    const told = confirmed[i];
    return told ? told.after_us * 1e-6 : (states[i]?.[1] ?? 0);
  };
  const all = tasks.reduce((sum, task, i) => sum + task.calls * bestOf(i), 0);
  return tasks.map((task, index) => {
    const [trials = 0, , untuned = 0, failed = 0, exhausted = false] = states[index] ?? [];
    const best = bestOf(index);
    return { ...task, index, trials, best, untuned, failed, exhausted, share: (task.calls * best) / all, intensity: task.flops / task.bytes };
  });
}

const gflops = (row: Row) => (row.best > 0 ? row.flops / row.best / 1e9 : null);
const headroom = (row: Row) => (row.best > 0 && row.limit_seconds ? row.best / row.limit_seconds : null);

const kColumns: Column<Row>[] = [
  { head: 'Task', text: true, value: (row) => row.name },
  { head: 'Calls', value: (row) => row.calls, hint: 'in one run of the model' },
  { head: 'Untuned', csv: 'untuned_seconds', value: (row) => row.untuned || null, show: (row) => latency(row.untuned) },
  { head: 'Best', csv: 'best_seconds', value: (row) => row.best || null, show: (row) => <Best seconds={row.best} /> },
  { head: 'Gain', csv: 'gain', value: (row) => row.untuned / row.best || null, show: (row) => times(row.untuned / row.best) },
  { head: 'Share of time', csv: 'share', value: (row) => row.share, show: (row) => <Bar share={row.share} text={percent(row.share)} /> },
  { head: 'Limit', csv: 'limit_seconds', value: (row) => row.limit_seconds, show: (row) => latency(row.limit_seconds), hint: 'the least time that the roofline allows the direct algorithm' },
  { head: 'by', csv: 'limited_by', text: true, value: (row) => row.limit },
  { head: 'Headroom', csv: 'headroom', value: headroom, show: (row) => (headroom(row) ? times(headroom(row)!) : '–'), hint: 'best over limit: 1× is the roofline' },
  { head: 'GFLOP/s', csv: 'gflops', value: gflops, show: (row) => digits(gflops(row) ?? NaN) },
  { head: 'Trials', value: (row) => row.trials, show: (row) => (row.exhausted ? `${row.trials} (all)` : row.trials), hint: 'all: no candidate is left' },
  { head: 'Failed', value: (row) => row.failed },
];

export function Tasks({ job }: { job: JobDetails }) {
  const rows = rowsOf(job);
  return (
    <>
      <section>
        <div class="title">
          <h2>Where the time goes</h2>
          <CsvButton name="Tasks" columns={kColumns} rows={rows} />
        </div>
        <Table name="Where the time goes" columns={kColumns} rows={rows} rowKey={(row) => row.index} empty="the searcher has not read the model yet" />
        <p class="note">
          Headroom is the best latency over the roofline’s. Below 1× a kernel does less than the direct algorithm (Winograd) or finds its data in a cache.
        </p>
      </section>
      {job.tasks && rows.some((row) => row.best > 0) && <Roofline rows={rows} peak={job.tasks.peak_flops} bandwidth={job.tasks.bandwidth} />}
    </>
  );
}

interface Mark {
  intensity: number;
  row: Row | null; // null: a corner of the roof
}

/** Operations a second over operations a byte, both logarithmic: no kernel that moves its data from memory is above the roof. */
function Roofline({ rows, peak, bandwidth }: { rows: Row[]; peak: number; bandwidth: number }) {
  const measured = rows.filter((row) => row.best > 0 && row.flops > 0);
  const ridge = peak / bandwidth;
  const all = [...measured.map((row) => row.intensity), ridge];
  const [low, high] = [Math.min(...all) / 2, Math.max(...all) * 2];
  const marks: Mark[] = [
    ...measured.map((row) => ({ intensity: row.intensity, row })),
    ...[low, ridge, high].map((intensity) => ({ intensity, row: null })),
  ].sort((a, b) => a.intensity - b.intensity);
  const roof = (intensity: number) => Math.min(peak, intensity * bandwidth) / 1e9;
  const points = (limit: string, color: number): Series => ({
    label: `limited by ${limit}`,
    kind: 'points',
    color,
    values: marks.map(({ row }) => (row?.limit === limit ? gflops(row) : null)),
  });
  const columns: Column<Row>[] = [
    kColumns[0],
    { head: 'FLOP/byte', csv: 'flop_per_byte', value: (row) => row.intensity, show: (row) => digits(row.intensity) },
    { head: 'GFLOP/s', csv: 'gflops', value: gflops, show: (row) => digits(gflops(row) ?? NaN) },
    { head: 'Roof', csv: 'roof_gflops', value: (row) => roof(row.intensity), show: (row) => digits(roof(row.intensity)) },
    { head: 'of the roof', csv: 'share_of_roof', value: (row) => gflops(row)! / roof(row.intensity), show: (row) => percent(gflops(row)! / roof(row.intensity)) },
  ];
  return (
    <Chart
      title="Roofline"
      note={`Peak ${digits(peak / 1e9)} GFLOP/s and ${digits(bandwidth / 1e9)} GB/s from memory, measured on the device for the job’s threads.`}
      x={{ label: 'arithmetic intensity (FLOP/byte)', log: true, show: (value) => digits(value, 2) }}
      y={{ label: 'speed (GFLOP/s)', log: true, show: (value) => digits(value, 2) }}
      xs={marks.map((mark) => mark.intensity)}
      series={[
        { label: 'roof', kind: 'line', color: 3, values: marks.map((mark) => roof(mark.intensity)) },
        ...['compute', 'memory'].filter((limit) => measured.some((row) => row.limit === limit)).map((limit, i) => points(limit, i + 1)),
      ]}
      rows={measured}
      height={320}
      columns={columns}
      rowKey={(row) => row.index}
    />
  );
}
