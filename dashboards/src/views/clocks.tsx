// What the newest measurements say of each worker's clock, and of what else ran.
import type { Worker, WorkerClock } from '../api';
import { gigahertz, percent } from '../format';
import { Badge } from '../parts/pieces';
import { type Column, CsvButton, Table } from '../parts/table';

interface Row extends WorkerClock {
  name: string;
  governor: string;
}

const kColumns: Column<Row>[] = [
  { head: 'Worker', text: true, value: (row) => row.name },
  {
    head: 'Clock',
    csv: 'latest_hz',
    value: (row) => row.latest_hz,
    show: (row) => (
      <>
        {row.is_throttled && <Badge state="throttled" />} {gigahertz(row.latest_hz)}
      </>
    ),
    hint: 'of a core, right after the last sample of the newest measurement',
  },
  { head: 'Lowest', csv: 'lowest_hz', value: (row) => row.lowest_hz, show: (row) => gigahertz(row.lowest_hz) },
  { head: 'Highest', csv: 'highest_hz', value: (row) => row.highest_hz, show: (row) => gigahertz(row.highest_hz) },
  { head: 'Throttled', csv: 'throttled_share', value: (row) => row.throttled, show: (row) => percent(row.throttled), hint: 'measurements with a clock below 95 % of the highest' },
  { head: 'Disturbed', csv: 'disturbed_share', value: (row) => row.disturbed, show: (row) => percent(row.disturbed), hint: 'samples during which something else ran' },
  { head: 'Measurements', value: (row) => row.measurements },
  { head: 'Governor', text: true, value: (row) => row.governor || '–' },
];

export function Clocks({ workers }: { workers: Worker[] }) {
  const rows = workers.flatMap((worker) =>
    worker.clock ? [{ ...worker.clock, name: worker.name, governor: String(worker.device?.governor ?? '') }] : [],
  );
  return (
    <section>
      <div class="title">
        <h2>Clocks</h2>
        <CsvButton name="Clocks" columns={kColumns} rows={rows} />
      </div>
      <Table name="Clocks" columns={kColumns} rows={rows} rowKey={(row) => row.name} empty="no worker has measured anything yet" />
    </section>
  );
}
