// What the tracker tells (docs/jobs.md), and how it is asked. A token lives in this tab's session.
import { signal } from '@preact/signals';
import { isLast, kJobStates } from './names';

export interface Progress {
  seconds: number;
  trials: number;
  budget: number;
  seconds_left: number | null;
  model_seconds: number;
  default_model_seconds: number;
  samples: number;
  rank_correlation: number | null;
  recall: number | null;
}

export interface Job {
  id: string;
  owner: string;
  model: string;
  target: string;
  device_class: string;
  state: string;
  message: string;
  priority: number;
  created_ms: number;
  started_ms: number | null;
  ended_ms: number | null;
  crashes: number;
  trial_budget: number;
  second_budget: number;
  trials: number;
  progress: Progress | null;
  /** One run of the model by the winners' second measurements; null until the job is done. */
  confirmed_seconds: number | null;
  /** One run of the model as it was raced at the job's end, tuned against untuned; null where it was not. */
  raced: { untuned_seconds: number; tuned_seconds: number } | null;
  /** Why its search ended, once its report is there; else "". */
  ended: string;
}

/** Whether nothing more happens to the job. */
export const isFinal = (job: Job) => isLast(kJobStates, job.state);

/** By its kernels, 0 before all are measured: the search's own estimate is too good, as each winner was also lucky. */
export function estimatedSeconds(job: Job): number {
  return job.confirmed_seconds ?? job.progress?.model_seconds ?? 0;
}

/** The best that is known of a job. A budget too small to measure every kernel leaves no estimate, but a race. */
export function bestSeconds(job: Job): number {
  return estimatedSeconds(job) || (job.raced?.tuned_seconds ?? 0);
}

export function untunedSeconds(job: Job): number {
  return (estimatedSeconds(job) > 0 ? job.progress?.default_model_seconds : job.raced?.untuned_seconds) ?? 0;
}

export interface Task {
  name: string;
  digest: string;
  calls: number;
  flops: number;
  bytes: number;
  limit: string;
  limit_seconds: number | null;
}

/** Trials, best and default seconds (0: not measured), failed trials, whether no candidate is left. */
export type TaskState = [number, number, number, number, boolean];

export interface JobDetails extends Job {
  request: { threads: number; seed: number; precision: string };
  tasks: { tasks: Task[]; peak_flops: number; bandwidth: number } | null;
  task_state: TaskState[] | null;
  outcomes?: Record<string, number>;
  workloads?: number[];
  estimate?: { seconds: number; low: number; high: number } | null;
  report: { tasks: ({ after_us: number } | null)[] } | null; // null: left out, of too many
  last_event: number;
}

export interface Trial {
  id: number;
  workload: number;
  purpose: string;
  state: string;
  outcome: string | null;
  predicted: number;
  seconds: number | null;
  relative_error: number | null;
  attempts: number;
  worker: string;
  error: string;
  created_ms: number;
  ended_ms: number | null;
}

export interface Lease {
  attempt: number;
  worker: string;
  epoch: number;
  granted_ms: number;
  ended_ms: number | null;
  ending: string;
}

export interface TrialLife extends Trial {
  job: string;
  trace: Trace | null;
  signal: number;
  samples: number[];
  compiler: string;
  revision: string;
  clock_hz: number | null;
  disturbed: number | null; // the share of samples during which something else ran
  canary: number | null; // the slowest beside the samples, times the best known
  celsius: number | null;
  timer_seconds: number | null; // what reading the clock added to each sample
  driver: string;
  confirmed: boolean;
  suspect: boolean;
  leases: Lease[];
}

export interface Trace {
  steps: { do: string; in: (string | number | string[])[]; out?: string[]; decision?: number[] }[];
}

export interface CanaryLevel {
  seconds: number;
  tolerance: number;
  drift: number;
}

export interface Worker {
  name: string;
  device_class: string;
  backends: string[];
  slots: number;
  leases: number;
  silent_ms: number;
  state: 'ready' | 'suspect' | 'draining' | 'drained';
  suspect: string; // why it is; '' when it is not
  canary: { age_ms: number | null; drift: number | null; compute: CanaryLevel | null; memory: CanaryLevel | null };
  device: Record<string, unknown> | null;
  holding: { trial: number; since_ms: number }[];
  clock: WorkerClock | null; // of its newest measurements
}

export interface WorkerClock {
  measurements: number;
  latest_hz: number;
  lowest_hz: number;
  highest_hz: number;
  is_throttled: boolean; // now
  throttled: number; // share of the measurements
  disturbed: number;
}

export interface Quarantined {
  id: number;
  job: string;
  model: string;
  task: string;
  signal: number;
  error: string;
  ended_ms: number;
  leases: Lease[];
}

export interface Status {
  version: string;
  revision: string;
  you: { name: string; role: string };
  epoch: number;
  workers: number;
  slots: number;
  pending: number;
  leased: number;
  unserved: string[];
  withheld: string[];
  owners: { name: string; weight: number; device_seconds: number }[];
  jobs: Record<string, number>;
}

/** Rows of numbers under named columns. */
export interface Columns {
  columns: string[];
  points: (number | null)[][];
}

export interface Schedule {
  trace: string;
  program: string;
  code?: string; // of the machine; there once the search has ended
}

export interface Schedules {
  task: number;
  default: Schedule;
  best: Schedule;
}

export class Refused extends Error {
  constructor(
    readonly status: number,
    text: string,
  ) {
    super(text);
  }
}

/** Worth asking again: the tracker is away, or says that the fault is its own. */
export const isTransient = (error: unknown) => !(error instanceof Refused) || error.status >= 500;

const kToken = 'lathe-token';
let token = sessionStorage.getItem(kToken) ?? '';
/** Why a token is asked for; null while none is. */
export const tokenWanted = signal<string | null>(null);
export const hasToken = signal(token !== '');

export function setToken(text: string): void {
  token = text;
  hasToken.value = text !== '';
  if (text) sessionStorage.setItem(kToken, text);
  else sessionStorage.removeItem(kToken);
  tokenWanted.value = null;
}

async function ask(path: string, options: RequestInit = {}): Promise<Response> {
  const headers = new Headers(options.headers);
  if (token) headers.set('Authorization', `Bearer ${token}`);
  const response = await fetch(path, { ...options, headers, cache: 'no-store' });
  if (response.ok) return response;
  const text = await response.text();
  let said = text || response.statusText;
  try {
    said = JSON.parse(text).error ?? said;
  } catch {
    // no JSON: the text itself
  }
  if (response.status === 401) tokenWanted.value = said;
  throw new Refused(response.status, said);
}

export async function get<T>(path: string, abort?: AbortSignal): Promise<T> {
  return (await ask(path, { signal: abort })).json();
}

export async function getText(path: string): Promise<string> {
  return (await ask(path)).text();
}

export async function post<T>(path: string): Promise<T> {
  return (await ask(path, { method: 'POST' })).json();
}

/** Asks with the token, which a link cannot carry, and hands the bytes to the browser as a file. */
export async function download(path: string, name: string): Promise<void> {
  saveAs(await (await ask(path)).blob(), name);
}

export function saveAs(blob: Blob, name: string): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** Whether a stream of events is up: a page that shows old figures says so. */
export const connected = signal(true);

const kLeastPauseMs = 500;
const kMostPauseMs = 10_000;
/** Between tries: half a second, then twice as long each time. */
export class Pause {
  private ms = kLeastPauseMs;
  wait(): Promise<void> {
    const now = this.ms;
    this.ms = Math.min(now * 2, kMostPauseMs);
    return new Promise((resolve) => setTimeout(resolve, now));
  }
  reset(): void {
    this.ms = kLeastPauseMs;
  }
}

/**
 * Server-sent events after `last` (all that the server would send by itself when undefined), until `isOver` where a
 * stream ends, or `abort` fires. EventSource cannot send a token, hence this. Any other end is a connection lost or a tracker
 * that stopped: it is taken up after the last event that came. `onOpen` is told of each connection, before its events.
 */
export async function follow(
  path: string,
  last: number | undefined,
  onEvent: (kind: string, data: string) => void,
  isOver: () => boolean,
  abort: AbortSignal,
  onOpen: () => void = () => {},
): Promise<void> {
  for (const pause = new Pause(); !abort.aborted; await pause.wait()) {
    try {
      const headers: Record<string, string> = last === undefined ? {} : { 'Last-Event-ID': String(last) };
      const response = await ask(path, { headers, signal: abort });
      connected.value = true;
      pause.reset();
      onOpen();
      const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
      let rest = '';
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        const blocks = (rest + value).split('\n\n');
        rest = blocks.pop()!;
        for (const block of blocks) {
          const fields = new Map(block.split('\n').map((line) => splitOnce(line)));
          if (fields.has('id')) last = Number(fields.get('id'));
          if (fields.has('data')) onEvent(fields.get('event') ?? 'message', fields.get('data')!);
        }
      }
      if (isOver()) return;
    } catch (error) {
      if (abort.aborted || !isTransient(error)) return;
      connected.value = false;
    }
  }
}

function splitOnce(line: string): [string, string] {
  const colon = line.indexOf(':');
  return colon < 0 ? [line, ''] : [line.slice(0, colon), line.slice(colon + 1).replace(/^ /, '')];
}
