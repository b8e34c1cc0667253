// Asking again and again, while somebody looks.
import { useEffect, useState } from 'preact/hooks';
import { get, isTransient, Pause, Refused } from './api';

export interface Asked<T> {
  data: T | null;
  error: string;
}

/** What `path` answers, asked again `everyMs` after each answer (0: until there is one) and whenever the path changes. */
export function useAsked<T>(path: string | null, everyMs = 0): Asked<T> {
  const [asked, setAsked] = useState<Asked<T>>({ data: null, error: '' });
  useEffect(() => {
    if (path === null) return undefined;
    const abort = new AbortController();
    const pause = new Pause();
    let timer = 0;
    const once = async () => {
      try {
        const data = await get<T>(path, abort.signal);
        if (!abort.signal.aborted) setAsked({ data, error: '' });
      } catch (error) {
        if (abort.signal.aborted) return;
        setAsked((old) => ({ data: error instanceof Refused ? null : old.data, error: textOf(error) }));
        if (error instanceof Refused && error.status === 401) return; // a token is being asked for
        if (everyMs === 0 && isTransient(error)) {
          await pause.wait();
          if (!abort.signal.aborted) once();
        }
      }
      if (everyMs > 0) timer = setTimeout(once, everyMs);
    };
    once();
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [path, everyMs]);
  return asked;
}

export function textOf(error: unknown): string {
  if (error instanceof Refused) return error.message;
  return 'the tracker does not answer';
}
