// The job's trials: a chart of all that were measured, thinned out by the tracker, and the newest as a table.
import { useState } from 'preact/hooks';
import { type Columns, isFinal, type JobDetails, type Trial } from '../api';
import { clock, count, digits, firstLine, latency, relativeError } from '../format';
import { useAsked } from '../live';
import { kOutcomes } from '../names';
import { to } from '../route';
import { Chart } from '../parts/chart';
import { Badge, Best, Choice, Failed } from '../parts/pieces';
import { type Column, CsvButton, Table } from '../parts/table';

const kPage = 50;

export function taskName(job: JobDetails, workload: number): string {
  const index = job.workloads?.indexOf(workload) ?? -1;
  return job.tasks?.tasks[index]?.name ?? `workload ${workload}`;
}

/** Tasks to choose from, by the number that trials know them by. */
export function taskChoices(job: JobDetails): [string, string][] {
  return (job.workloads ?? []).map((workload) => [String(workload), taskName(job, workload)]);
}

export interface Point {
  id: number;
  workload: number;
  predicted: number;
  seconds: number;
}

export function usePoints(job: JobDetails, workload: string): { points: Point[]; measured: number } {
  const path = `/v1/jobs/${job.id}/points?points=3000${workload && `&workload=${workload}`}`;
  const { data } = useAsked<Columns & { measured: number }>(path, isFinal(job) ? 0 : 3000);
  const points = (data?.points ?? []).map(([id, of, , predicted, seconds]) => ({ id: id!, workload: of!, predicted: predicted!, seconds: seconds! }));
  return { points, measured: data?.measured ?? 0 };
}

export function Trials({ job }: { job: JobDetails }) {
  const [workload, setWorkload] = useState('');
  const [outcome, setOutcome] = useState('');
  const [before, setBefore] = useState<number[]>([]); // of each page that was turned
  const path = `/v1/jobs/${job.id}/trials?newest=1&limit=${kPage}&before=${before.at(-1) ?? 0}&workload=${workload || 0}&outcome=${outcome}`;
  const { data, error } = useAsked<{ trials: Trial[] }>(path, isFinal(job) ? 0 : 700);
  const { points, measured } = usePoints(job, workload);
  const rows = data?.trials ?? [];
  const columns: Column<Trial>[] = [
    { head: 'Trial', value: (trial) => trial.id, show: (trial) => <a href={to('trials', trial.id)}>{trial.id}</a> },
    { head: 'Task', text: true, value: (trial) => taskName(job, trial.workload) },
    { head: 'State', text: true, value: (trial) => trial.outcome ?? trial.state, show: (trial) => <Badge state={trial.outcome ?? trial.state} /> },
    { head: 'Latency', csv: 'seconds', value: (trial) => trial.seconds, show: (trial) => <Best seconds={trial.seconds} /> },
    { head: 'Predicted', csv: 'predicted', value: (trial) => trial.predicted || null, show: (trial) => (trial.predicted ? digits(trial.predicted) : '–'), hint: 'the cost model’s score: higher is faster' },
    { head: 'Error', csv: 'relative_error', value: (trial) => trial.relative_error, show: (trial) => relativeError(trial.relative_error), hint: 'of the outputs, relative to the largest value' },
    { head: 'For', csv: 'purpose', text: true, value: (trial) => trial.purpose },
    { head: 'Worker', text: true, value: (trial) => trial.worker || '–' },
    { head: 'Attempts', value: (trial) => trial.attempts },
    { head: 'Ended', csv: 'ended_ms', value: (trial) => trial.ended_ms, show: (trial) => clock(trial.ended_ms) },
    { head: 'Failure', csv: 'failure', text: true, value: (trial) => trial.error, show: (trial) => <span class="clip" title={trial.error}>{firstLine(trial.error)}</span> },
  ];
  const pointColumns: Column<Point>[] = [
    { head: 'Trial', value: (point) => point.id, show: (point) => <a href={to('trials', point.id)}>{point.id}</a> },
    { head: 'Task', text: true, value: (point) => taskName(job, point.workload) },
    { head: 'Latency', csv: 'seconds', value: (point) => point.seconds, show: (point) => latency(point.seconds) },
  ];
  const turned = (choose: (value: string) => void) => (value: string) => {
    choose(value);
    setBefore([]);
  };
  return (
    <>
      <div class="title">
        <h2>Trials</h2>
        <Choice label="Task" value={workload} onChange={turned(setWorkload)} choices={[['', 'all'], ...taskChoices(job)]} />
        <Choice label="Outcome" value={outcome} onChange={turned(setOutcome)} choices={[['', 'all'], ...kOutcomes.map((one): [string, string] => [one, one.replaceAll('_', ' ')])]} />
        <CsvButton name="Trials" columns={columns} rows={rows} />
      </div>
      <Failed text={error} />
      <Chart
        title="Measured latencies"
        note={points.length < measured ? `${count(points.length)} of ${count(measured)} measurements: of each stretch the slowest and the fastest.` : `${count(measured)} measurements.`}
        x={{ label: 'trial', whole: true, show: (value) => String(value) }}
        y={{ label: 'latency', log: true, show: latency, tick: latency }}
        xs={points.map((point) => point.id)}
        series={[{ label: 'measured', kind: 'points', color: 1, values: points.map((point) => point.seconds) }]}
        rows={points}
        columns={pointColumns}
        rowKey={(point) => point.id}
        height={220}
      />
      <Table name="Trials" columns={columns} rows={rows} rowKey={(trial) => trial.id} sortable={false} empty="no such trial" />
      <div class="pager">
        <button type="button" disabled={before.length === 0} onClick={() => setBefore(before.slice(0, -1))}>
          Newer
        </button>
        <button type="button" disabled={rows.length < kPage} onClick={() => setBefore([...before, rows.at(-1)!.id])}>
          Older
        </button>
      </div>
    </>
  );
}
