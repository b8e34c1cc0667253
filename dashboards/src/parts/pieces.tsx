// Small things that several views show.
import type { ComponentChildren } from 'preact';
import { latency, percent } from '../format';

export function Badge({ state }: { state: string }) {
  return <span class={`badge ${state}`}>{state.replaceAll('_', ' ')}</span>;
}

export function Figure({ label, value, note }: { label: string; value: ComponentChildren; note?: ComponentChildren }) {
  return (
    <div class="figure">
      <dt>{label}</dt>
      <dd>
        {value}
        {note && <small>{note}</small>}
      </dd>
    </div>
  );
}

/** A latency that the eye should find. */
export function Best({ seconds }: { seconds: number | null | undefined }) {
  return seconds ? <strong>{latency(seconds)}</strong> : <>–</>;
}

export function Bar({ share, text }: { share: number; text?: string }) {
  const whole = Math.max(0, Math.min(1, Number.isFinite(share) ? share : 0));
  return (
    <span class="bar">
      {text ?? percent(share)}
      <span class="track" aria-hidden="true">
        <span style={{ width: `${100 * whole}%` }} />
      </span>
    </span>
  );
}

export function Failed({ text }: { text: string }) {
  return text ? (
    <p class="failed" role="alert">
      {text}
    </p>
  ) : null;
}

export function Choice({ label, value, choices, onChange }: {
  label: string;
  value: string;
  choices: [string, string][]; // what it is, what is shown
  onChange: (value: string) => void;
}) {
  return (
    <label class="choice">
      <span>{label}</span>
      <select value={value} onChange={(event) => onChange(event.currentTarget.value)}>
        {choices.map(([key, text]) => (
          <option value={key} selected={key === value}>
            {text}
          </option>
        ))}
      </select>
    </label>
  );
}
