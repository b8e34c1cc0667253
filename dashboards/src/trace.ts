// A schedule's JSON as the lines that schedules/trace.h prints: `l4, l5 = split(l1, 0, v3) -> 1`.
import type { Trace } from './api';

export function traceText(trace: Trace | null): string {
  if (!trace) return '';
  const input = (value: string | number | string[]) => (Array.isArray(value) ? `"${value[0]}"` : String(value));
  return trace.steps
    .map((step) => {
      const out = step.out?.length ? `${step.out.join(', ')} = ` : '';
      const decision = step.decision?.length ? ` -> ${step.decision.join(', ')}` : '';
      return `${out}${step.do}(${step.in.map(input).join(', ')})${decision}`;
    })
    .join('\n');
}
