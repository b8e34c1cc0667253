// The place in the page is the address after #: /jobs, /jobs/ID/tasks, /fleet, /trials/7, /history/MODEL.
import { signal } from '@preact/signals';

/** An address that was cut off within a character, or typed, leads somewhere too: as it stands. */
function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

const parts = () => location.hash.replace(/^#\/?/, '').split('/').filter(Boolean).map(decoded);
export const route = signal<string[]>(parts());
window.addEventListener('hashchange', () => {
  route.value = parts();
});

export function to(...place: (string | number)[]): string {
  return '#/' + place.map((part) => encodeURIComponent(part)).join('/');
}
