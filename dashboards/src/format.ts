// Numbers and times as people read them.

/** Three significant digits, without an exponent. */
export function digits(value: number, count = 3): string {
  if (!Number.isFinite(value)) return '–';
  if (value === 0) return '0';
  const before = Math.floor(Math.log10(Math.abs(value))) + 1;
  return value.toFixed(Math.max(0, Math.min(6, count - before)));
}

/** A latency: 56.9 µs, 1.23 ms. Zero and null are "not measured". */
export function latency(seconds: number | null | undefined): string {
  if (!seconds || !Number.isFinite(seconds)) return '–';
  const [scale, unit] = latencyUnit(seconds);
  return `${digits(seconds * scale)} ${unit}`;
}

/** The unit in which a latency is short to write: [of one second so many, its name]. */
export function latencyUnit(seconds: number): [number, string] {
  if (seconds < 1e-6) return [1e9, 'ns'];
  if (seconds < 1e-3) return [1e6, 'µs'];
  if (seconds < 1) return [1e3, 'ms'];
  return [1, 's'];
}

/** In the middle of the two in the middle, where their number is even. */
export function median(sorted: number[]): number {
  return (sorted[(sorted.length - 1) >> 1] + sorted[sorted.length >> 1]) / 2;
}

/** What a message begins with: the other lines show the place in a text that it is about. */
export function firstLine(message: string): string {
  return message.split('\n', 1)[0];
}

/** How long something took: 340 ms, 12 s, 3 min 20 s, 2 h 5 min. */
export function duration(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return '–';
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 60) return `${digits(seconds, 2)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.floor(seconds % 60)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** None beyond what a Date holds: a database may say anything. */
function dateOf(ms: number): Date | null {
  const date = new Date(ms);
  return Number.isNaN(date.getTime()) ? null : date;
}

export function ago(ms: number): string {
  const seconds = Math.max(0, (Date.now() - ms) / 1000);
  if (seconds < 60) return 'just now';
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ago`;
  return dateOf(ms)?.toISOString().slice(0, 10) ?? '–';
}

export function clock(ms: number | null): string {
  const date = ms ? dateOf(ms) : null;
  if (!date) return '–';
  const two = (n: number, width = 2) => String(n).padStart(width, '0');
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}.${two(date.getMilliseconds(), 3)}`;
}

export function day(ms: number): string {
  const date = dateOf(ms);
  if (!date) return '–';
  const two = (n: number) => String(n).padStart(2, '0');
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${two(date.getHours())}:${two(date.getMinutes())}`;
}

export function gigahertz(hertz: number | null): string {
  return hertz ? `${digits(hertz / 1e9)} GHz` : '–';
}

export function count(value: number): string {
  return value.toLocaleString('en-US').replaceAll(',', '\u202f');
}

export function percent(share: number): string {
  return Number.isFinite(share) ? `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %` : '–';
}

export function times(ratio: number): string {
  return Number.isFinite(ratio) && ratio > 0 ? `${ratio.toFixed(2)}×` : '–';
}

export function bytes(value: number): string {
  if (!value) return '–';
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  const power = Math.min(units.length - 1, Math.floor(Math.log2(value) / 10));
  return `${digits(value / 1024 ** power)} ${units[power]}`;
}

/** Of outputs, relative to the largest value. */
export function relativeError(value: number | null): string {
  return value === null ? '–' : value === 0 ? '0' : value.toExponential(0);
}

/** As short as it can be said: ticks are round numbers. */
export function axisNumber(value: number): string {
  return String(Number(value.toPrecision(6)));
}

/** A step of a schedule without the long lists it chose from: what was chosen is said instead. */
export function shortStep(line: string): string {
  const tuple = /^(.*sample_tuple\()(\d+), ([\d, ]+)\) -> (\d+)$/.exec(line);
  if (!tuple) return line;
  const [, head, width, list, chosen] = tuple;
  const numbers = list.split(', ');
  const at = Number(width) * Number(chosen);
  return `${head}${width}, … ${numbers.length / Number(width)} choices …) -> ${chosen}: ${numbers.slice(at, at + Number(width)).join(', ')}`;
}
