// One trial from its submission to its result.
import type { Lease, TrialLife } from '../api';
import { clock, digits, duration, gigahertz, latency, latencyUnit, median, percent, relativeError, shortStep, times } from '../format';
import { useAsked } from '../live';
import { isLast, kTrialStates } from '../names';
import { to } from '../route';
import { traceText } from '../trace';
import { Chart } from '../parts/chart';
import { Badge, Failed, Figure } from '../parts/pieces';
import { type Column, CsvButton, Table } from '../parts/table';

// A candidate has one measurement a device: the first one that is believed.
const kElsewhere = ', and so was its candidate by another trial: the samples that count are with that one';

export function TrialPage({ id }: { id: string }) {
  const first = useAsked<TrialLife>(`/v1/trials/${id}`);
  const open = first.data !== null && !isLast(kTrialStates, first.data.state);
  const { data, error } = useAsked<TrialLife>(open ? `/v1/trials/${id}` : null, 1000);
  const trial = data ?? first.data;
  if (!trial) return first.error || error ? <Failed text={first.error || error} /> : <p class="empty">asking the tracker …</p>;
  const outcome = trial.outcome ?? trial.state;
  return (
    <>
      <div class="title">
        <h1>Trial {trial.id}</h1>
        <Badge state={outcome} />
        {trial.suspect && <Badge state="suspect" />}
        {trial.confirmed && <Badge state="confirmed" />}
      </div>
      <p class="facts">
        {trial.job && <a href={to('jobs', trial.job, 'trials')}>job {trial.job.slice(0, 8)}</a>} · workload {trial.workload} ·{' '}
        {trial.purpose === 'confirm' ? 'measured again to confirm a winner: its samples are with the first measurement of the candidate' : 'measured for the search'}
        {trial.purpose !== 'confirm' && trial.outcome === 'ok' && trial.samples.length === 0 && kElsewhere}
        {trial.compiler && ` · built by ${trial.compiler}, ${trial.revision}`}
        {trial.driver && ` · driven by ${trial.driver}`}
      </p>
      <dl class="figures">
        <Figure label="Latency" value={latency(trial.seconds)} />
        <Figure label="Samples" value={trial.samples.length} />
        <Figure label="Clock" value={gigahertz(trial.clock_hz)} />
        <Figure label="Temperature" value={trial.celsius === null ? '–' : `${digits(trial.celsius)} °C`} />
        <Figure label="Disturbed samples" value={trial.disturbed === null ? '–' : percent(trial.disturbed)} />
        <Figure label="Slowest canary" value={times(trial.canary ?? 0)} />
        <Figure label="Reading the clock" value={trial.timer_seconds ? latency(trial.timer_seconds) : '–'} />
        <Figure label="Predicted score" value={trial.predicted ? digits(trial.predicted) : '–'} />
        <Figure label="Error of the outputs" value={relativeError(trial.relative_error)} />
        <Figure label="Attempts" value={trial.leases.length} />
        <Figure label="In all" value={trial.ended_ms ? duration((trial.ended_ms - trial.created_ms) / 1000) : '–'} />
      </dl>
      {trial.error && (
        <section>
          <h2>Failure{trial.signal > 0 && ` (signal ${trial.signal})`}</h2>
          <pre tabIndex={0} aria-label="Failure">
            {trial.error}
          </pre>
        </section>
      )}
      <Life trial={trial} />
      {trial.samples.length > 0 && <Samples trial={trial} />}
      <section>
        <h2>Schedule</h2>
        <pre tabIndex={0} aria-label="Schedule">
          {traceText(trial.trace).split('\n').map(shortStep).join('\n')}
        </pre>
      </section>
    </>
  );
}

interface Step {
  what: string;
  from: number;
  to: number | null;
  worker: string;
}

const kEndings: Record<string, string> = { result: 'with a result', lost: 'lost with its worker', returned: 'handed back', '': 'goes on' };

function stepsOf(trial: TrialLife): Step[] {
  const steps: Step[] = [];
  let since = trial.created_ms;
  for (const lease of trial.leases) {
    steps.push({ what: 'waiting in the queue', from: since, to: lease.granted_ms, worker: '' });
    steps.push({ what: attempt(lease), from: lease.granted_ms, to: lease.ended_ms, worker: lease.worker });
    since = lease.ended_ms ?? since;
  }
  const last = trial.leases.at(-1);
  if (!last || (last.ended_ms !== null && last.ending !== 'result'))
    steps.push({ what: 'waiting in the queue', from: since, to: trial.ended_ms, worker: '' });
  return steps;
}

const attempt = (lease: Lease) => `attempt ${lease.attempt}: ${kEndings[lease.ending] ?? lease.ending}`;

function Life({ trial }: { trial: TrialLife }) {
  const steps = stepsOf(trial);
  const end = Math.max(...steps.map((step) => step.to ?? Date.now()), trial.created_ms + 1);
  const place = (ms: number) => (100 * (ms - trial.created_ms)) / (end - trial.created_ms);
  const seconds = (step: Step) => (step.to === null ? null : (step.to - step.from) / 1000);
  const columns: Column<Step>[] = [
    { head: 'What', text: true, value: (step) => step.what },
    { head: 'Worker', text: true, value: (step) => step.worker || '–' },
    { head: 'From', csv: 'from_ms', value: (step) => step.from, show: (step) => clock(step.from) },
    { head: 'Until', csv: 'to_ms', value: (step) => step.to, show: (step) => clock(step.to) },
    { head: 'Took', csv: 'seconds', value: seconds, show: (step) => duration(seconds(step)) },
    {
      head: 'When',
      csv: 'share',
      text: true,
      value: (step) => (place(step.to ?? end) - place(step.from)) / 100,
      show: (step) => (
        <span class="span" aria-hidden="true">
          <span class={step.worker ? 'leased' : ''} style={{ left: `${place(step.from)}%`, width: `${Math.max(0.5, place(step.to ?? end) - place(step.from))}%` }} />
        </span>
      ),
    },
  ];
  return (
    <section>
      <div class="title">
        <h2>Its life</h2>
        <CsvButton name={`Trial ${trial.id} life`} columns={columns} rows={steps} />
      </div>
      <Table name="Its life" columns={columns} rows={steps} rowKey={(step) => `${step.what}${step.from}`} sortable={false} />
    </section>
  );
}

function Samples({ trial }: { trial: TrialLife }) {
  const [scale, unit] = latencyUnit(trial.seconds ?? 1e-6);
  const rows = trial.samples.map((seconds, i) => ({ number: i + 1, seconds }));
  const sorted = [...trial.samples].sort((a, b) => a - b);
  return (
    <Chart
      title="Samples"
      note={`Fastest ${latency(sorted[0])}, median ${latency(median(sorted))}, slowest ${latency(sorted.at(-1))}.`}
      x={{ label: 'sample', whole: true, show: (value) => String(value) }}
      y={{ label: `latency (${unit})`, show: (value) => digits(value, 4) }}
      xs={rows.map((row) => row.number)}
      series={[{ label: 'latency', kind: 'points', color: 1, values: rows.map((row) => row.seconds * scale) }]}
      rows={rows}
      columns={[
        { head: 'Sample', value: (row) => row.number },
        { head: 'Latency', csv: 'seconds', value: (row) => row.seconds, show: (row) => latency(row.seconds) },
      ]}
      rowKey={(row) => row.number}
      height={200}
    />
  );
}
