// The workers: their devices, what they hold, and for how long they have been silent; their clocks; and what killed them.
import type { Status, Worker } from '../api';
import { bytes, count, digits, duration } from '../format';
import { useAsked } from '../live';
import { to } from '../route';
import { Badge, Bar, Failed, Figure } from '../parts/pieces';
import { type Column, CsvButton, Table } from '../parts/table';
import { Clocks } from './clocks';
import { Quarantine } from './quarantine';

const kSilentMs = 5000; // a heartbeat is due every two seconds
const kShownLeases = 6;

const fact = (worker: Worker, key: string): number => Number(worker.device?.[key] ?? 0);
const state = (worker: Worker) =>
  worker.silent_ms > kSilentMs ? 'silent' : worker.state !== 'ready' ? worker.state : worker.leases > 0 ? 'busy' : 'idle';
const signed = (share: number) => `${share < 0 ? '−' : '+'}${digits(Math.abs(share) * 100)} %`;

const kColumns: Column<Worker>[] = [
  { head: 'Worker', text: true, value: (worker) => worker.name },
  { head: 'State', text: true, value: state, show: (worker) => <span title={worker.suspect}><Badge state={state(worker)} /></span> },
  { head: 'Canary drift', csv: 'canary_drift', value: (worker) => worker.canary.drift, show: (worker) => (worker.canary.drift === null ? '–' : signed(worker.canary.drift)) },
  { head: 'Device class', text: true, value: (worker) => worker.device_class },
  { head: 'Backends', text: true, value: (worker) => worker.backends.join(' ') },
  { head: 'Slots in use', csv: 'leases', value: (worker) => worker.leases, show: (worker) => <Bar share={worker.leases / worker.slots} text={`${worker.leases} / ${worker.slots}`} /> },
  { head: 'Holds trials', text: true, csv: 'holding', value: (worker) => worker.holding.map((one) => one.trial).join(' '), show: (worker) => <Holding worker={worker} /> },
  { head: 'Silent for', csv: 'silent_ms', value: (worker) => worker.silent_ms, show: (worker) => duration(worker.silent_ms / 1000) },
  { head: 'Memory', csv: 'memory_bytes', value: (worker) => fact(worker, 'memory_bytes') || null, show: (worker) => bytes(fact(worker, 'memory_bytes')) },
  { head: 'Peak', csv: 'peak_flops', value: (worker) => fact(worker, 'peak_flops') || null, show: (worker) => (fact(worker, 'peak_flops') ? `${digits(fact(worker, 'peak_flops') / 1e9)} GFLOP/s` : '–') },
  { head: 'Bandwidth', csv: 'memory_bandwidth', value: (worker) => fact(worker, 'memory_bandwidth') || null, show: (worker) => (fact(worker, 'memory_bandwidth') ? `${digits(fact(worker, 'memory_bandwidth') / 1e9)} GB/s` : '–') },
];

function Holding({ worker }: { worker: Worker }) {
  if (worker.holding.length === 0) return <>–</>;
  const more = worker.leases - Math.min(kShownLeases, worker.holding.length);
  return (
    <>
      {worker.holding.slice(0, kShownLeases).map(({ trial }, i) => (
        <>
          {i > 0 && ', '}
          <a href={to('trials', trial)}>{trial}</a>
        </>
      ))}
      {more > 0 && ` and ${more} more`}
    </>
  );
}

export function Fleet({ status }: { status: Status | null }) {
  const { data, error } = useAsked<{ workers: Worker[] }>('/v1/workers', 1000);
  const workers = data?.workers ?? [];
  const number = (wanted: string) => workers.filter((worker) => state(worker) === wanted).length;
  const sum = (of: (worker: Worker) => number) => workers.reduce((all, worker) => all + of(worker), 0);
  return (
    <>
      <div class="title">
        <h1>Fleet</h1>
        <CsvButton name="Fleet" columns={kColumns} rows={workers} />
      </div>
      <Failed text={error} />
      <dl class="figures">
        <Figure label="Workers" value={count(workers.length)} note={number('silent') > 0 && `${number('silent')} silent`} />
        <Figure label="Suspect or drained" value={count(workers.filter((worker) => worker.state !== 'ready').length)} />
        <Figure label="Busy" value={count(number('busy'))} />
        <Figure label="Slots in use" value={`${sum((worker) => worker.leases)} / ${sum((worker) => worker.slots)}`} />
        <Figure label="Trials waiting" value={count(status?.pending ?? 0)} />
      </dl>
      {data && (
        <Table name="Workers" columns={kColumns} rows={workers} rowKey={(worker) => worker.name} empty="no worker: tune worker --tracker tcp://HOST:9190" />
      )}
      {workers.filter((worker) => worker.suspect).map((worker) => (
        <p class="note" key={worker.name}>
          {worker.name} is suspect: {worker.suspect}.
        </p>
      ))}
      <p class="note">
        A worker that is silent for 12 seconds loses its leases to others. One whose canary drifts, or that fails what others do well, gets none.
      </p>
      {data && <Clocks workers={workers} />}
      <Quarantine />
    </>
  );
}
