// One job: its figures, kept up to date by the tracker's events, and tabs for what one may want to know of it.
import { useEffect, useState } from 'preact/hooks';
import { bestSeconds, type Columns, download, follow, get, isFinal, isTransient, type Job, type JobDetails, Pause, post, type Progress, type TaskState, untunedSeconds } from '../api';
import { ago, count, day, duration, latency, percent, times } from '../format';
import { textOf } from '../live';
import { to } from '../route';
import { Badge, Bar, Failed, Figure } from '../parts/pieces';
import { CostModel } from './cost_model';
import { Overview } from './overview';
import { Report } from './report';
import { SchedulesTab } from './schedules';
import { Tasks } from './tasks';
import { Trials } from './trials';

const kTabs: [string, string][] = [
  ['overview', 'Overview'],
  ['tasks', 'Where the time goes'],
  ['trials', 'Trials'],
  ['model', 'Cost model'],
  ['schedules', 'Schedules'],
  ['report', 'Report'],
];

const kRefreshMs = 5000; // of what no event tells: outcomes, the estimate's interval

/** The job, and its curve as rows under /curve's columns, from one question each and then from events. */
function useJob(id: string) {
  const [job, setJob] = useState<JobDetails | null>(null);
  const [curve, setCurve] = useState<Columns>({ columns: [], points: [] });
  const [error, setError] = useState('');
  useEffect(() => {
    const abort = new AbortController();
    let over = false;
    let timer = 0;
    const path = `/v1/jobs/${id}`;
    const load = async () => {
      const details = await get<JobDetails>(path, abort.signal);
      setJob(details);
      setCurve(await get<Columns>(`${path}/curve?points=1000`, abort.signal));
      return details;
    };
    const told = (kind: string, text: string) => {
      const data = JSON.parse(text);
      if (kind === 'state') {
        over = isFinal(data as Job);
        setJob((old) => old && { ...old, ...(data as Job) });
      }
      if (kind === 'tasks') setJob((old) => old && { ...old, tasks: data });
      if (kind === 'task_state') setJob((old) => old && { ...old, task_state: data as TaskState[] });
      if (kind === 'progress') {
        const progress = data as Progress;
        setJob((old) => old && { ...old, progress, trials: progress.trials });
        if (progress.model_seconds > 0)
          setCurve((old) => ({ ...old, points: [...old.points, old.columns.map((name) => data[name] ?? null)] }));
      }
    };
    const refresh = () => get<JobDetails>(path, abort.signal).then(setJob, () => {}); // the events say when it is lost
    const live = async () => {
      const details = await load();
      setError('');
      if (isFinal(details)) return;
      timer = setInterval(refresh, kRefreshMs);
      await follow(`${path}/events`, details.last_event, told, () => over, abort.signal);
      if (!abort.signal.aborted) await load(); // it is over: the report is there
    };
    // A tracker may go away between any two of these questions.
    const untilOver = async () => {
      for (const pause = new Pause(); !abort.signal.aborted; await pause.wait()) {
        try {
          return await live();
        } catch (failed) {
          if (abort.signal.aborted) return;
          setError(textOf(failed));
          if (!isTransient(failed)) return;
        } finally {
          clearInterval(timer);
        }
      }
    };
    untilOver();
    return () => {
      abort.abort();
      clearInterval(timer);
    };
  }, [id]);
  return { job, curve, error };
}

export function JobPage({ id, tab }: { id: string; tab: string }) {
  const { job, curve, error } = useJob(id);
  useEffect(() => {
    document.title = job ? `${job.model} · Lathe` : 'Lathe';
    return () => {
      document.title = 'Lathe';
    };
  }, [job?.model]);
  if (!job) return error ? <Failed text={error} /> : <p class="empty">asking the tracker …</p>;
  const threads = job.request.threads;
  return (
    <>
      <div class="title">
        <h1>{job.model}</h1>
        <Badge state={job.state} />
        <Actions job={job} />
      </div>
      <p class="facts">
        <code>{job.id.slice(0, 8)}</code> · {job.owner} · {job.device_class || `target ${job.target}`} ·{' '}
        {threads === 0 ? 'all cores' : threads === 1 ? '1 thread' : `${threads} threads`} · submitted <time title={day(job.created_ms)}>{ago(job.created_ms)}</time>
        {job.crashes > 0 && ` · its searcher crashed ${job.crashes}×`}
        {' · '}
        <a href={to('history', job.model)}>history</a>
      </p>
      <Message text={job.message} failed={job.state === 'failed'} />
      <Failed text={error} />
      <Figures job={job} />
      <nav class="tabs" aria-label="About this job">
        {kTabs.map(([key, text]) => (
          <a href={to('jobs', id, key)} aria-current={tab === key ? 'page' : undefined}>
            {text}
          </a>
        ))}
      </nav>
      {tab === 'overview' && <Overview job={job} curve={curve} />}
      {tab === 'tasks' && <Tasks job={job} />}
      {tab === 'trials' && <Trials job={job} />}
      {tab === 'model' && <CostModel job={job} curve={curve} />}
      {tab === 'schedules' && <SchedulesTab job={job} />}
      {tab === 'report' && <Report job={job} />}
    </>
  );
}

function Figures({ job }: { job: JobDetails }) {
  const progress = job.progress;
  const untuned = untunedSeconds(job);
  const best = bestSeconds(job);
  const budget = job.trial_budget;
  const spread = job.estimate ? (job.estimate.high - job.estimate.low) / 2 / job.estimate.seconds : null;
  return (
    <dl class="figures">
      <Figure label="Untuned" value={latency(untuned)} />
      <Figure label={job.confirmed_seconds ? 'Best, confirmed' : job.raced ? 'Tuned, as raced' : 'Best so far'} value={latency(best)} note={spread !== null && best > 0 && `± ${percent(spread)}`} />
      <Figure label="Gain" value={best > 0 ? times(untuned / best) : '–'} />
      <Figure label="Trials" value={budget ? <Bar share={job.trials / budget} text={`${count(job.trials)} / ${count(budget)}`} /> : count(job.trials)} />
      <Figure
        label="Searched for"
        value={duration(progress?.seconds)}
        note={!isFinal(job) && progress?.seconds_left ? `about ${duration(progress.seconds_left)} left` : undefined}
      />
    </dl>
  );
}

function Actions({ job }: { job: JobDetails }) {
  const [error, setError] = useState('');
  const act = async (doing: () => Promise<unknown>) => {
    try {
      setError('');
      await doing();
    } catch (failed) {
      setError(textOf(failed));
    }
  };
  const change = (verb: string) => act(() => post(`/v1/jobs/${job.id}/${verb}`));
  return (
    <span class="buttons">
      {job.state === 'done' && (
        <button type="button" onClick={() => act(() => download(`/v1/jobs/${job.id}/module`, `${job.model}.lathe`))}>
          Download module
        </button>
      )}
      {(job.state === 'running' || job.state === 'queued') && (
        <button type="button" onClick={() => change('pause')}>
          Pause
        </button>
      )}
      {job.state === 'stopped' && (
        <button type="button" onClick={() => change('resume')}>
          Resume
        </button>
      )}
      {!isFinal(job) && (
        <button type="button" onClick={() => confirm(`Cancel ${job.model} for good?`) && change('cancel')}>
          Cancel
        </button>
      )}
      <Failed text={error} />
    </span>
  );
}

/** Why it failed, or what it waits for. Of several lines each stands below what it points at. */
function Message({ text, failed }: { text: string; failed: boolean }) {
  const kind = failed ? 'failed' : 'note';
  if (!text) return null;
  return text.includes('\n') ? <pre class={kind} tabIndex={0} aria-label="Message">{text}</pre> : <p class={kind}>{text}</p>;
}
