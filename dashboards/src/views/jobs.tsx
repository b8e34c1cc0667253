// All jobs, newest first, and who has had how much of the devices.
import { useEffect, useState } from 'preact/hooks';
import { bestSeconds, follow, get, isTransient, type Job, Refused, type Status, untunedSeconds } from '../api';
import { ago, count, duration, firstLine, latency, percent, times } from '../format';
import { textOf } from '../live';
import { kJobStates } from '../names';
import { to } from '../route';
import { Badge, Bar, Best, Choice, Failed, Figure } from '../parts/pieces';
import { type Column, CsvButton, Table } from '../parts/table';

const kColumns: Column<Job>[] = [
  { head: 'Model', text: true, value: (job) => job.model, show: (job) => <a class="clip" title={job.model} href={to('jobs', job.id)}>{job.model}</a> },
  { head: 'Job', text: true, value: (job) => job.id, show: (job) => <code>{job.id.slice(0, 8)}</code> },
  { head: 'Owner', text: true, value: (job) => job.owner },
  { head: 'State', text: true, value: (job) => job.state, show: (job) => <State job={job} /> },
  { head: 'Trials', value: (job) => job.trials, show: (job) => <Trials job={job} /> },
  { head: 'Untuned', csv: 'untuned_seconds', value: (job) => untunedSeconds(job) || null, show: (job) => latency(untunedSeconds(job)) },
  { head: 'Best', csv: 'best_seconds', value: (job) => bestSeconds(job) || null, show: (job) => <Best seconds={bestSeconds(job)} /> },
  { head: 'Gain', csv: 'gain', value: gain, show: (job) => times(gain(job)) },
  { head: 'Priority', value: (job) => job.priority },
  { head: 'Device', text: true, value: (job) => job.device_class || '–' },
  { head: 'Submitted', csv: 'created_ms', value: (job) => job.created_ms, show: (job) => ago(job.created_ms) },
];

function gain(job: Job): number {
  return untunedSeconds(job) / bestSeconds(job);
}

function State({ job }: { job: Job }) {
  return (
    <>
      <Badge state={job.state} />
      {job.message && <small class="message" title={job.message}>{firstLine(job.message)}</small>}
      {!job.message && job.ended && job.trials < job.trial_budget && <small>{job.ended}</small>}
    </>
  );
}

function Trials({ job }: { job: Job }) {
  if (!job.trial_budget) return <>{count(job.trials)}</>;
  return <Bar share={job.trials / job.trial_budget} text={`${count(job.trials)} / ${count(job.trial_budget)}`} />;
}

const kPage = 100;

interface Listed {
  jobs: Job[] | null;
  isAll: boolean;
  error: string;
}

/** So many pages from the newest job on, each from the last job of the one before: new jobs move nothing. */
async function list(query: string, pages: number, signal: AbortSignal): Promise<Listed> {
  const all: Job[] = [];
  for (let page = 0; page < pages; page++) {
    const before = all.length > 0 ? `&before=${all[all.length - 1].id}` : '';
    const { jobs } = await get<{ jobs: Job[] }>(`/v1/jobs?limit=${kPage}${before}${query}`, signal);
    all.push(...jobs);
    if (jobs.length < kPage) return { jobs: all, isAll: true, error: '' };
  }
  return { jobs: all, isAll: false, error: '' };
}

/** The list, asked for anew when something happens to a job, at most once a second. */
function useJobs(query: string, pages: number): Listed {
  const [asked, setAsked] = useState<Listed>({ jobs: null, isAll: true, error: '' });
  useEffect(() => {
    const abort = new AbortController();
    let timer = 0;
    let again = false;
    const ask = async () => {
      again = false; // what happens from here on may be missing in the answer
      try {
        const listed = await list(query, pages, abort.signal);
        if (!abort.signal.aborted) setAsked(listed);
      } catch (error) {
        if (abort.signal.aborted) return;
        setAsked((old) => ({ ...old, jobs: error instanceof Refused ? null : old.jobs, error: textOf(error) }));
        again = isTransient(error);
      }
      timer = setTimeout(() => {
        timer = 0;
        if (again) wake();
      }, 1000);
    };
    const wake = () => {
      if (timer) again = true;
      else {
        timer = -1;
        ask();
      }
    };
    wake();
    follow('/v1/events', undefined, wake, () => false, abort.signal, wake);
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [query, pages]);
  return asked;
}

export function Jobs({ status }: { status: Status | null }) {
  const [state, setState] = useState('');
  const [owner, setOwner] = useState('');
  const [pages, setPages] = useState(1);
  const { jobs, isAll, error } = useJobs(`&state=${state}&owner=${encodeURIComponent(owner)}`, pages);
  const choose = (set: (value: string) => void) => (value: string) => {
    set(value);
    setPages(1);
  };
  const owners = [...new Set([...(status?.owners.map((one) => one.name) ?? []), ...(jobs ?? []).map((job) => job.owner)])].sort();
  return (
    <>
      <div class="title">
        <h1>Jobs</h1>
        <Choice label="State" value={state} onChange={choose(setState)} choices={[['', 'all'], ...kJobStates.map((one): [string, string] => [one, one])]} />
        <Choice label="Owner" value={owner} onChange={choose(setOwner)} choices={[['', 'everybody'], ...owners.map((one): [string, string] => [one, one])]} />
        <CsvButton name="Jobs" columns={kColumns} rows={jobs ?? []} />
      </div>
      <Failed text={error} />
      {status && <Queue status={status} />}
      {jobs && (
        <Table name="Jobs" columns={kColumns} rows={jobs} rowKey={(job) => job.id} empty="no job: tune submit --model resnet18 --tracker …" />
      )}
      {jobs && !isAll && (
        <button type="button" class="small" onClick={() => setPages(pages + 1)}>
          Older jobs
        </button>
      )}
      {status && status.owners.length > 0 && <Shares status={status} />}
    </>
  );
}

function Queue({ status }: { status: Status }) {
  const open = (status.jobs.queued ?? 0) + (status.jobs.running ?? 0);
  return (
    <>
      <dl class="figures">
        <Figure label="Open jobs" value={count(open)} note={`${status.jobs.running ?? 0} running`} />
        <Figure label="Trials waiting" value={count(status.pending)} />
        <Figure label="Being measured" value={count(status.leased)} note={`of ${count(status.slots)} slots`} />
        <Figure label="Workers" value={count(status.workers)} />
      </dl>
      {status.unserved.length > 0 && <p class="failed">No worker serves {status.unserved.join(', ')}: trials for it wait.</p>}
    </>
  );
}

type Owner = Status['owners'][number];

function Shares({ status }: { status: Status }) {
  const all = status.owners.reduce((sum, owner) => sum + owner.device_seconds, 0);
  const columns: Column<Owner>[] = [
    { head: 'Owner', text: true, value: (owner) => owner.name },
    { head: 'Weight', value: (owner) => owner.weight },
    { head: 'Device time', csv: 'device_seconds', value: (owner) => owner.device_seconds, show: (owner) => duration(owner.device_seconds) },
    { head: 'Share', csv: 'share', value: (owner) => owner.device_seconds / all, show: (owner) => <Bar share={owner.device_seconds / all} text={percent(owner.device_seconds / all)} /> },
  ];
  return (
    <section class="narrow">
      <div class="title">
        <h2>Shares of the devices</h2>
        <CsvButton name="Shares" columns={columns} rows={status.owners} />
      </div>
      <Table name="Shares of the devices" columns={columns} rows={status.owners} rowKey={(owner) => owner.name} />
      <p class="note">Time that leases held a device since the tracker’s start. While several owners have work, devices are shared by weight.</p>
    </section>
  );
}
