// The poison list: candidates that took too many workers away, and are given to nobody any more.
import type { Quarantined } from '../api';
import { day } from '../format';
import { useAsked } from '../live';
import { Failed } from '../parts/pieces';
import { type Column, CsvButton, Table } from '../parts/table';
import { to } from '../route';

const workers = (trial: Quarantined) => [...new Set(trial.leases.map((lease) => lease.worker))].join(' ');

const kColumns: Column<Quarantined>[] = [
  { head: 'Trial', value: (trial) => trial.id, show: (trial) => <a href={to('trials', trial.id)}>{trial.id}</a> },
  { head: 'Model', text: true, value: (trial) => trial.model, show: (trial) => (trial.job ? <a href={to('jobs', trial.job, 'trials')}>{trial.model}</a> : '–') },
  { head: 'Task', text: true, value: (trial) => trial.task || '–' },
  { head: 'Since', csv: 'ended_ms', value: (trial) => trial.ended_ms, show: (trial) => day(trial.ended_ms) },
  { head: 'Attempts', value: (trial) => trial.leases.length },
  { head: 'Workers', text: true, value: workers },
  { head: 'Signal', value: (trial) => trial.signal || null },
  { head: 'What is left of its errors', text: true, csv: 'error', value: (trial) => trial.error, show: (trial) => <span class="message">{trial.error}</span> },
];

export function Quarantine() {
  const { data, error } = useAsked<{ trials: Quarantined[] }>('/v1/quarantine', 5000);
  const trials = data?.trials ?? [];
  return (
    <section>
      <div class="title">
        <h2>Poison list</h2>
        <CsvButton name="Poison list" columns={kColumns} rows={trials} />
      </div>
      <Failed text={error} />
      {data && <Table name="Poison list" columns={kColumns} rows={trials} rowKey={(trial) => trial.id} empty="no candidate has taken its workers away" />}
    </section>
  );
}
