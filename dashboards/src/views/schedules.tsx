// A task's default schedule and the best one, side by side: the steps, the program that they make, or its machine code.
import { useState } from 'preact/hooks';
import { isFinal, type JobDetails, type Schedule, type Schedules } from '../api';
import { latency, shortStep } from '../format';
import { diffLines } from '../diff';
import { useAsked } from '../live';
import { Choice } from '../parts/pieces';

export function SchedulesTab({ job }: { job: JobDetails }) {
  const [task, setTask] = useState('0');
  const [what, setWhat] = useState<keyof Schedule>('trace');
  const { data, error } = useAsked<Schedules>(`/v1/jobs/${job.id}/schedules?task=${task}`, isFinal(job) ? 0 : 5000);
  const choices = (job.tasks?.tasks ?? []).map((one, i): [string, string] => [String(i), one.name]);
  const [, best, untuned] = job.task_state?.[Number(task)] ?? [0, 0, 0];
  return (
    <>
      <div class="title">
        <h2>Default against best</h2>
        <Choice label="Task" value={task} onChange={setTask} choices={choices} />
        <Choice
          label="Show"
          value={what}
          onChange={(value) => setWhat(value as keyof Schedule)}
          choices={[
            ['trace', 'schedule'],
            ['program', 'program'],
            ['code', 'machine code'],
          ]}
        />
      </div>
      {error && <p class="empty">{error}</p>}
      {data && data.best[what] === undefined && <p class="empty">The machine code is here once the search has ended.</p>}
      {data && <SideBySide left={data.default[what] ?? ''} right={data.best[what] ?? ''} heads={[`default · ${latency(untuned)}`, `best · ${latency(best)}`]} />}
    </>
  );
}

function SideBySide({ left, right, heads }: { left: string; right: string; heads: [string, string] }) {
  const rows = diffLines(left, right);
  const side = (text: string | null, same: boolean, sign: string) => (
    <td class={text === null ? 'none' : same ? '' : sign === '−' ? 'gone' : 'come'}>
      {text !== null && (
        <>
          <span class="sign">{same ? ' ' : sign}</span>
          {shortStep(text)}
        </>
      )}
    </td>
  );
  return (
    <div class="table diff" tabIndex={0} role="region" aria-label="Default and best, line by line">
      {rows.every((row) => row.same) && <p class="note">The default schedule is the best one.</p>}
      <table>
        <thead>
          <tr>
            <th scope="col">{heads[0]}</th>
            <th scope="col">{heads[1]}</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row, i) => (
            <tr key={i}>
              {side(row.left, row.same, '−')}
              {side(row.right, row.same, '+')}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
