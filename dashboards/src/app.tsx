// The frame around all views: where one can go, how the service is, and the question for a token.
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { connected, hasToken, setToken, type Status, tokenWanted } from './api';
import { count } from './format';
import { useAsked } from './live';
import { route, to } from './route';
import { Fleet } from './views/fleet';
import { History } from './views/history';
import { JobPage } from './views/job';
import { Jobs } from './views/jobs';
import { TrialPage } from './views/trial';

export function App() {
  if (tokenWanted.value !== null) return <AskToken why={tokenWanted.value} />;
  return <Frame />;
}

function Frame() {
  const { data: status, error } = useAsked<Status>('/v1/status', 2000);
  const [place = 'jobs', id = '', tab = 'overview'] = route.value;
  return (
    <>
      <header class="top">
        <a class="skip" href="#main" onClick={skip}>
          To the content
        </a>
        <a class="mark" href={to('jobs')}>
          Lathe
        </a>
        <nav aria-label="Views">
          <Tab at="jobs" now={place}>Jobs</Tab>
          <Tab at="fleet" now={place}>Fleet</Tab>
          <Tab at="history" now={place}>History</Tab>
        </nav>
        <div class="service">
          {status && <ServiceLine status={status} />}
          <strong class="lost" role="status">
            {error || (connected.value ? '' : 'connection lost, trying again')}
          </strong>
          {hasToken.value && (
            <button type="button" class="small" onClick={() => { setToken(''); location.reload(); }}>
              Forget token
            </button>
          )}
        </div>
      </header>
      <main id="main" tabIndex={-1}>
        {place === 'jobs' && !id && <Jobs status={status} />}
        {place === 'jobs' && id && <JobPage key={id} id={id} tab={tab} />}
        {place === 'fleet' && <Fleet status={status} />}
        {place === 'trials' && <TrialPage key={id} id={id} />}
        {place === 'history' && <History model={id} />}
      </main>
    </>
  );
}

/** The address after # is the place in the page, so a link into the page moves the focus itself. */
function skip(event: Event) {
  event.preventDefault();
  document.getElementById('main')?.focus();
}

function Tab({ at, now, children }: { at: string; now: string; children: ComponentChildren }) {
  return (
    <a href={to(at)} aria-current={now === at ? 'page' : undefined}>
      {children}
    </a>
  );
}

function ServiceLine({ status }: { status: Status }) {
  const workers = status.workers === 1 ? '1 worker' : `${count(status.workers)} workers`;
  return (
    <span title={`version ${status.version}, revision ${status.revision}, epoch ${status.epoch}`}>
      {workers} · {count(status.pending)} waiting · {count(status.leased)} measuring · {status.you.name} ({status.you.role})
    </span>
  );
}

function AskToken({ why }: { why: string }) {
  const [text, setText] = useState('');
  return (
    <main class="ask">
      <h1>Lathe</h1>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          setToken(text.trim());
        }}
      >
        <label for="token">Your token</label>
        <input id="token" type="password" autocomplete="off" value={text} onInput={(event) => setText(event.currentTarget.value)} />
        <button type="submit" disabled={!text.trim()}>
          Open
        </button>
        <p role="alert">{why}</p>
        <p class="note">
          It is the content of the file that <code>tune token --name you --out you.token</code> wrote. It is kept until this tab is closed, and sent to
          this tracker alone.
        </p>
      </form>
    </main>
  );
}
